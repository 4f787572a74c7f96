"""What every document must be, computed from `select * from t` of every table by plain loops.

Nothing of flusso is used here: no SQL of its own, none of its classes. The schema is the YAML of the user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from oracle.conditions import Row, counts
from oracle.tables import Table
from oracle.values import Number, Value, as_json, document_id, mean, print_text

Node = Mapping[str, Any]
Documents = dict[str, object]
_TEXT_KINDS = ("text", "keyword", "identifier")
_SCALARS = (
    *_TEXT_KINDS, "uuid", "boolean", "integer", "long", "double", "decimal", "date", "timestamp",
)  # fmt: skip
_JOINS = ("belongs_to", "has_one", "has_many", "many_to_many")
_AGGREGATES = ("count", "sum", "avg", "min", "max", "ids")
_TAGS = (*_SCALARS, *_JOINS, *_AGGREGATES, "object", "constant")
_LOWER = {ord(big): big.lower() for big in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a table."""

    table: Table
    rows: Sequence[Row]

    @property
    def types(self) -> Mapping[str, str]:
        return {column.name: column.type for column in self.table.columns}


def read_rows(dsn: str, tables: Sequence[Table]) -> dict[tuple[str, str], Rows]:
    """Read every table whole, in one snapshot."""
    with psycopg.connect(dsn, options="-c timezone=UTC", row_factory=dict_row) as conn:
        conn.execute("set transaction isolation level repeatable read, read only")
        return {
            (table.schema, table.name): Rows(table, conn.execute(f"select * from {table.quoted}").fetchall())
            for table in tables
        }


def parse_body(body: bytes) -> object:
    """Read a document, with numbers as they are written."""
    return json.loads(body, parse_float=Number)


def evaluate(schema: Node, tables: Mapping[tuple[str, str], Rows]) -> Documents:
    """Compute all documents of an index, by id."""
    return _Evaluator(schema.get("schema", "public"), tables).documents(schema)


class _Evaluator:
    """Walks one schema over the rows."""

    def __init__(self, home: str, tables: Mapping[tuple[str, str], Rows]) -> None:
        self._home = home
        self._tables = tables

    def documents(self, schema: Node) -> Documents:
        place = self._rows_of(schema)
        key = _key(schema, place)
        return {
            document_id(_values(row, key)): self._object(schema["fields"], row, key)
            for row in place.rows
            if counts(schema, row, place.types)
        }

    def _rows_of(self, node: Node) -> Rows:
        return self._tables[node.get("schema", self._home), node["table"]]

    def _object(self, fields: Sequence[Node], row: Row, key: Sequence[str]) -> dict[str, object]:
        found: dict[str, object] = {}
        for field in fields:
            tag = next(tag for tag in _TAGS if tag in field)
            found[field[tag]] = self._value(tag, field, row, key)
        return found

    def _value(self, tag: str, field: Node, row: Row, key: Sequence[str]) -> object:
        if tag == "object":
            return self._object(field["fields"], row, key)
        if tag == "constant":
            return field["value"]
        if tag in _SCALARS:
            return _scalar(tag, field, row[field["column"]])
        if tag in _AGGREGATES:
            return self._aggregate(tag, field, self._related(tag, field, row, key))
        related = self._ordered(field, self._related(tag, field, row, key))
        inner = _key(field, self._rows_of(field))
        objects = [self._object(field["fields"], each, inner) for each in related]
        if tag in ("belongs_to", "has_one"):
            return objects[0] if objects else None
        return objects[: field.get("limit")]

    def _related(self, tag: str, field: Node, row: Row, key: Sequence[str]) -> list[Row]:
        """Find the rows that a relation leads to; through a junction as often as it leads there."""
        place = self._rows_of(field)
        matched: list[Row]
        if "through" in field:
            matched = list(self._through(field, place, _values(row, key)))
        elif tag == "belongs_to":
            matched = _matching(place.rows, _key(field, place), _values(row, _columns(field["column"])))
        else:
            matched = _matching(place.rows, _columns(field["foreign_key"]), _values(row, key))
        return [each for each in matched if counts(field, each, place.types)]

    def _through(self, field: Node, place: Rows, parent: tuple[Value, ...]) -> Iterator[Row]:
        through = field["through"]
        junction = self._rows_of(through)
        leading = [
            each
            for each in _matching(junction.rows, _columns(through["left_key"]), parent)
            if counts(through, each, junction.types)
        ]
        keys = [_values(each, _columns(through["right_key"])) for each in leading]
        for row in place.rows:
            own = _values(row, _key(field, place))
            times = 0 if None in own else keys.count(own)
            yield from [row] * (min(times, 1) if field.get("distinct") else times)

    def _ordered(self, field: Node, rows: Sequence[Row]) -> list[Row]:
        place = self._rows_of(field)
        found = sorted(rows, key=lambda row: _order_key(row, (*_key(field, place), *place.table.key)))
        for entry in reversed(field.get("order_by", ())):
            is_desc = entry.get("direction") == "desc"
            name = entry["column"]
            present = [row for row in found if row[name] is not None]
            absent = [row for row in found if row[name] is None]
            present.sort(key=lambda row, name=name: _sortable(row[name]), reverse=is_desc)  # type: ignore[misc]
            found = [*present, *absent]
        return found

    def _aggregate(self, tag: str, field: Node, rows: Sequence[Row]) -> object:
        if tag == "count":
            return len(rows)
        if tag == "ids":
            return self._ids(field, rows)
        values: list[Any] = [row[field["column"]] for row in rows if row[field["column"]] is not None]
        if not values:
            return None
        match tag:
            case "sum":
                return as_json(sum(values[1:], values[0]))
            case "avg":
                return as_json(mean(values))
            case "min":
                return as_json(min(values, key=_sortable))
            case _:
                return as_json(max(values, key=_sortable))

    def _ids(self, field: Node, rows: Sequence[Row]) -> list[object]:
        key = _key(field, self._rows_of(field))
        ordered = sorted(rows, key=lambda row: _order_key(row, key))
        if len(key) > 1:
            return [_joined(_values(row, key)) for row in ordered]
        return [_scalar(field["element_type"], {}, row[key[0]]) for row in ordered]


def _joined(key: tuple[Value, ...]) -> str:
    return "|".join(print_text(part).replace("\\", "\\\\").replace("|", "\\|") for part in key)


def _scalar(kind: str, field: Node, value: Value) -> object:
    if value is None:
        return field.get("default")
    if kind not in _TEXT_KINDS:
        return as_json(value)
    text = print_text(value)
    for transform in field.get("transforms", ()):
        text = text.translate(_LOWER) if transform == "lowercase" else text.strip(" ")
    return text


def _key(node: Node, place: Rows) -> tuple[str, ...]:
    return _columns(node["primary_key"]) if "primary_key" in node else place.table.key


def _columns(spelled: str | Sequence[str]) -> tuple[str, ...]:
    return (spelled,) if isinstance(spelled, str) else tuple(spelled)


def _values(row: Row, names: Sequence[str]) -> tuple[Value, ...]:
    return tuple(row[name] for name in names)


def _matching(rows: Sequence[Row], names: Sequence[str], wanted: tuple[Value, ...]) -> list[Row]:
    return [] if None in wanted else [row for row in rows if _values(row, names) == wanted]


def _order_key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    """Nulls come last."""
    return tuple((row[name] is None, _sortable(row[name])) for name in names)


def _sortable(value: Value) -> Any:
    if value is None:
        return 0
    return value.encode() if isinstance(value, str) else value
