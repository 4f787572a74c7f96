"""Make the rows that a Spark user sees of changes: on executors, from the text that the WAL has.

As JSON, what JSON has a form for takes it (numbers with all their digits, booleans, json as it is, arrays),
and all else is the text that Postgres prints in a pinned session. As typed columns, text is read as the type
of the field; what that type cannot hold (infinity, NaN in a decimal, a year beyond 1 to 9999) is null. A
value that the UPDATE did not touch and the WAL does not repeat is in neither: its column is in `unchanged`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flusso.capture.protocol import to_unix_us
from flusso.capture.rows import READ, RowChange, Shape
from flusso.change import UNCHANGED, Operation, Values
from flusso.errors import ConfigError, SourceRefused
from flusso.postgres.array_text import Nested, flatten, parse_array

_WORDS = {
    Operation.INSERT.value: "insert",
    Operation.UPDATE.value: "update",
    Operation.DELETE.value: "delete",
    Operation.TRUNCATE.value: "truncate",
    READ: "read",
}
_BOOLEAN = 16
_NUMBERS = {20, 21, 23, 26, 700, 701, 1700}
_JSON = {114, 3802}
# Built-in arrays by oid, with the oid of their element. Their elements are all parted by commas.
_ELEMENTS = {
    1000: 16, 1001: 17, 1002: 18, 1003: 19, 1005: 21, 1007: 23, 1009: 25, 1014: 1042, 1015: 1043, 1016: 20,
    1021: 700, 1022: 701, 1028: 26, 1041: 869, 1115: 1114, 1182: 1082, 1183: 1083, 1185: 1184, 1187: 1186,
    1231: 1700, 1270: 1266, 199: 114, 2951: 2950, 3807: 3802, 651: 650, 791: 790,
}  # fmt: skip
_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_quote = json.JSONEncoder(ensure_ascii=False).encode

Image = Sequence[tuple[int, str | None]]
"""The known values of a row, each with the place of its column in the shape."""


class Renderer:
    """Makes record batches of one Spark schema. Keeps what it works out of the last shape."""

    def __init__(self, schema: StructType) -> None:
        image = schema["after"].dataType
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._fields = image.fields if isinstance(image, StructType) else None
        self._shape: Shape | None = None
        self._names: list[str] = []
        self._images: Callable[[Shape, Image | None], Any] = (
            self._json if self._fields is None else self._struct
        )
        self._readers = [reader_of(field.dataType) for field in self._fields or ()]

    def render(self, changes: Iterable[RowChange]) -> pa.RecordBatch:
        """Make one batch."""
        rows = [self._row(change) for change in changes]
        columns = zip(*rows, strict=True) if rows else [()] * len(self._schema)
        try:
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)
            ]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise SourceRefused(
                "a value does not fit the type of its column", hint="start the query again, or take JSON"
            ) from None
        return pa.record_batch(arrays, schema=self._schema)

    def _row(self, change: RowChange) -> tuple[Any, ...]:
        shape = change.shape
        before, after, unchanged = images(change)
        newest = after if after is not None else before
        key = (
            None if newest is None else [each for each in newest if shape.columns[each[0]].name in shape.key]
        )
        return (
            shape.table.schema,
            shape.table.name,
            _WORDS[change.operation],
            change.commit_lsn,
            change.ordinal,
            None if change.commit_time_us is None else to_unix_us(change.commit_time_us),
            change.xid,
            None if key is None else self._json(shape, key),
            self._images(shape, before),
            self._images(shape, after),
            unchanged,
        )

    def _json(self, shape: Shape, image: Image | None) -> str | None:
        if image is None:
            return None
        if shape is not self._shape:
            self._shape, self._names = shape, [_quote(column.name) + ":" for column in shape.columns]
        names, columns = self._names, shape.columns
        return "{" + ",".join(names[at] + to_json(value, columns[at].type_oid) for at, value in image) + "}"

    def _struct(self, shape: Shape, image: Image | None) -> dict[str, Any] | None:
        if image is None:
            return None
        assert self._fields is not None
        known = {shape.columns[at].name: value for at, value in image}
        made: dict[str, Any] = {}
        for field, read in zip(self._fields, self._readers, strict=True):
            text = known.get(field.name)
            try:
                made[field.name] = None if text is None else read(text)
            except (ValueError, InvalidOperation):
                kind = field.dataType.simpleString()
                raise SourceRefused(
                    f'column "{field.name}" of {shape.table} has a value that is no {kind}',
                    hint="its type was changed: start the query again, or take JSON: typed = false",
                ) from None
        return made


def images(change: RowChange) -> tuple[Image | None, Image | None, list[str]]:
    """Say what is known of the old and of the new row, and which columns of the new one are not."""
    columns = change.shape.columns
    before: Image | None = None
    if change.old is not None:
        before = [
            (at, value)
            for at, value in enumerate(change.old)
            if change.is_whole_old or columns[at].is_identity
        ]
    if change.new is None:
        return before, None, []
    new = _filled(change.new, change.old) if UNCHANGED in change.new else change.new
    after = [(at, value) for at, value in enumerate(new) if value != UNCHANGED]
    return before, after, [columns[at].name for at, value in enumerate(new) if value == UNCHANGED]


def _filled(new: Values, old: Values | None) -> Values:
    """An untouched value is that of the old row, where the replica identity gives it."""
    if old is None:
        return new
    return tuple(
        was if value == UNCHANGED and was is not None else value for was, value in zip(old, new, strict=True)
    )


def to_json(value: str | None, type_oid: int) -> str:
    """Write a value as JSON, by the type that it was sent with."""
    if value is None:
        return "null"
    if type_oid in _NUMBERS:
        return value if _JSON_NUMBER.fullmatch(value) else _quote(value)
    if type_oid == _BOOLEAN:
        return "true" if value == "t" else "false"
    if type_oid in _JSON:
        return value
    if type_oid in _ELEMENTS:
        return _array_json(parse_array(value), _ELEMENTS[type_oid])
    return _quote(value)


def _array_json(elements: Nested, type_oid: int) -> str:
    return (
        "["
        + ",".join(
            _array_json(each, type_oid) if isinstance(each, list) else to_json(each, type_oid)
            for each in elements
        )
        + "]"
    )


def reader_of(type_: DataType) -> Callable[[str], Any]:
    """Find what reads Postgres's text as a Spark type; it raises `ValueError` for any other text."""
    match type_:
        case StringType():
            return str
        case BooleanType():
            return _read_boolean
        case IntegralType():
            return int
        case DecimalType():
            return _read_decimal
        case FractionalType():
            return float
        case BinaryType():
            return _read_bytes
        case DateType():
            return _read_date
        case TimestampType() | TimestampNTZType():
            return _read_timestamp
        case ArrayType():
            read = reader_of(type_.elementType)
            return lambda text: [None if each is None else read(each) for each in flatten(parse_array(text))]
    raise ConfigError(
        f"a column cannot be read as {type_.simpleString()}",
        hint="use the type that the stream's own schema has, or string",
    )


def _read_boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError
    return text == "t"


def _read_decimal(text: str) -> Decimal | None:
    value = Decimal(text)
    return value if value.is_finite() else None


def _read_bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError
    return bytes.fromhex(text[2:])


def _is_beyond(text: str) -> bool:
    """Whether Python's calendar, and Spark's, do not reach there."""
    return text in ("infinity", "-infinity") or text.endswith(" BC") or text.partition("-")[0] > "9999"


def _read_date(text: str) -> date | None:
    return None if _is_beyond(text) or len(text) != 10 else date.fromisoformat(text)


def _read_timestamp(text: str) -> datetime | None:
    return None if _is_beyond(text) or text[4:5] != "-" else datetime.fromisoformat(text)
