"""Compile a schema into one SELECT that gives finished documents, whatever the depth.

Pure: a completed schema and the catalog in, SQL and its operands out; the same schema always gives the
same SQL. Each root row becomes one result row: its key columns as text, then the document as `json`, and
where references are kept its tokens (`tokens`), as a JSON array.

Objects come from `row_to_json` over a subselect whose aliases are the field names, arrays from
`array(select …)` inside it: compact bytes, an empty array for no rows, no aggregate node, and no limit
of a hundred arguments. A level with more fields than a select may have columns, or with a name too long
for an alias, is put together from several such objects as text.
A document never contains a line break.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from flusso.builder.aggregates import aggregate_value, counted_arrays
from flusso.builder.conditions import Operands, select_rows
from flusso.builder.keys import columns_of, match_keys, select_texts
from flusso.builder.leaves import json_text, leaf_value
from flusso.builder.level import PARTITION, Level
from flusso.builder.references import Reference
from flusso.builder.related import Related, order_and_limit
from flusso.builder.tokens import select_tokens
from flusso.catalog import Catalog, TableKind, TableName
from flusso.postgres.identifiers import literal, quote, quote_table
from flusso.schema.model import Aggregate, Field, Group, IndexSchema, Join

_FIRST, _LAST = "\x00first", "\x00last"
"""What `in_range` replaces, beside `PARTITION`; no statement holds that character otherwise."""
_MAX_ALIAS_BYTES = 63
_MAX_COLUMNS = 1600
"""Postgres refuses a select of more than 1,664."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL whose first parameters are given by the caller and whose last ones are `operands`."""

    sql: str
    operands: tuple[str | None, ...]


def documents_by_keys(
    schema: IndexSchema, catalog: Catalog, references: Collection[Reference] = ()
) -> Statement:
    """Give the documents of given keys: `$1` … are text arrays, one for each key column."""
    key = columns_of(catalog.tables[schema.table], schema.primary_key)
    return _compile(schema, catalog, match_keys(_ROOT, key), len(key), references)


def documents_by_range(
    schema: IndexSchema, catalog: Catalog, references: Collection[Reference] = ()
) -> Statement:
    """Give the documents of the root rows that lie between two ctids, the second excluded.

    It has no parameters: `in_range` puts the ends in, so that the planner knows how few rows are meant. Of a
    partitioned root, a mark stands in FROM for the partition whose rows are meant: a ctid is a place in a
    table that holds rows, and no condition on the root would keep the planner from looking into all of them.
    """
    is_partitioned = catalog.tables[schema.table].kind is TableKind.PARTITIONED
    source = PARTITION if is_partitioned else None
    return _compile(schema, catalog, match_range(_ROOT), None, references, source=source)


def keys_alone(statement: Statement, columns: int) -> Statement:
    """Give the keys of the documents that a statement gives. The planner builds only what is selected."""
    names = ", ".join(f"k{n}" for n in range(1, columns + 1))
    return Statement(f"select {names} from (\n{statement.sql}\n) as d({names}, body)", statement.operands)


def match_range(alias: str) -> str:
    """Compare with the two ctids that `in_range` puts in, the second excluded."""
    return f"{alias}.ctid >= {_FIRST}::tid and {alias}.ctid < {_LAST}::tid"


def in_range(statement: Statement, table: TableName, first: str, last: str) -> str:
    """Give the SQL for the rows of a table between two ctids, the second excluded."""
    sql = statement.sql.replace(PARTITION, quote_table(table))
    return sql.replace(_FIRST, literal(first)).replace(_LAST, literal(last))


_ROOT = "t0"


def _compile(
    schema: IndexSchema,
    catalog: Catalog,
    match: str,
    taken: int | None,
    references: Collection[Reference],
    *,
    source: str | None = None,
) -> Statement:
    return _Compiler(catalog, Operands(taken)).compile(schema, match, source, references)


class _Compiler:
    """One pass over the schema: numbers aliases and operands as it goes down."""

    def __init__(self, catalog: Catalog, operands: Operands) -> None:
        self._catalog = catalog
        self._operands = operands
        self._related = Related(catalog, operands)

    def compile(
        self, schema: IndexSchema, match: str, source: str | None, references: Collection[Reference]
    ) -> Statement:
        table = self._catalog.tables[schema.table]
        key = columns_of(table, schema.primary_key)
        root = Level(table, _ROOT, schema.primary_key)
        document = self._object(schema.fields, root)
        tokens = select_tokens(schema.fields, root, references, self._related)
        rows, where = select_rows(
            table, _ROOT, schema.filters, schema.soft_delete, self._operands, with_ctid=True, source=source
        )
        sql = (
            f"select {select_texts(_ROOT, key)},\n  ({document}){tokens}\n"
            f"from {rows}\nwhere {' and '.join([match, *where])}"
        )
        return Statement(sql, self._operands.values)

    def _object(self, fields: Sequence[Field], level: Level, tail: str = "") -> str:
        """Select one JSON object for each row that `tail` (from, where, order, limit) gives."""
        if len(fields) <= _MAX_COLUMNS and all(_is_alias(item.name) for item in fields):
            return self._row_with_counts(fields, level, tail)
        values = [(item.name, self._value(item, level)) for item in fields]
        pieces = [_piece(part, level) for part in _parts(values)]
        return f"select ('{{' || array_to_string(array[{', '.join(pieces)}], ',') || '}}')::json{tail}"

    def _row_with_counts(self, fields: Sequence[Field], level: Level, tail: str) -> str:
        """Read what is both counted and shown once: a count of the rows of an array is its length."""
        arrays = counted_arrays(fields)
        values = [(item.name, self._value(item, level)) for item in fields if item.name not in arrays]
        if not arrays:
            return _row(values, level, tail)
        names = ", ".join(
            f"cardinality(s.{quote(arrays[item.name])}) as {quote(item.name)}"
            if item.name in arrays
            else f"s.{quote(item.name)}"
            for item in fields
        )
        # Else the planner would put the array's subselect in both places.
        rows = f"{_columns(values, level)}{tail}{level.line}offset 0"
        return f"select row_to_json(d.*) from (select {names} from (select{rows}) as s) as d"

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
        level = self._related.level(item, parent)
        tail = self._related.rows(item, level, parent).tail + order_and_limit(item, level)
        select = self._object(item.fields, level, tail)
        return f"array({select})" if item.kind.is_to_many else f"({select})"

    def _aggregate(self, item: Aggregate, parent: Level) -> str:
        level = self._related.level(item, parent)
        return aggregate_value(item, level, self._related.rows(item, level, parent).tail)


def _is_alias(name: str) -> bool:
    return len(name.encode()) <= _MAX_ALIAS_BYTES


def _row(values: Sequence[tuple[str, str]], level: Level, tail: str = "") -> str:
    return f"select row_to_json(d.*) from (select{_columns(values, level)}{tail}) as d"


def _columns(values: Sequence[tuple[str, str]], level: Level) -> str:
    return ",".join(f"{level.line}{value} as {quote(name)}" for name, value in values)


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
