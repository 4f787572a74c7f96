"""How a changed row leads to the documents it is part of.

Pure. Every place where a table stands in a schema gives a path: the columns of the changed row to begin
with, and the hops from there to keys of the root. The beginning comes from the WAL, old image and new,
so both the parent that a row left and the one it joined are found. Each hop is one SELECT over current
data, from the keys of one level to the keys of the level above. With no hops left the values are a root
key.

That is enough: when a row in between was itself moved or deleted, that row's own change starts a path of
its own, from its own old link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flusso.builder.keys import columns_of, convert_texts, find_limits, match_keys, select_texts
from flusso.catalog import Catalog, Table, TableKind, TableName
from flusso.postgres.identifiers import quote_table
from flusso.schema.model import Aggregate, Columns, Field, Group, IndexSchema, Join, JoinKind


@dataclass(frozen=True, slots=True)
class Hop:
    """A SELECT from tuples of values to tuples of values: one text array for each column in, text out."""

    sql: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Leaves out numbers that the next columns cannot hold: nothing there equals them, and asking for them
    would be an error."""

    limits: tuple[int, ...]
    """For each column the first number that is too large; 0 where there is none."""

    def fits(self, key: Sequence[str]) -> bool:
        """Whether every column can hold its value."""
        pairs = zip(key, self.limits, strict=True)
        return all(not limit or -limit <= int(value) < limit for value, limit in pairs)


Step: TypeAlias = Hop | Limits


@dataclass(frozen=True, slots=True)
class Path:
    """One way from a table to the root."""

    table: TableName
    columns: Columns
    """Columns of the changed row that begin it."""
    hops: tuple[Step, ...]
    field: str
    """Dotted name of the place, empty for the root."""
    key: Columns = ()
    """The table's primary key, by which a value that the WAL left out is read."""
    reread: Hop | None = None
    """From `key` to `columns`; None without a primary key."""
    partitions: tuple[TableName, ...] | None = None
    """The tables that hold the rows of a partitioned one."""
    oid: int = 0
    """The table's own."""


@dataclass(frozen=True, slots=True)
class _Level:
    """A table whose keys are climbed from: its key, and the hops from that key to the root's."""

    table: Table
    key: Columns
    hops: tuple[Step, ...]
    field: str = ""


def find_paths(schema: IndexSchema, catalog: Catalog) -> tuple[Path, ...]:
    """List all paths of a completed schema, the root's first."""
    root = _Level(catalog.tables[schema.table], schema.primary_key, ())
    return (_path(root.table, root.key, (), ""), *_below(schema.fields, root, catalog))


def _below(fields: tuple[Field, ...], parent: _Level, catalog: Catalog) -> Iterator[Path]:
    for item in fields:
        if isinstance(item, Group):
            yield from _below(item.fields, _named(parent, item.name), catalog)
        elif isinstance(item, Join | Aggregate):
            yield from _into(item, parent, catalog)


def _into(item: Join | Aggregate, parent: _Level, catalog: Catalog) -> Iterator[Path]:
    table = catalog.tables[item.table]
    field = _dotted(parent.field, item.name)
    key = (table, item.primary_key)
    to_parent = (parent.table, parent.key)
    if item.through is not None:
        junction = catalog.tables[item.through.table]
        left, right = item.through.left_key, item.through.right_key
        hops = (*_convert((junction, left), to_parent), *parent.hops)
        yield _path(junction, left, hops, field)
        hops = (*_convert(key, (junction, right)), _hop(junction, right, left), *hops)
        yield _path(table, item.primary_key, hops, field)
    elif isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
        climb = _hop(parent.table, item.column, parent.key)
        hops = (*_convert(key, (parent.table, item.column)), climb, *parent.hops)
        yield _path(table, item.primary_key, hops, field)
    else:
        hops = (*_convert((table, item.foreign_key), to_parent), *parent.hops)
        yield _path(table, item.foreign_key, hops, field)
        hops = (_hop(table, item.primary_key, item.foreign_key), *hops)
    if isinstance(item, Join):
        yield from _below(item.fields, _Level(table, item.primary_key, hops, field), catalog)


def _convert(source: tuple[Table, Columns], target: tuple[Table, Columns]) -> tuple[Step, ...]:
    """Give the step between columns that are compared but do not hold or print the same; mostly none."""
    columns = columns_of(*source), columns_of(*target)
    sql, limits = convert_texts(*columns), find_limits(*columns)
    return (*((Limits(limits),) if limits else ()), *((Hop(sql),) if sql else ()))


def _path(table: Table, columns: Columns, hops: tuple[Step, ...], field: str) -> Path:
    key = table.primary_key
    reread = _hop(table, key, columns) if key else None
    held = tuple(partition.name for partition in table.partitions)
    partitions = held if table.kind is TableKind.PARTITIONED else None
    return Path(table.name, columns, hops, field, key, reread, partitions, table.oid)


def _hop(table: Table, given: Columns, wanted: Columns) -> Hop:
    # Rows that hold their own key are distinct as they are: no need to collect them before the first.
    is_distinct = bool(table.primary_key) and set(table.primary_key) <= set(wanted)
    return Hop(
        f"select {'' if is_distinct else 'distinct '}{select_texts('t', columns_of(table, wanted))}\n"
        f"from {quote_table(table.name)} as t\n"
        f"where {match_keys('t', columns_of(table, given))}"
    )


def _named(level: _Level, name: str) -> _Level:
    return _Level(level.table, level.key, level.hops, _dotted(level.field, name))


def _dotted(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name
