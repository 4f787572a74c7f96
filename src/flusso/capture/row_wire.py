"""Full rows as Arrow, the form in which they travel to executors.

The twin of `wire` for the rows of `rows`. What a table looks like is said once in a payload, in the metadata
of its schema, however many rows it has; a payload can be cut in two by `wire.split`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from flusso.capture.rows import FullRow, RowChange, Shape, ShapeColumn
from flusso.capture.wire import value_lists
from flusso.catalog import TableName
from flusso.errors import DecodeError
from flusso.lsn import Lsn

_SHAPES = b"flusso.shapes"
_VALUES = pa.list_(pa.field("element", pa.string()))
_SCHEMA = pa.schema(
    [
        ("shape", pa.int32()),
        ("operation", pa.string()),
        ("is_whole_old", pa.bool_()),
        ("old", _VALUES),
        ("new", _VALUES),
        ("commit_lsn", pa.int64()),
        ("ordinal", pa.int64()),
        ("commit_time_us", pa.int64()),
        ("xid", pa.int64()),
    ]
)


def encode(rows: Sequence[FullRow]) -> bytes:
    """Write rows as one Arrow IPC stream; no rows give no bytes."""
    if not rows:
        return b""
    shapes, operations, whole, old, new, commits, ordinals, times, xids = zip(*rows, strict=True)
    # A shape is the same object for as long as its relation message holds, so this is cheap to look up.
    numbers: dict[int, int] = {}
    distinct: list[Shape] = []
    for shape in shapes:
        if id(shape) not in numbers:
            numbers[id(shape)] = len(distinct)
            distinct.append(shape)
    schema = _SCHEMA.with_metadata({_SHAPES: json.dumps([_to_json(shape) for shape in distinct]).encode()})
    batch = pa.record_batch(
        [
            pa.array([numbers[id(shape)] for shape in shapes], pa.int32()),
            pa.array(operations, pa.string()),
            pa.array(whole, pa.bool_()),
            value_lists(old),
            value_lists(new),
            *(pa.array(column, pa.int64()) for column in (commits, ordinals, times, xids)),
        ],
        schema=schema,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode(payload: bytes) -> Iterator[RowChange]:
    """Read the rows of a payload back."""
    if not payload:
        return
    try:
        with pa.ipc.open_stream(payload) as reader:
            shapes = [_from_json(fields) for fields in json.loads(reader.schema.metadata[_SHAPES])]
            for batch in reader:
                yield from _changes(batch, shapes)
    except (pa.ArrowInvalid, KeyError, TypeError) as error:
        raise DecodeError("a batch of rows is not an Arrow stream of them") from error


def _changes(batch: pa.RecordBatch, shapes: Sequence[Shape]) -> Iterator[RowChange]:
    columns = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    for number, operation, is_whole, old, new, commit, ordinal, time_us, xid in columns:
        yield RowChange(
            shapes[number],
            operation,
            is_whole,
            None if old is None else tuple(old),
            None if new is None else tuple(new),
            Lsn(commit),
            ordinal,
            time_us,
            xid,
        )


def _to_json(shape: Shape) -> list[object]:
    columns = [[column.name, column.type_oid, column.is_identity] for column in shape.columns]
    return [shape.table.schema, shape.table.name, columns, shape.key]


def _from_json(fields: list[object]) -> Shape:
    schema, name, columns, key = fields
    assert isinstance(schema, str)
    assert isinstance(name, str)
    assert isinstance(columns, list)
    assert isinstance(key, list)
    return Shape(TableName(schema, name), tuple(ShapeColumn(*column) for column in columns), tuple(key))
