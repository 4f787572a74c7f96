"""What keeps a schema from fitting the tables: names, kinds, keys and links, all of it at once.

Pure. Compiling raises with this list; `check` and `run` show it among the rest. What the schema file alone
can tell is found by `schema/`, before any database is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flusso.builder.check.kinds import are_comparable, fits, fitting_kinds
from flusso.builder.check.spot import Spot
from flusso.builder.check.tags import find_in_aggregate, find_in_leaf
from flusso.builder.fold import fold_columns
from flusso.catalog import Catalog, Partition, Persistence, Table, TableKind, TableName
from flusso.diagnostic import Code, Diagnostic
from flusso.postgres.identifiers import quote_table
from flusso.schema.model import (
    TEXT_KINDS,
    Aggregate,
    ColumnFilter,
    Columns,
    Field,
    Filter,
    FilterOp,
    Group,
    IndexSchema,
    Join,
    JoinKind,
    Scalar,
    SoftDelete,
)
from flusso.schema.node import did_you_mean

_UNFOLLOWABLE = {
    TableKind.VIEW: "is a view: its changes are not in the WAL, name its tables",
    TableKind.MATERIALIZED_VIEW: "is a materialized view: its changes are not in the WAL, name its tables",
    TableKind.FOREIGN: "is a foreign table: its changes are not in the WAL",
}


def find_problems(
    index: str, schema: IndexSchema, catalog: Catalog, *, others: Sequence[TableName] = ()
) -> list[Diagnostic]:
    """List, in the order of the schema, what does not fit the database; `others` are tables it also has."""
    folded = fold_columns(schema, catalog)
    return list(dict.fromkeys(_Checker(catalog, others).check(folded, Spot(index))))


class _Checker:
    """One walk over the schema with the catalog at hand."""

    def __init__(self, catalog: Catalog, others: Sequence[TableName]) -> None:
        self._catalog = catalog
        self._others = others

    def check(self, schema: IndexSchema, spot: Spot) -> Iterator[Diagnostic]:
        table = self._catalog.get(schema.table)
        yield from self._table(schema.table, spot)
        if table is None:
            yield from self._tables_below(schema.fields, spot)
            return
        key = schema.primary_key or table.primary_key
        yield from _key(table, schema.primary_key, spot)
        yield from _rows(table, schema.filters, schema.soft_delete, spot)
        yield from self._fields(schema.fields, table, key, spot)

    def _table(self, name: TableName, spot: Spot, key: str = "table") -> Iterator[Diagnostic]:
        table = self._catalog.get(name)
        if table is None:
            message = f"table {name} does not exist, or this role may not see it"
            yield spot.says(Code.MISSING_TABLE, message, key=key, hint=_table_hint(name, self._others))
        else:
            for reason, hint in unfollowable(table):
                yield spot.says(Code.UNFOLLOWABLE_TABLE, f"{name} {reason}", key=key, hint=hint)

    def _tables_below(self, fields: Iterable[Field], spot: Spot) -> Iterator[Diagnostic]:
        """Look for the tables under one that is not there: they can be checked, only not against it."""
        for item in fields:
            inner = spot.into(item.name)
            if isinstance(item, Join | Aggregate):
                yield from self._table(item.table, inner)
            if isinstance(item, Join | Group):
                yield from self._tables_below(item.fields, inner)

    def _fields(
        self, fields: Iterable[Field], table: Table, key: Columns, spot: Spot
    ) -> Iterator[Diagnostic]:
        for item in fields:
            inner = spot.into(item.name)
            if isinstance(item, Scalar):
                yield from _scalar(item, table, inner)
            elif isinstance(item, Group):
                yield from self._fields(item.fields, table, key, inner)
            elif isinstance(item, Join | Aggregate):
                yield from self._related(item, table, key, inner)
            else:
                yield from find_in_leaf(item, table, inner)

    def _related(
        self, item: Join | Aggregate, parent: Table, parent_key: Columns, spot: Spot
    ) -> Iterator[Diagnostic]:
        yield from self._table(item.table, spot)
        table = self._catalog.get(item.table)
        if table is None:
            if isinstance(item, Join):
                yield from self._tables_below(item.fields, spot)
            return
        key = item.primary_key or table.primary_key
        yield from _key(table, item.primary_key, spot)
        yield from self._link(item, table, key, parent, parent_key, spot)
        yield from _rows(table, item.filters, item.soft_delete, spot)
        if isinstance(item, Join):
            for place, entry in enumerate(item.order_by):
                yield from _missing(table, (entry.column,), spot, f"order_by[{place}].column")
            yield from self._fields(item.fields, table, key, spot)
        else:
            yield from find_in_aggregate(item, table, key, spot)

    def _link(
        self,
        item: Join | Aggregate,
        table: Table,
        key: Columns,
        parent: Table,
        parent_key: Columns,
        spot: Spot,
    ) -> Iterator[Diagnostic]:
        if item.through is not None:
            yield from self._table(item.through.table, spot, "through.table")
            junction = self._catalog.get(item.through.table)
            if junction is not None:
                left, right = item.through.left_key, item.through.right_key
                yield from _pairs(junction, left, parent, parent_key, spot, "through.left_key")
                yield from _pairs(junction, right, table, key, spot, "through.right_key")
                yield from _rows(junction, item.through.filters, None, spot, "through.")
        elif isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
            yield from _pairs(parent, item.column, table, key, spot, "column")
        else:
            yield from _pairs(table, item.foreign_key, parent, parent_key, spot, "foreign_key")


def unfollowable(table: Table) -> Iterator[tuple[str, str | None]]:
    """Say why the WAL does not have all of a table's rows, and what mends it."""
    parts: list[Table | Partition] = [table, *table.partitions]
    for part in parts:
        reason, hint = _reason(part)
        if reason:
            yield reason if part is table else f"has partition {part.name}, which {reason}", hint
    if table.has_children:
        reason = "has tables that inherit from it: their rows would be read with its own, but not followed"
        yield reason, "use declarative partitioning, or name one of the tables without children"


def _reason(part: Table | Partition) -> tuple[str | None, str | None]:
    if part.kind in _UNFOLLOWABLE:
        return _UNFOLLOWABLE[part.kind], None
    match part.persistence:
        case Persistence.UNLOGGED:
            remedy = f"alter table {quote_table(part.name)} set logged;"
            return "is unlogged: its changes are not in the WAL", remedy
        case Persistence.TEMPORARY:
            return "is a temporary table: its rows belong to one session", None
        case _:
            return None, None


def _key(table: Table, declared: Columns, spot: Spot) -> Iterator[Diagnostic]:
    if not declared and not table.primary_key and table.kind not in _UNFOLLOWABLE:
        message = f"table {table.name} has no primary key: declare primary_key"
        yield spot.says(Code.MISSING_PRIMARY_KEY, message, key="table")
    yield from _missing(table, declared, spot, "primary_key")


def _missing(table: Table, names: Iterable[str], spot: Spot, key: str) -> Iterator[Diagnostic]:
    for name in names:
        if name not in table.columns:
            message = f'table {table.name} has no column "{name}"'
            hint = did_you_mean(name, table.columns)
            yield spot.says(Code.MISSING_COLUMN, message, key=key, hint=hint)


def _pairs(
    left: Table, names: Columns, right: Table, right_names: Columns, spot: Spot, key: str
) -> Iterator[Diagnostic]:
    missing = [*_missing(left, names, spot, key), *_missing(right, right_names, spot, "primary_key")]
    yield from missing
    if missing or not right_names:
        return
    if len(names) != len(right_names):
        message = (
            f"{_list(names)} of {left.name} has {len(names)} columns and the key it refers to, "
            f"{_list(right_names)} of {right.name}, {len(right_names)}"
        )
        yield spot.says(Code.KEY_LENGTH, message, key=key)
        return
    for name, other in zip(names, right_names, strict=True):
        one, two = left.columns[name], right.columns[other]
        if not are_comparable(one, two):
            message = (
                f'column "{name}" of {left.name} is {one.type} and cannot be compared with '
                f'"{other}" of {right.name}, which is {two.type}'
            )
            yield spot.says(Code.UNFIT_LINK, message, key=key)


def _rows(
    table: Table, filters: Sequence[Filter], soft_delete: SoftDelete | None, spot: Spot, within: str = ""
) -> Iterator[Diagnostic]:
    every = [(f"{within}filters[{place}]", item) for place, item in enumerate(filters)]
    if soft_delete is not None:
        yield from _missing(table, (soft_delete.column,), spot, "soft_delete")
        every += [(f"soft_delete.when[{place}]", item) for place, item in enumerate(soft_delete.when)]
    for key, item in every:
        if not isinstance(item, ColumnFilter):
            continue
        yield from _missing(table, (item.column,), spot, f"{key}.column")
        column = table.columns.get(item.column)
        if column is not None and column.is_array and item.op in (FilterOp.IN, FilterOp.NOT_IN):
            message = f'column "{item.column}" of {table.name} is an array: {item.op} does not fit it'
            yield spot.says(Code.UNFIT_FILTER, message, key=f"{key}.op")


def _scalar(item: Scalar, table: Table, spot: Spot) -> Iterator[Diagnostic]:
    column = table.columns.get(item.column)
    if column is None:
        yield from _missing(table, (item.column,), spot, "column")
        return
    if not fits(column, item.kind):
        message = f'column "{item.column}" of {table.name} is {column.type}, not fit for {item.kind}'
        yield spot.says(Code.UNFIT_TYPE, message, hint=f"it fits {', '.join(fitting_kinds(column))}")
    if item.transforms and item.kind not in TEXT_KINDS:
        yield spot.says(Code.MISPLACED_KEY, f"transforms are for text, not for {item.kind}", key="transforms")


def _table_hint(name: TableName, others: Sequence[TableName]) -> str | None:
    elsewhere = [other.schema for other in others if other.name == name.name]
    if elsewhere:
        return f"schema: {elsewhere[0]}, where a table of this name is"
    return did_you_mean(name.name, [other.name for other in others if other.schema == name.schema])


def _list(names: Columns) -> str:
    return "(" + ", ".join(names) + ")"
