"""Changes as Arrow, the form in which they travel to executors.

The reader encodes a piece once; the bytes then cross processes as they are, for whoever takes them does not
look inside before they are decoded. pyarrow is met here and nowhere else in capture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from flusso.capture.transactions import Row
from flusso.catalog import TableName
from flusso.change import ALL, Change, Operation, Values
from flusso.errors import DecodeError
from flusso.lsn import Lsn

_VALUES = pa.list_(pa.field("element", pa.string()))
SCHEMA = pa.schema(
    [
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("operation", pa.string()),
        ("old", _VALUES),
        ("new", _VALUES),
        ("commit_lsn", pa.int64()),
        ("ordinal", pa.int64()),
        ("changed", pa.int64()),
    ]
)


def warm_up() -> None:
    """Encode a row for nothing: pyarrow's first array costs a fifth of a second, better now than then."""
    encode([(TableName("", ""), Operation.INSERT.value, None, ("",), 0, 0, ALL)])


def encode(changes: Sequence[Row]) -> bytes:
    """Write rows as one Arrow IPC stream; no rows give no bytes."""
    if not changes:
        return b""
    tables, operations, old, new, commits, ordinals, changed = zip(*changes, strict=True)
    batch = pa.record_batch(
        [
            _texts([table.schema for table in tables]),
            _texts([table.name for table in tables]),
            _texts(operations),
            value_lists(old),
            value_lists(new),
            pa.array(commits, pa.int64()),
            pa.array(ordinals, pa.int64()),
            pa.array(changed, pa.int64()),
        ],
        schema=SCHEMA,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode(payload: bytes) -> Iterator[Change]:
    """Read the changes of a payload back."""
    if not payload:
        return
    try:
        with pa.ipc.open_stream(payload) as reader:
            for batch in reader:
                yield from _changes(batch)
    except pa.ArrowInvalid as error:
        raise DecodeError("a batch of changes is not an Arrow stream") from error


def split(payload: bytes, key: tuple[int, int]) -> tuple[bytes, int, bytes]:
    """Part the rows up to that commit LSN and ordinal from those after; give how many the first part has.

    Rows are in stream order, and both kinds of payload name these two columns alike.
    """
    if not payload:
        return b"", 0, b""
    with pa.ipc.open_stream(payload) as reader:
        table = reader.read_all()
    keys = zip(table["commit_lsn"].to_pylist(), table["ordinal"].to_pylist(), strict=True)
    count = sum(1 for each in keys if each <= key)
    if count in (0, len(table)):
        return (b"", 0, payload) if count == 0 else (payload, count, b"")
    return _write(table.slice(0, count)), count, _write(table.slice(count))


def _write(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _changes(batch: pa.RecordBatch) -> Iterator[Change]:
    columns: Iterable[tuple[str, str, str, list[str | None] | None, list[str | None] | None, int, int, int]]
    columns = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    names: dict[tuple[str, str], TableName] = {}
    for schema, name, operation, old, new, commit, ordinal, changed in columns:
        table = names.setdefault((schema, name), TableName(schema, name))
        kind = Operation(operation.lower())
        is_blind = operation.isupper()
        yield Change(table, kind, _values(old), _values(new), Lsn(commit), ordinal, is_blind, changed)


def _values(found: list[str | None] | None) -> Values | None:
    return None if found is None else tuple(found)


def _texts(column: Sequence[str]) -> pa.Array:
    if column.count(column[0]) == len(column):
        return pa.repeat(pa.scalar(column[0], pa.string()), len(column))
    return pa.array(column, pa.string())


def value_lists(column: Sequence[Values | None]) -> pa.Array:
    """Build a list column from one flat array: several times faster than pyarrow's own inference."""
    present = [values for values in column if values is not None]
    if not present:
        return pa.nulls(len(column), _VALUES)
    flat = pa.array(list(chain.from_iterable(present)), pa.string())
    offsets: Sequence[int | None]
    width = len(present[0])
    if len(present) == len(column) and len(flat) == width * len(column) and width == max(map(len, present)):
        offsets = range(0, len(flat) + 1, width) if width else [0] * (len(column) + 1)
    else:
        offsets = _offsets(column)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat, type=_VALUES)


def _offsets(column: Sequence[Values | None]) -> list[int | None]:
    """Where each list begins in the flat array; no offset makes a null list."""
    at = 0
    offsets: list[int | None] = []
    for values in column:
        offsets.append(None if values is None else at)
        at += 0 if values is None else len(values)
    offsets.append(at)
    return offsets
