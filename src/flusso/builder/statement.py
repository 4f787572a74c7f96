"""Compile a schema into one SELECT that gives finished documents, whatever the depth.

Pure: a completed schema and the catalog in, SQL and its operands out; the same schema always gives the
same SQL. Each root row becomes one result row: its key columns as text, then the document as `json`.

Objects come from `row_to_json` over a subselect whose aliases are the field names, arrays from
`array(select …)` inside it: compact bytes, an empty array for no rows, no aggregate node, and no limit
of a hundred arguments. A name too long for an alias makes its level be joined from text instead.
A document never contains a line break.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from flusso.builder.conditions import Operands, select_rows
from flusso.builder.keys import columns_of, join_keys, match_keys, select_texts
from flusso.catalog import Catalog, Column, Table
from flusso.postgres.identifiers import literal, quote, quote_table
from flusso.postgres.values import INTEGER_KINDS, render
from flusso.schema.model import (
    Aggregate,
    AggregateKind,
    Columns,
    Direction,
    Field,
    Group,
    IndexSchema,
    Join,
    JoinKind,
    OrderBy,
    Scalar,
    ScalarKind,
    Transform,
)

_FUNCTIONS = {Transform.LOWERCASE: "lower", Transform.TRIM: "btrim"}
_MAX_ALIAS_BYTES = 63
_SUMS = {"int2": "int8", "int4": "int8", "int8": "numeric", "money": "numeric"}
"""What the sum of a type is, where it is not the type itself."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL whose first parameters are given by the caller and whose last ones are `operands`."""

    sql: str
    operands: tuple[str | None, ...]


def documents_by_keys(schema: IndexSchema, catalog: Catalog) -> Statement:
    """Give the documents of given keys: `$1` … are text arrays, one for each key column."""
    key = columns_of(catalog.tables[schema.table], schema.primary_key)
    return _compile(schema, catalog, match_keys(_ROOT, key), len(key))


def documents_by_range(schema: IndexSchema, catalog: Catalog) -> Statement:
    """Give the documents of the root rows that lie between two ctids, the second excluded."""
    return _compile(schema, catalog, f"{_ROOT}.ctid >= $1::tid and {_ROOT}.ctid < $2::tid", 2)


_ROOT = "t0"


def _compile(schema: IndexSchema, catalog: Catalog, match: str, taken: int) -> Statement:
    return _Compiler(catalog, Operands(taken)).compile(schema, match)


class _Compiler:
    """One pass over the schema: numbers aliases and operands as it goes down."""

    def __init__(self, catalog: Catalog, operands: Operands) -> None:
        self._catalog = catalog
        self._operands = operands
        self._aliases = 0

    def compile(self, schema: IndexSchema, match: str) -> Statement:
        table = self._catalog.tables[schema.table]
        key = columns_of(table, schema.primary_key)
        document = self._object(schema.fields, _Level(table, _ROOT, schema.primary_key))
        source, where = select_rows(
            table, _ROOT, schema.filters, schema.soft_delete, self._operands, with_ctid=True
        )
        sql = (
            f"select {select_texts(_ROOT, key)},\n  ({document})\n"
            f"from {source}\nwhere {' and '.join([match, *where])}"
        )
        return Statement(sql, self._operands.values)

    def _next_alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _object(self, fields: Sequence[Field], level: _Level, tail: str = "") -> str:
        """Select one JSON object for each row that `tail` (from, where, order, limit) gives."""
        pairs = [(item.name, self._value(item, level)) for item in fields]
        if all(len(name.encode()) <= _MAX_ALIAS_BYTES for name, _ in pairs):
            columns = ",".join(f"{level.line}{value} as {quote(name)}" for name, value in pairs)
            return f"select row_to_json(d.*) from (select{columns}{tail}) as d"
        members = f"{level.line}|| ',' || ".join(
            f"{_literal(json.dumps(name, ensure_ascii=False) + ':')} || "
            f"coalesce(to_json({value})::text, 'null')"
            for name, value in pairs
        )
        return f"select ('{{' || {members} || '}}')::json{tail}"

    def _value(self, item: Field, level: _Level) -> str:
        match item:
            case Scalar():
                return _scalar(item, level)
            case Group():
                return f"({self._object(item.fields, replace(level, depth=level.depth + 1))})"
            case Join():
                return self._join(item, level)
            case Aggregate():
                return self._aggregate(item, level)
            case _:
                assert_never(item)

    def _join(self, item: Join, parent: _Level) -> str:
        table = self._catalog.tables[item.table]
        level = _Level(table, self._next_alias(), item.primary_key, parent.depth + 1)
        tail = self._rows(item, level, parent) + _order_and_limit(item, level)
        select = self._object(item.fields, level, tail)
        return f"array({select})" if item.kind.is_to_many else f"({select})"

    def _rows(self, item: Join | Aggregate, level: _Level, parent: _Level) -> str:
        source, where = select_rows(level.table, level.alias, item.filters, item.soft_delete, self._operands)
        if item.through is not None:
            junction = self._catalog.tables[item.through.table]
            alias = self._next_alias()
            right = columns_of(level.table, level.key)
            source = (
                f"{quote_table(junction.name)} as {alias} join {source}"
                f" on {join_keys(level.alias, right, alias, item.through.right_key)}"
            )
            left = columns_of(junction, item.through.left_key)
            link = join_keys(alias, left, parent.alias, parent.key)
        elif isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
            link = join_keys(level.alias, columns_of(level.table, level.key), parent.alias, item.column)
        else:
            foreign = columns_of(level.table, item.foreign_key)
            link = join_keys(level.alias, foreign, parent.alias, parent.key)
        return f"{level.line}from {source}{level.line}where {' and '.join([link, *where])}"

    def _aggregate(self, item: Aggregate, parent: _Level) -> str:
        table = self._catalog.tables[item.table]
        level = _Level(table, self._next_alias(), item.primary_key, parent.depth + 1)
        rows = self._rows(item, level, parent)
        match item.kind:
            case AggregateKind.COUNT:
                return f"(select count(*){rows})"
            case AggregateKind.SUM:
                return _sum(item, level, rows)
            case _:
                assert_never(item.kind)


@dataclass(frozen=True, slots=True)
class _Level:
    """A table that fields are read from: its alias and the key that other tables refer to."""

    table: Table
    alias: str
    key: Columns
    depth: int = 2

    @property
    def line(self) -> str:
        """Begin a line of the statement, indented to this level."""
        return "\n" + "  " * self.depth


def _literal(text: str) -> str:
    return literal(text).strip()


def _scalar(item: Scalar, level: _Level) -> str:
    return render(
        level.table.columns[item.column],
        f"{level.alias}.{quote(item.column)}",
        item.kind,
        functions=[_FUNCTIONS[transform] for transform in item.transforms],
        default=None
        if item.default is None
        else json.dumps(item.default, ensure_ascii=False, separators=(",", ":")),
    )


def _sum(item: Aggregate, level: _Level, rows: str) -> str:
    assert item.column is not None
    column = level.table.columns[item.column]
    name = f"{level.alias}.{quote(item.column)}"
    base = _SUMS.get(column.base, column.base)
    total = f"sum({name}::numeric)" if column.base == "money" else f"sum({name})"
    if item.value_type in INTEGER_KINDS and column.base not in ("int2", "int4", "int8"):
        total = f"round({total})"
    value = render(Column(item.name, base, base), "s.v", item.value_type or ScalarKind.DOUBLE)
    if value == "s.v":
        return f"(select {total}{rows})"
    return f"(select {value} from (select {total} as v{rows}) as s)"


def _order_and_limit(item: Join, level: _Level) -> str:
    """Order rows fully, so that the same rows always give the same bytes."""
    key = level.table.primary_key
    is_single = item.kind is JoinKind.BELONGS_TO and key and set(key) <= set(item.primary_key)
    if is_single:
        return ""
    order = [_order(entry, level.alias) for entry in item.order_by]
    named = {entry.column for entry in item.order_by}
    rest = [name for name in dict.fromkeys([*item.primary_key, *key]) if name not in named]
    order += [f"{level.alias}.{quote(name)}" for name in rest]
    limit = item.limit if item.kind.is_to_many else 1
    last = f"{level.line}limit {limit}" if limit is not None else ""
    return f"{level.line}order by {', '.join(order)}{last}"


def _order(entry: OrderBy, alias: str) -> str:
    # Ascending has nulls last by itself; saying so would only lengthen the statement.
    suffix = " desc nulls last" if entry.direction is Direction.DESC else ""
    return f"{alias}.{quote(entry.column)}{suffix}"
