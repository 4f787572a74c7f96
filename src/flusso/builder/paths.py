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

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from flusso.builder.keys import columns_of, convert_texts, find_limits, match_keys, select_texts
from flusso.builder.reach import ROOT, Seen, TableColumns, select_reached
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
    reached: str = ""
    """The whole path as one SELECT over a range of the root, for when it leads to very many: see `reach`."""

    @property
    def place(self) -> str:
        """Name the path among those of its index, for as long as the schema is the same."""
        return json.dumps([self.field, str(self.table), *self.columns], ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Level:
    """A table whose keys are climbed from: its key, and the hops from that key to the root's."""

    table: Table
    key: Columns
    hops: tuple[Step, ...] = ()
    field: str = ""
    seen: Seen = ROOT


def find_paths(schema: IndexSchema, catalog: Catalog) -> tuple[Path, ...]:
    """List all paths of a completed schema, the root's first."""
    root = _Level(catalog.tables[schema.table], schema.primary_key)
    own = (root.table, root.key)
    paths = (_path(own, (), "", root.seen.by(own, own)), *_below(schema.fields, root, catalog))
    return tuple(replace(path, reached=select_reached(own, path.reached)) for path in paths)


def _below(fields: tuple[Field, ...], parent: _Level, catalog: Catalog) -> Iterator[Path]:
    for item in fields:
        if isinstance(item, Group):
            named = replace(parent, field=_dotted(parent.field, item.name))
            yield from _below(item.fields, named, catalog)
        elif isinstance(item, Join | Aggregate):
            yield from _into(item, parent, catalog)


def _into(item: Join | Aggregate, parent: _Level, catalog: Catalog) -> Iterator[Path]:
    table = catalog.tables[item.table]
    field = _dotted(parent.field, item.name)
    own, above = (table, item.primary_key), (parent.table, parent.key)
    if item.through is not None:
        junction = catalog.tables[item.through.table]
        left, right = (junction, item.through.left_key), (junction, item.through.right_key)
        hops = (*_convert(left, above), *parent.hops)
        yield _path(left, hops, field, parent.seen.by(above, left))
        linked = parent.seen.below(left, parent.key)
        hops = (*_convert(own, right), _hop(*right, left[1]), *hops)
        yield _path(own, hops, field, linked.by(right, own))
        seen = linked.below(own, right[1])
    elif isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
        link = (parent.table, item.column)
        hops = (*_convert(own, link), _hop(*link, parent.key), *parent.hops)
        yield _path(own, hops, field, parent.seen.by(link, own))
        seen = parent.seen.below(own, item.column)
    else:
        link = (table, item.foreign_key)
        hops = (*_convert(link, above), *parent.hops)
        yield _path(link, hops, field, parent.seen.by(above, link))
        hops = (_hop(*own, item.foreign_key), *hops)
        seen = parent.seen.below(link, parent.key)
    if isinstance(item, Join):
        yield from _below(item.fields, _Level(table, item.primary_key, hops, field, seen), catalog)


def _convert(source: TableColumns, target: TableColumns) -> tuple[Step, ...]:
    """Give the step between columns that are compared but do not hold or print the same; mostly none."""
    columns = columns_of(*source), columns_of(*target)
    sql, limits = convert_texts(*columns), find_limits(*columns)
    return (*((Limits(limits),) if limits else ()), *((Hop(sql),) if sql else ()))


def _path(start: TableColumns, hops: tuple[Step, ...], field: str, reached: str) -> Path:
    table, columns = start
    key = table.primary_key
    reread = _hop(table, key, columns) if key else None
    held = tuple(partition.name for partition in table.partitions)
    partitions = held if table.kind is TableKind.PARTITIONED else None
    return Path(table.name, columns, hops, field, key, reread, partitions, table.oid, reached)


def _hop(table: Table, given: Columns, wanted: Columns) -> Hop:
    # Rows that hold their own key are distinct as they are: no need to collect them before the first.
    is_distinct = bool(table.primary_key) and set(table.primary_key) <= set(wanted)
    return Hop(
        f"select {'' if is_distinct else 'distinct '}{select_texts('t', columns_of(table, wanted))}\n"
        f"from {quote_table(table.name)} as t\n"
        f"where {match_keys('t', columns_of(table, given))}"
    )


def _dotted(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name
