"""Check schemas against a database: everything that can be found, in one go and without changing anything.

Called by `engine/preflight` with the connection and the catalog. The other modules of this package each know
one kind of mistake; here is their order, and what makes sense only when something else is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from flusso.builder.check.access import find_barred
from flusso.builder.check.columns import find_nullable, find_other_labels, find_unfit_key
from flusso.builder.check.costs import count_rows
from flusso.builder.check.facts import Facts, read_facts, read_table_names
from flusso.builder.check.fit import find_problems
from flusso.builder.check.levels import Level, levels
from flusso.builder.check.lookups import find_fan_out, find_unindexed
from flusso.builder.check.probe import probe_filters, probe_statement
from flusso.builder.plan import IndexPlan, compile_index, compile_referring
from flusso.catalog import Catalog
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.postgres.connect import Connection
from flusso.schema.model import IndexSchema, tables_of


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found, and the plans of the indexes that can be compiled."""

    findings: tuple[Diagnostic, ...]
    plans: tuple[IndexPlan, ...]
    rows: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By index and field an estimate of how many related rows a document has there."""


def check_schemas(
    conn: Connection,
    schemas: Mapping[str, IndexSchema],
    catalog: Catalog,
    *,
    referring: Collection[str] = (),
) -> Checked:
    """Check all indexes; a connection in autocommit. Those `referring` keep references where blind."""
    facts = read_facts(conn, catalog)
    wanted = {table for schema in schemas.values() for table in tables_of(schema)}
    others = read_table_names(conn) if wanted - set(catalog.tables) else []
    rows = {index: count_rows(index, schema, catalog, facts) for index, schema in schemas.items()}
    findings: list[Diagnostic] = []
    plans: list[IndexPlan] = []
    for index, schema in schemas.items():
        problems = find_problems(index, schema, catalog, others=others)
        own = list(problems)
        for level in levels(index, schema, catalog):
            own += _look(conn, level, facts)
        if not problems:
            compile_ = compile_referring if index in referring else compile_index
            plan = compile_(index, schema, catalog)
            plans.append(plan)
            if not any(found.severity is Severity.ERROR for found in own):
                own += probe_statement(conn, plan)
        findings += own
    return Checked(tuple(_once(findings)), tuple(plans), rows)


def _look(conn: Connection, level: Level, facts: Facts) -> Iterator[Diagnostic]:
    barred = list(find_barred(level.spot, level.table.name, facts))
    if level.junction is not None:
        barred += find_barred(level.spot, level.junction.name, facts, "through.table")
    yield from barred
    yield from find_unfit_key(level, facts)
    yield from find_nullable(level)
    yield from find_other_labels(level, facts)
    yield from find_unindexed(level, facts)
    yield from find_fan_out(level, facts)
    if not barred:
        yield from probe_filters(conn, level, facts)


def _once(findings: list[Diagnostic]) -> Iterator[Diagnostic]:
    """Leave out what was said before, and indexes and privileges that another field already asks for."""
    said: set[tuple[object, ...]] = set()
    for finding in findings:
        mark: tuple[object, ...] = (finding,)
        if finding.code in (Code.MISSING_INDEX, Code.MISSING_PRIVILEGE, Code.ROW_SECURITY):
            mark = (finding.code, finding.hint)
        if mark not in said:
            said.add(mark)
            yield finding
