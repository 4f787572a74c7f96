"""The SQL that reduces related rows to one value.

Pure. `statement` gives the rows (from and where); here stands what is selected from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from flusso.builder.keys import columns_of, join_texts
from flusso.builder.level import Level, without_index
from flusso.catalog import Column
from flusso.postgres.identifiers import quote
from flusso.postgres.values import render
from flusso.schema.model import Aggregate, AggregateKind, Field, Join, JoinKind, ScalarKind

_SUMS = {"int2": "int8", "int4": "int8", "int8": "numeric"}
"""What the sum of a type is, where it is not the type itself."""


def aggregate_value(item: Aggregate, level: Level, rows: str) -> str:
    """Give the expression of an aggregate over the rows."""
    match item.kind:
        case AggregateKind.COUNT:
            return f"(select count(*){rows})"
        case AggregateKind.SUM:
            return _sum(item, level, rows)
        case AggregateKind.AVG:
            return _mean(item, level, rows)
        case AggregateKind.MIN | AggregateKind.MAX:
            return _extreme(item, level, rows)
        case AggregateKind.IDS:
            return _ids(item, level, rows)
        case _:
            assert_never(item.kind)


def counted_arrays(fields: Sequence[Field]) -> dict[str, str]:
    """Give by the name of a count the array beside it that holds the very rows it counts."""
    arrays = [
        item
        for item in fields
        if isinstance(item, Join) and item.kind is JoinKind.HAS_MANY and item.limit is None
    ]
    return {
        count.name: array.name
        for count in fields
        if isinstance(count, Aggregate) and count.kind is AggregateKind.COUNT and count.through is None
        for array in arrays
        if _rows_of(array) == _rows_of(count)
    }


def _rows_of(item: Join | Aggregate) -> tuple[object, ...]:
    return item.table, item.foreign_key, item.filters, item.soft_delete


def _sum(item: Aggregate, level: Level, rows: str) -> str:
    column, name = _addend(item, level)
    base = _SUMS.get(column.base, column.base)
    return _rendered(Column(item.name, base, base), f"sum({name})", rows, item.value_type)


def _number(item: Aggregate, level: Level) -> tuple[Column, str]:
    """Give the column that is reduced; money counts as the numeric that it is."""
    column, name = level.column(item.column or "")
    if column.base == "money":
        return Column(column.name, "numeric", "numeric"), f"{name}::numeric"
    return column, name


def _addend(item: Aggregate, level: Level) -> tuple[Column, str]:
    """Add floats up as numerics: a sum of floats depends on the order of rows, and may overflow and fail."""
    column, name = _number(item, level)
    if column.base in ("float4", "float8"):
        return Column(column.name, "numeric", "numeric"), f"{name}::numeric"
    return column, name


def _mean(item: Aggregate, level: Level, rows: str) -> str:
    _, name = _addend(item, level)
    # The mean of numerics has sixteen digits after the point, most of them zeros.
    return _rendered(Column(item.name, "numeric", "numeric"), f"trim_scale(avg({name}))", rows)


def _rendered(column: Column, expression: str, rows: str, kind: ScalarKind | None = None) -> str:
    value = render(column, "s.v", kind or ScalarKind.DOUBLE)
    if value == "s.v":
        return f"(select {expression}{rows})"
    return f"(select {value} from (select {expression} as v{rows}) as s)"


def _extreme(item: Aggregate, level: Level, rows: str) -> str:
    """Take the first in order: `min` and `max` exist for fewer types than can be ordered."""
    column, name = _number(item, level)
    value = render(column, name, item.value_type or ScalarKind.DOUBLE)
    return f"(select {value}{rows}{first_in_order(item, level)})"


def first_in_order(item: Aggregate, level: Level) -> str:
    """Narrow the rows, whose conditions come before, to the one that `min` or `max` takes.

    Equal values may print otherwise, 1.0 and 1.00: of those the first by its key, in every select.
    """
    _, name = _number(item, level)
    direction = " desc" if item.kind is AggregateKind.MAX else ""
    keys = dict.fromkeys([*level.key, *level.table.primary_key])
    order = [f"{without_index(name)}{direction}", *(f"{level.alias}.{quote(key)}" for key in keys)]
    return f" and {name} is not null{level.line}order by {', '.join(order)}{level.line}limit 1"


def _ids(item: Aggregate, level: Level, rows: str) -> str:
    """Collect keys in their order; one of several columns as the id that its document would have."""
    key = columns_of(level.table, level.key)
    names = [f"{level.alias}.{quote(column.name)}" for column in key]
    if len(key) == 1:
        value = render(key[0], names[0], item.element_type or ScalarKind.KEYWORD)
    else:
        value = join_texts(level.alias, key)
    return f"array(select {value}{rows}{level.line}order by {', '.join(names)})"
