"""Find what makes building and following slow: columns that rows are looked up by without an index, and rows
that are part of very many documents. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flusso.builder.check.facts import Facts
from flusso.builder.check.levels import Level
from flusso.catalog import Table, TableKind
from flusso.diagnostic import Code, Diagnostic
from flusso.postgres.identifiers import quote, quote_table
from flusso.schema.model import Columns, IndexSchema, Join, JoinKind

FAN_OUT_LIMIT = 10_000
"""Above so many documents touched by a change of one row, on average, it is worth a word."""


def find_unindexed(level: Level, facts: Facts) -> Iterator[Diagnostic]:
    """Name each column that this level is looked up by, from above or from below, and that has no index."""
    for key, table, columns in _lookups(level):
        if not all(name in table.columns for name in columns) or _is_indexed(table, columns, facts):
            continue
        how = "create index" if table.kind is TableKind.PARTITIONED else "create index concurrently"
        listed = ", ".join(quote(name) for name in columns)
        yield level.spot.says(
            Code.MISSING_INDEX,
            f"rows of {table.name} are looked up by {', '.join(columns)}, which has no index: "
            "each change reads the whole table",
            key=key,
            hint=f"{how} on {quote_table(table.name)} ({listed});",
        )


def find_fan_out(level: Level, facts: Facts) -> Iterator[Diagnostic]:
    """Warn of a table whose rows are each part of very many documents, as far as statistics tell."""
    count = _documents(level, facts)
    if count > FAN_OUT_LIMIT:
        yield level.spot.says(
            Code.FAN_OUT,
            f"one row of {level.table.name} is part of about {rounded(count):,} documents: "
            "a change of it rewrites them all",
            key="table",
            hint="leave columns that change often out of this field, or out of the index",
        )


def _lookups(level: Level) -> Iterator[tuple[str, Table, Columns]]:
    item = level.item
    if isinstance(item, IndexSchema):
        return
    if item.through is not None and level.junction is not None:
        yield "through.left_key", level.junction, item.through.left_key
        yield "through.right_key", level.junction, item.through.right_key
    elif isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
        if level.parent is not None:
            yield "column", level.parent.table, item.column
    else:
        yield "foreign_key", level.table, item.foreign_key


def _is_indexed(table: Table, columns: Columns, facts: Facts) -> bool:
    """Say whether an index begins with these columns, in any order."""
    return any(
        set(index.columns[: len(columns)]) == set(columns) for index in facts.tables[table.name].indexes
    )


def _documents(level: Level, facts: Facts) -> float:
    """Estimate how many documents one row of a level is part of."""
    if level.parent is None:
        return 1
    above = _documents(level.parent, facts)
    item = level.item
    if isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
        return above * rows_for_each(level.parent.table, item.column, facts)
    if not isinstance(item, IndexSchema) and item.through is not None and level.junction is not None:
        return above * rows_for_each(level.junction, item.through.right_key, facts)
    return above


def rows_for_each(table: Table, columns: Columns, facts: Facts) -> float:
    """Estimate how many rows share a value of the columns; one when nothing is known."""
    known = facts.tables[table.name]
    counts = [known.distinct[name] for name in columns if known.distinct.get(name)]
    if not counts or known.rows <= 0:
        return 1
    present = 1 - max(known.nulls.get(name, 0) for name in columns)
    return max(1, known.rows * present / max(counts))


def rounded(count: float) -> int:
    """Keep two digits: it is an estimate."""
    digits = max(0, len(str(int(count))) - 2)
    return int(round(count, -digits))
