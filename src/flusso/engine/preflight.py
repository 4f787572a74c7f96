"""Look at the source before anything is made or written: the server, and how the schemas fit the database.

`check` shows what is found here; a pipeline begins with the same look and does not start on errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from flusso.builder.check.database import check_schemas
from flusso.builder.plan import IndexPlan, find_shared_rows, watched_tables
from flusso.capture.coverage import Coverage, inspect_coverage
from flusso.capture.identity import IdentityNeed
from flusso.capture.prerequisites import inspect_failover, inspect_prerequisites, inspect_replica
from flusso.catalog import Catalog
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.engine.spec import PipelineSpec
from flusso.errors import SchemaError, SourceRefused
from flusso.postgres.connect import Connection
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found, and what was read on the way."""

    findings: tuple[Diagnostic, ...]
    catalog: Catalog
    plans: tuple[IndexPlan, ...]
    """Of the indexes that fit."""
    coverage: Coverage


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
    if spec.reports_blind:
        needs = [need for need in coverage.identities if not (spec.manages_identity and need.is_mendable)]
        findings += _blind(checked.plans, needs)
    if spec.manages_identity:
        findings += (_managed(need) for need in coverage.identities if need.is_mendable)
    return Examined(tuple(findings), catalog, checked.plans, coverage)


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


def _blind(plans: Sequence[IndexPlan], needs: Collection[IdentityNeed]) -> Iterator[Diagnostic]:
    """Tell each place whose old links the identity of a table does not show."""
    for plan in plans:
        for path in plan.paths:
            lacking = [
                n for n in needs if n.table == path.table and not set(path.columns).isdisjoint(n.lacking)
            ]
            if not lacking:
                continue
            left = f'"{path.field}"' if path.field else "its document"
            reasons = dict.fromkeys(f"{need.leaf} {need.reason}" for need in lacking if need.reason)
            yield Diagnostic(
                Code.BLIND_RELATION,
                f"a row of {path.table} that is deleted or moved leaves {left} stale: "
                f"the WAL does not carry its old {', '.join(path.columns)}",
                " ".join(f"{need.sql};" for need in lacking if need.sql) or "; ".join(reasons) or None,
                index=plan.index,
                field=path.field,
            )


def _managed(need: IdentityNeed) -> Diagnostic:
    message = f"the replica identity of {need.leaf} does not show {', '.join(need.lacking) or 'old rows'}"
    return Diagnostic(Code.MANAGED_IDENTITY, message, f"flusso run sets it: {need.sql}")
