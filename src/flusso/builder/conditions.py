"""Which rows of a table count: filters and soft deletion as SQL conditions.

Pure. Operands are bound as `$n`, in the order in which the statement meets them, or quoted where a statement
takes no parameters; either way they are cast to the column's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from flusso.builder.keys import array_text
from flusso.catalog import Column, Table
from flusso.postgres.identifiers import literal, quote, quote_table
from flusso.postgres.values import operator
from flusso.schema.model import ColumnFilter, Filter, FilterOp, RawFilter, SoftDelete

Operand = str | int | float | bool

_SYMBOLS = {
    FilterOp.EQ: "=",
    FilterOp.NEQ: "<>",
    FilterOp.LT: "<",
    FilterOp.LTE: "<=",
    FilterOp.GT: ">",
    FilterOp.GTE: ">=",
}


class Operands:
    """The operands bound so far, numbered after the parameters that the statement begins with.

    Without that number they stand in the statement itself, quoted: the planner then knows what is asked for.
    """

    def __init__(self, taken: int | None) -> None:
        self._taken = taken
        self._values: list[str] = []

    def bind(self, value: str, type_name: str) -> str:
        """Add an operand and give the expression that stands for it."""
        if self._taken is None:
            return f"{literal(value).strip()}::{type_name}"
        self._values.append(value)
        return f"${self._taken + len(self._values)}::{type_name}"

    @property
    def values(self) -> tuple[str, ...]:
        """All of them, in order."""
        return tuple(self._values)


def select_rows(
    table: Table,
    alias: str,
    filters: Sequence[Filter],
    soft_delete: SoftDelete | None,
    operands: Operands,
    *,
    with_ctid: bool = False,
    source: str | None = None,
) -> tuple[str, list[str]]:
    """Give what goes into FROM, and the conditions that remain for WHERE.

    A raw filter speaks of its own table's columns without naming the table. In a place where other
    tables are in sight as well its names could mean theirs, so it gets a subselect where only its
    table is; the planner flattens it. `source` stands for the table's name, where its rows come from another.
    """
    name = source or quote_table(table.name)
    if not _has_raw(filters, soft_delete):
        return f"{name} as {alias}", _conditions(table, alias, filters, soft_delete, operands)
    inner = quote(table.name.name)
    where = " and ".join(_conditions(table, inner, filters, soft_delete, operands))
    # A system column passes through a subselect only when named.
    columns = f"{inner}.ctid, *" if with_ctid else "*"
    named = f"{name} as {inner}" if source else name
    return f"(select {columns} from {named} where {where}) as {alias}", []


def _conditions(
    table: Table,
    alias: str,
    filters: Sequence[Filter],
    soft_delete: SoftDelete | None,
    operands: Operands,
) -> list[str]:
    found = [_condition(table, alias, item, operands) for item in filters]
    if soft_delete is not None:
        found.append(_is_not_deleted(table, alias, soft_delete, operands))
    return found


def _has_raw(filters: Sequence[Filter], soft_delete: SoftDelete | None) -> bool:
    every = [*filters, *(soft_delete.when if soft_delete else ())]
    return any(isinstance(item, RawFilter) for item in every)


def _is_not_deleted(table: Table, alias: str, soft_delete: SoftDelete, operands: Operands) -> str:
    column = table.columns[soft_delete.column]
    name = f"{alias}.{quote(column.name)}"
    is_flag = column.base == "bool" and not column.is_array
    parts = [name if is_flag else f"{name} is not null"]
    parts += [_condition(table, alias, item, operands) for item in soft_delete.when]
    return f"({' and '.join(parts)}) is not true"


def _condition(table: Table, alias: str, item: Filter, operands: Operands) -> str:
    if isinstance(item, RawFilter):
        # The line break ends a comment that the condition may end with.
        return f"({item.sql}\n)"
    column = table.columns[item.column]
    return _compare(column, f"{alias}.{quote(column.name)}", item, operands)


def _compare(column: Column, name: str, item: ColumnFilter, operands: Operands) -> str:
    texts = [operand_text(value) for value in item.values]
    match item.op:
        case FilterOp.IS_NULL:
            return f"{name} is null"
        case FilterOp.IS_NOT_NULL:
            return f"{name} is not null"
        case FilterOp.EQ | FilterOp.NEQ | FilterOp.LT | FilterOp.LTE | FilterOp.GT | FilterOp.GTE:
            symbol = operator(column, _SYMBOLS[item.op])
            return f"{name} {symbol} {operands.bind(texts[0], column.type)}"
        case FilterOp.LIKE | FilterOp.ILIKE:
            return f"{name}::text {item.op.value} {operands.bind(texts[0], 'text')}"
        case FilterOp.IN:
            bound = operands.bind(array_text(texts), f"{column.type}[]")
            return f"{name} {operator(column, '=')} any({bound})"
        case FilterOp.NOT_IN:
            bound = operands.bind(array_text(texts), f"{column.type}[]")
            return f"{name} {operator(column, '<>')} all({bound})"
        case FilterOp.BETWEEN:
            low, high = (operands.bind(text, column.type) for text in texts)
            return f"({name} {operator(column, '>=')} {low} and {name} {operator(column, '<=')} {high})"
        case _:
            assert_never(item.op)


def operand_text(value: Operand) -> str:
    """Write an operand as Postgres reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
