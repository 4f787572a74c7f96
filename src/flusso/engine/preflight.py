"""Look at the source before anything is made or written: the server, and how the schemas fit the database.

`check` shows what is found here; a pipeline begins with the same look and does not start on errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flusso.builder.check.costs import count_rows
from flusso.builder.check.database import check_schemas
from flusso.builder.check.facts import read_facts
from flusso.builder.plan import (
    IndexPlan,
    Reference,
    compile_index,
    compile_referring,
    find_shared_rows,
    watched_tables,
)
from flusso.capture.coverage import Coverage, inspect_coverage
from flusso.capture.identity import IdentityNeed
from flusso.capture.prerequisites import inspect_failover, inspect_prerequisites, inspect_replica
from flusso.catalog import Catalog
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.engine.blind import Blind, Seen, as_served, find_blind, find_exact, find_seen, weigh
from flusso.engine.continuity import index_of
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import SchemaError, SourceRefused
from flusso.postgres.connect import Connection
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.sinks.base import IndexState, SinkSpec, States


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
    seen: tuple[Seen, ...] = ()
    """Relations that the WAL keeps exact."""


def examine(conn: Connection, spec: PipelineSpec, ask: Callable[[], Collection[States]] = tuple) -> Examined:
    """Find all there is to find; changes nothing.

    `ask` gives what sinks remember: whether the generation that readers see has the references that are
    needed. It is called where that makes a difference.
    """
    findings = inspect_prerequisites(conn, spec.dsn, spec.slot)
    if spec.read_dsn is not None:
        findings += inspect_replica(conn, spec.read_dsn)
    findings += inspect_failover(conn, is_failover=spec.is_failover)
    catalog = read_catalog(conn, {table for index in spec.indexes for table in tables_of(index.schema)})
    schemas = {index.name: index.schema for index in spec.indexes}
    checked = check_schemas(conn, schemas, catalog, referring=spec.referring)
    findings += checked.findings
    watched = watched_tables(checked.plans)
    findings += find_shared_rows(watched)
    coverage = inspect_coverage(conn, spec.publication, watched, manages_identity=spec.manages_identity)
    findings += coverage.findings(manage=spec.manage_publication)
    blind = _as_told(_blind(spec, checked.plans, coverage, checked.rows), ask)
    findings += (one.finding() for one in blind)
    if spec.manages_identity:
        findings += (_managed(need) for need in coverage.identities if need.is_mendable)
    seen = tuple(find_seen(checked.plans, _needs(spec, coverage)))
    plans = _as_managed(spec, checked.plans, coverage)
    return Examined(tuple(findings), catalog, plans, coverage, blind, seen)


def _as_managed(
    spec: PipelineSpec, plans: tuple[IndexPlan, ...], coverage: Coverage
) -> tuple[IndexPlan, ...]:
    """Say which paths are exact once identities are set, whatever stands there now: where one that showed
    less was there for a while, the log has rows whose old links it hides, and they must not pass unseen."""
    if not spec.manages_identity:
        return plans
    needs = _needs(spec, coverage)
    return tuple(replace(plan, exact=find_exact(plan, needs)) for plan in plans)


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


def plans_as_kept(
    indexes: Iterable[IndexSpec], examined: Examined, known: Collection[States]
) -> dict[str, IndexPlan]:
    """Give the plans by name, each with the references that generations in the sinks have already.

    A generation has them as long as it lives: changes from before an identity was set may be still to come.
    """
    schemas = {index.name: index.schema for index in indexes}
    plans: dict[str, IndexPlan] = {}
    for plan in examined.plans:
        states = [state for each in known for state in each.of(index_of(plan.index))]
        kept = {Reference.parse(text) for state in states for text in state.references}
        if not kept <= set(plan.references):
            wanted = kept | set(plan.references)
            kept_too = compile_index(plan.index, schemas[plan.index], examined.catalog, wanted)
            plan = replace(kept_too, exact=plan.exact)
        plans[plan.index] = plan
    return plans


def look_for_blind(conn: Connection, spec: PipelineSpec) -> tuple[Blind, ...]:
    """Find what may go stale, and nothing else; `SchemaError` when an index does not fit the database."""
    return look_at_relations(conn, spec)[0]


def look_at_relations(conn: Connection, spec: PipelineSpec) -> tuple[tuple[Blind, ...], tuple[Seen, ...]]:
    """Find what may go stale, and what the WAL keeps exact; `SchemaError` as above.

    The sinks are asked what the generations that readers see have references for.
    """
    catalog = read_catalog(conn, {table for index in spec.indexes for table in tables_of(index.schema)})
    facts = read_facts(conn, catalog)
    plans, rows = [], {}
    for index in spec.indexes:
        compile_ = compile_referring if index.name in spec.referring else compile_index
        plans.append(compile_(index.name, index.schema, catalog))
        rows[index.name] = count_rows(index.name, index.schema, catalog, facts)
    coverage = inspect_coverage(conn, spec.publication, watched_tables(plans))
    found = _blind(spec, plans, coverage, rows)
    sinks = dict.fromkeys(sink for index in spec.indexes for sink in index.sinks)
    told = _as_told(found, lambda: [_states(sink) for sink in sinks if sink.capabilities.keeps_state])
    return told, tuple(find_seen(plans, _needs(spec, coverage)))


def _as_told(blind: tuple[Blind, ...], ask: Callable[[], Collection[States]]) -> tuple[Blind, ...]:
    """Take what readers see into account; without references nobody is asked."""
    return tuple(as_served(blind, ask())) if any(one.is_kept for one in blind) else blind


def _states(spec: SinkSpec) -> States:
    with contextlib.closing(spec.open()) as sink:
        return sink.load_states()


def _blind(
    spec: PipelineSpec,
    plans: Sequence[IndexPlan],
    coverage: Coverage,
    rows: Mapping[str, Mapping[str, float]],
) -> tuple[Blind, ...]:
    if not spec.reports_blind:
        return ()
    mute = "" if not spec.keeps_references else "(none of its sinks keeps references)"
    found = [
        replace(
            one,
            rows=rows[one.index].get(one.field, 0.0),
            note="" if one.index in spec.referring else mute,
        )
        for one in find_blind(plans, _needs(spec, coverage))
    ]
    return tuple(weigh(found, spec.max_references))


def _needs(spec: PipelineSpec, coverage: Coverage) -> list[IdentityNeed]:
    """List the identities that lack something and are not set by `flusso run`."""
    return [need for need in coverage.identities if not (spec.manages_identity and need.is_mendable)]


def _managed(need: IdentityNeed) -> Diagnostic:
    message = f"the replica identity of {need.leaf} does not show {', '.join(need.lacking) or 'old rows'}"
    return Diagnostic(Code.MANAGED_IDENTITY, message, f"flusso run sets it: {need.sql}")
