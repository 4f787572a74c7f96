"""What keeps a schema from fitting the database, all of it at once.

Pure. Compiling raises with this list; `flusso check` prints it. What the schema file alone can tell is
found by `schema/`, before any database is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flusso.builder.statement import INTEGER_KINDS, TEXT_KINDS
from flusso.catalog import Catalog, Column, Table, TableKind, TableName
from flusso.schema.model import (
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
    ScalarKind,
    SoftDelete,
    walk,
)

_INTEGERS = ("int2", "int4", "int8")
_NUMBERS = (*_INTEGERS, "numeric", "float4", "float8")
_FITTING: dict[ScalarKind, tuple[str, ...]] = {
    ScalarKind.UUID: ("uuid",),
    ScalarKind.BOOLEAN: ("bool",),
    ScalarKind.SHORT: ("int2",),
    ScalarKind.INTEGER: ("int2", "int4"),
    ScalarKind.LONG: _INTEGERS,
    ScalarKind.FLOAT: _NUMBERS,
    ScalarKind.DOUBLE: _NUMBERS,
    ScalarKind.DECIMAL: (*_INTEGERS, "numeric", "money"),
    ScalarKind.DATE: ("date",),
    ScalarKind.TIMESTAMP: ("timestamp", "timestamptz", "time", "timetz"),
    ScalarKind.BINARY: ("bytea",),
    ScalarKind.JSON: ("json", "jsonb"),
}
_NO_TEXT = frozenset(
    {"json", "jsonb", "bytea", "float4", "float8", "money", "date", "timestamp", "timestamptz"}
)
_SUMMABLE = (*_NUMBERS, "money")
_REASONS = {
    TableKind.PARTITIONED: "is a partitioned table, which flusso does not follow yet",
    TableKind.VIEW: "is a view: its changes are not in the WAL, name its tables",
    TableKind.MATERIALIZED_VIEW: "is a materialized view: its changes are not in the WAL, name its tables",
    TableKind.FOREIGN: "is a foreign table: its changes are not in the WAL",
}


def find_problems(index: str, schema: IndexSchema, catalog: Catalog) -> list[str]:
    """List, in the order of the schema, what does not fit the database."""
    return list(dict.fromkeys(f'index "{index}": {text}' for text in _Checker(catalog).check(schema)))


class _Checker:
    """One walk over the schema with the catalog at hand."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def check(self, schema: IndexSchema) -> Iterator[str]:
        table = self._catalog.get(schema.table)
        yield from self._table(schema.table, "")
        if table is None:
            # The branches below have tables of their own to check, only not against this one.
            for item in walk(schema.fields):
                if isinstance(item, Join | Aggregate):
                    yield from self._table(item.table, _place(item.name))
            return
        key = schema.primary_key or table.primary_key
        yield from _key(table, schema.primary_key, "")
        yield from _rows(table, schema.filters, schema.soft_delete, "")
        yield from self._fields(schema.fields, table, key, "")

    def _table(self, name: TableName, place: str) -> Iterator[str]:
        table = self._catalog.get(name)
        if table is None:
            yield f"{place}table {name} does not exist, or this role may not see it"
        elif table.kind in _REASONS:
            yield f"{place}{name} {_REASONS[table.kind]}"

    def _fields(self, fields: Iterable[Field], table: Table, key: Columns, path: str) -> Iterator[str]:
        for item in fields:
            dotted = f"{path}.{item.name}" if path else item.name
            if isinstance(item, Scalar):
                yield from _scalar(item, table, _place(dotted))
            elif isinstance(item, Group):
                yield from self._fields(item.fields, table, key, dotted)
            else:
                yield from self._related(item, table, key, dotted)

    def _related(
        self, item: Join | Aggregate, parent: Table, parent_key: Columns, dotted: str
    ) -> Iterator[str]:
        place = _place(dotted)
        yield from self._table(item.table, place)
        table = self._catalog.get(item.table)
        if table is None:
            return
        key = item.primary_key or table.primary_key
        yield from _key(table, item.primary_key, place)
        yield from self._link(item, table, key, parent, parent_key, place)
        yield from _rows(table, item.filters, item.soft_delete, place)
        if isinstance(item, Join):
            yield from _missing(table, (entry.column for entry in item.order_by), place)
            yield from self._fields(item.fields, table, key, dotted)
        elif item.column is not None:
            yield from _sum(item, table, place)

    def _link(
        self,
        item: Join | Aggregate,
        table: Table,
        key: Columns,
        parent: Table,
        parent_key: Columns,
        place: str,
    ) -> Iterator[str]:
        if item.through is not None:
            yield from self._table(item.through.table, place)
            junction = self._catalog.get(item.through.table)
            if junction is not None:
                yield from _pairs(junction, item.through.left_key, parent, parent_key, place)
                yield from _pairs(junction, item.through.right_key, table, key, place)
        elif isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
            yield from _pairs(parent, item.column, table, key, place)
        else:
            yield from _pairs(table, item.foreign_key, parent, parent_key, place)


def _place(dotted: str) -> str:
    return f'field "{dotted}": '


def _key(table: Table, declared: Columns, place: str) -> Iterator[str]:
    if not declared and not table.primary_key:
        yield f"{place}table {table.name} has no primary key: declare primary_key"
    yield from _missing(table, declared, place)
    for name in declared or table.primary_key:
        if name in table.columns and table.columns[name].is_array:
            yield f'{place}column "{name}" of {table.name} is an array, which cannot be a key here'


def _missing(table: Table, names: Iterable[str], place: str) -> Iterator[str]:
    for name in names:
        if name not in table.columns:
            yield f'{place}table {table.name} has no column "{name}"'


def _pairs(left: Table, names: Columns, right: Table, right_names: Columns, place: str) -> Iterator[str]:
    missing = [*_missing(left, names, place), *_missing(right, right_names, place)]
    yield from missing
    if missing or not right_names:
        return
    if len(names) != len(right_names):
        yield (
            f"{place}{_list(names)} of {left.name} has {len(names)} columns and the key it refers to, "
            f"{_list(right_names)} of {right.name}, {len(right_names)}"
        )
        return
    for name, other in zip(names, right_names, strict=True):
        one, two = left.columns[name], right.columns[other]
        if not _is_comparable(one, two):
            yield (
                f'{place}column "{name}" of {left.name} is {one.type} and cannot be compared with '
                f'"{other}" of {right.name}, which is {two.type}'
            )


def _is_comparable(one: Column, two: Column) -> bool:
    if one.type == two.type:
        return True
    families = (
        _NUMBERS,
        ("text", "varchar", "bpchar", "name", "citext"),
        ("timestamp", "timestamptz", "date"),
    )
    return one.is_array == two.is_array and any(one.base in f and two.base in f for f in families)


def _rows(
    table: Table, filters: Sequence[Filter], soft_delete: SoftDelete | None, place: str
) -> Iterator[str]:
    every = [*filters, *(soft_delete.when if soft_delete else ())]
    compared = [item for item in every if isinstance(item, ColumnFilter)]
    yield from _missing(table, (item.column for item in compared), place)
    if soft_delete is not None:
        yield from _missing(table, (soft_delete.column,), place)
    for item in compared:
        column = table.columns.get(item.column)
        if column is not None and column.is_array and item.op in (FilterOp.IN, FilterOp.NOT_IN):
            yield f'{place}column "{item.column}" of {table.name} is an array: {item.op} does not fit it'


def _scalar(item: Scalar, table: Table, place: str) -> Iterator[str]:
    column = table.columns.get(item.column)
    if column is None:
        yield from _missing(table, (item.column,), place)
        return
    fits = column.base not in _NO_TEXT if item.kind in TEXT_KINDS else column.base in _FITTING[item.kind]
    if not fits:
        yield f'{place}column "{item.column}" of {table.name} is {column.type}, not fit for {item.kind}'
    if item.transforms and item.kind not in TEXT_KINDS:
        yield f"{place}transforms are for text, not for {item.kind}"


def _sum(item: Aggregate, table: Table, place: str) -> Iterator[str]:
    column = table.columns.get(item.column or "")
    if column is None:
        yield f'{place}table {table.name} has no column "{item.column}"'
    elif column.is_array or column.base not in _SUMMABLE:
        yield f'{place}column "{item.column}" of {table.name} is {column.type}: it has no sum'
    elif item.value_type is not None and item.value_type not in _SUM_KINDS:
        yield f"{place}a sum is a number, not {item.value_type}"


_SUM_KINDS = INTEGER_KINDS | {ScalarKind.FLOAT, ScalarKind.DOUBLE, ScalarKind.DECIMAL}


def _list(names: Columns) -> str:
    return "(" + ", ".join(names) + ")"
