"""Look at the source before anything is made or written: the server, and how the schemas fit the database.

`check` shows what is found here; a pipeline begins with the same look and does not start on errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flusso.builder.check.database import check_schemas
from flusso.builder.plan import IndexPlan, compile_index, find_shared_rows, watched_tables
from flusso.builder.references import Reference
from flusso.capture.coverage import Coverage, inspect_coverage
from flusso.capture.identity import IdentityNeed
from flusso.capture.prerequisites import inspect_failover, inspect_prerequisites, inspect_replica
from flusso.catalog import Catalog
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.engine.blind import Blind, find_blind
from flusso.engine.spec import PipelineSpec
from flusso.errors import SchemaError, SourceRefused
from flusso.postgres.connect import Connection
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.sinks.base import IndexState


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found, and what was read on the way."""

    findings: tuple[Diagnostic, ...]
    catalog: Catalog
    plans: tuple[IndexPlan, ...]
    """Of the indexes that fit."""
    coverage: Coverage
    blind: tuple[Blind, ...] = ()
    """What may go stale, as it is told."""


def examine(conn: Connection, spec: PipelineSpec) -> Examined:
    """Find all there is to find; changes nothing."""
    findings = inspect_prerequisites(conn, spec.dsn, spec.slot)
    if spec.read_dsn is not None:
        findings += inspect_replica(conn, spec.read_dsn)
    findings += inspect_failover(conn, is_failover=spec.is_failover)
    catalog = read_catalog(conn, {table for index in spec.indexes for table in tables_of(index.schema)})
    checked = check_schemas(conn, {index.name: index.schema for index in spec.indexes}, catalog)
    findings += checked.findings
    watched = watched_tables(checked.plans)
    findings += find_shared_rows(watched)
    coverage = inspect_coverage(conn, spec.publication, watched, manages_identity=spec.manages_identity)
    findings += coverage.findings(manage=spec.manage_publication)
    blind = _blind(spec, checked.plans, coverage)
    findings += (one.finding() for one in blind)
    if spec.manages_identity:
        findings += (_managed(need) for need in coverage.identities if need.is_mendable)
    return Examined(tuple(findings), catalog, checked.plans, coverage, blind)


def refuse(findings: Sequence[Diagnostic]) -> None:
    """Raise when there are errors: about a schema if any is, else about the source."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if any(finding.index for finding in errors):
        raise SchemaError.of(errors)
    if errors:
        raise SourceRefused(
            "; ".join(finding.message for finding in errors),
            hint="; ".join(finding.hint for finding in errors if finding.hint) or None,
        )


def compile_indexes(
    conn: Connection, spec: PipelineSpec, states: Iterable[IndexState] = ()
) -> list[IndexPlan]:
    """Compile every index as its generations are written, with their references.

    `SchemaError` when one does not fit the database.
    """
    catalog = read_catalog(conn, {table for index in spec.indexes for table in tables_of(index.schema)})
    kept: dict[str, set[Reference]] = {}
    for state in states:
        kept.setdefault(state.index, set()).update(map(Reference.parse, state.references))
    return [
        compile_index(index.name, index.schema, catalog, kept.get(index.name, ())) for index in spec.indexes
    ]


def look_for_blind(conn: Connection, spec: PipelineSpec) -> tuple[Blind, ...]:
    """Find what may go stale, and nothing else; `SchemaError` when an index does not fit the database."""
    plans = compile_indexes(conn, spec)
    return _blind(spec, plans, inspect_coverage(conn, spec.publication, watched_tables(plans)))


def _blind(spec: PipelineSpec, plans: Sequence[IndexPlan], coverage: Coverage) -> tuple[Blind, ...]:
    if not spec.reports_blind:
        return ()
    needs = [need for need in coverage.identities if not (spec.manages_identity and need.is_mendable)]
    return tuple(find_blind(plans, needs))


def _managed(need: IdentityNeed) -> Diagnostic:
    message = f"the replica identity of {need.leaf} does not show {', '.join(need.lacking) or 'old rows'}"
    return Diagnostic(Code.MANAGED_IDENTITY, message, f"flusso run sets it: {need.sql}")
