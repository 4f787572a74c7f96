"""Compile a schema into one SELECT that gives finished documents, whatever the depth.

Pure: a completed schema and the catalog in, SQL and its operands out; the same schema always gives the
same SQL. Each root row becomes one result row: its key columns as text, then the document as `json`.

Objects come from `row_to_json` over a subselect whose aliases are the field names, arrays from
`array(select …)` inside it: compact bytes, an empty array for no rows, no aggregate node, and no limit
of a hundred arguments. A level with more fields than a select may have columns, or with a name too long
for an alias, is put together from several such objects as text.
A document never contains a line break.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from flusso.builder.aggregates import aggregate_value
from flusso.builder.conditions import Operands, select_rows
from flusso.builder.keys import columns_of, join_keys, match_keys, select_texts
from flusso.builder.leaves import json_text, leaf_value
from flusso.builder.level import Level
from flusso.catalog import Catalog, TableKind
from flusso.postgres.identifiers import literal, quote
from flusso.schema.model import (
    Aggregate,
    Direction,
    Field,
    Group,
    IndexSchema,
    Join,
    JoinKind,
    OrderBy,
    Through,
)

PARTITION = "\x00"
"""What no statement holds otherwise."""
_MAX_ALIAS_BYTES = 63
_MAX_COLUMNS = 1600
"""Postgres refuses a select of more than 1,664."""


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
    """Give the documents of the root rows that lie between two ctids, the second excluded.

    Of a partitioned root, `PARTITION` stands in FROM for the one whose rows are meant: a ctid is a place in a
    table that holds rows, and no condition on the root would keep the planner from looking into all of them.
    """
    is_partitioned = catalog.tables[schema.table].kind is TableKind.PARTITIONED
    match = f"{_ROOT}.ctid >= $1::tid and {_ROOT}.ctid < $2::tid"
    return _compile(schema, catalog, match, 2, source=PARTITION if is_partitioned else None)


_ROOT = "t0"


def _compile(
    schema: IndexSchema, catalog: Catalog, match: str, taken: int, *, source: str | None = None
) -> Statement:
    return _Compiler(catalog, Operands(taken)).compile(schema, match, source)


class _Compiler:
    """One pass over the schema: numbers aliases and operands as it goes down."""

    def __init__(self, catalog: Catalog, operands: Operands) -> None:
        self._catalog = catalog
        self._operands = operands
        self._aliases = 0

    def compile(self, schema: IndexSchema, match: str, source: str | None) -> Statement:
        table = self._catalog.tables[schema.table]
        key = columns_of(table, schema.primary_key)
        document = self._object(schema.fields, Level(table, _ROOT, schema.primary_key))
        rows, where = select_rows(
            table, _ROOT, schema.filters, schema.soft_delete, self._operands, with_ctid=True, source=source
        )
        sql = (
            f"select {select_texts(_ROOT, key)},\n  ({document})\n"
            f"from {rows}\nwhere {' and '.join([match, *where])}"
        )
        return Statement(sql, self._operands.values)

    def _next_alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _object(self, fields: Sequence[Field], level: Level, tail: str = "") -> str:
        """Select one JSON object for each row that `tail` (from, where, order, limit) gives."""
        values = [(item.name, self._value(item, level)) for item in fields]
        if len(values) <= _MAX_COLUMNS and all(_is_alias(name) for name, _ in values):
            return _row(values, level, tail)
        pieces = [_piece(part, level) for part in _parts(values)]
        return f"select ('{{' || array_to_string(array[{', '.join(pieces)}], ',') || '}}')::json{tail}"

    def _value(self, item: Field, level: Level) -> str:
        match item:
            case Group():
                return f"({self._object(item.fields, replace(level, depth=level.depth + 1))})"
            case Join():
                return self._join(item, level)
            case Aggregate():
                return self._aggregate(item, level)
            case _:
                return leaf_value(item, level)

    def _join(self, item: Join, parent: Level) -> str:
        table = self._catalog.tables[item.table]
        level = Level(table, self._next_alias(), item.primary_key, parent.depth + 1)
        tail = self._rows(item, level, parent) + _order_and_limit(item, level)
        select = self._object(item.fields, level, tail)
        return f"array({select})" if item.kind.is_to_many else f"({select})"

    def _rows(self, item: Join | Aggregate, level: Level, parent: Level) -> str:
        source, where = select_rows(level.table, level.alias, item.filters, item.soft_delete, self._operands)
        if item.through is not None:
            return self._rows_through(item, item.through, level, parent, source, where)
        if isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
            link = join_keys(level.alias, columns_of(level.table, level.key), parent.alias, item.column)
        else:
            foreign = columns_of(level.table, item.foreign_key)
            link = join_keys(level.alias, foreign, parent.alias, parent.key)
        return f"{level.line}from {source}{level.line}where {' and '.join([link, *where])}"

    def _rows_through(
        self,
        item: Join | Aggregate,
        through: Through,
        level: Level,
        parent: Level,
        source: str,
        where: list[str],
    ) -> str:
        junction = self._catalog.tables[through.table]
        alias = self._next_alias()
        linking, narrowing = select_rows(junction, alias, through.filters, None, self._operands)
        right = join_keys(level.alias, columns_of(level.table, level.key), alias, through.right_key)
        left = join_keys(alias, columns_of(junction, through.left_key), parent.alias, parent.key)
        if isinstance(item, Aggregate) and item.is_distinct:
            links = f"exists (select from {linking} where {' and '.join([right, left, *narrowing])})"
            return f"{level.line}from {source}{level.line}where {' and '.join([links, *where])}"
        conditions = " and ".join([left, *narrowing, *where])
        return f"{level.line}from {linking} join {source} on {right}{level.line}where {conditions}"

    def _aggregate(self, item: Aggregate, parent: Level) -> str:
        table = self._catalog.tables[item.table]
        level = Level(table, self._next_alias(), item.primary_key, parent.depth + 1)
        return aggregate_value(item, level, self._rows(item, level, parent))


def _is_alias(name: str) -> bool:
    return len(name.encode()) <= _MAX_ALIAS_BYTES


def _row(values: Sequence[tuple[str, str]], level: Level, tail: str = "") -> str:
    columns = ",".join(f"{level.line}{value} as {quote(name)}" for name, value in values)
    return f"select row_to_json(d.*) from (select{columns}{tail}) as d"


def _parts(values: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Cut a level into runs that one select can hold; a name too long for an alias stands alone."""
    part: list[tuple[str, str]] = []
    for name, value in values:
        if part and (not _is_alias(name) or len(part) == _MAX_COLUMNS):
            yield part
            part = []
        if _is_alias(name):
            part.append((name, value))
        else:
            yield [(name, value)]
    if part:
        yield part


def _piece(part: Sequence[tuple[str, str]], level: Level) -> str:
    """Give the members of an object without its braces, as text."""
    name, value = part[0]
    if _is_alias(name):
        return f"left(right(({_row(part, level)})::text, -1), -1)"
    return f"{level.line}{literal(json_text(name) + ':').strip()} || coalesce(to_json({value})::text, 'null')"


def _order_and_limit(item: Join, level: Level) -> str:
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
