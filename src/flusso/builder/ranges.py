"""Read finished documents by ranges of blocks, as seeding does.

Rows come by COPY, one message for each, and wait in the server until they are taken: memory holds one chunk
of documents, whatever the size of a row. The bodies are those that `builder/read.py` gives for the same keys.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import generators, pq

from flusso.builder.extents import Extent, read_extents
from flusso.builder.failure import building
from flusso.builder.keys import key_arrays
from flusso.builder.level import PARTITION
from flusso.builder.plan import IndexPlan
from flusso.builder.read import Built
from flusso.builder.statement import Statement, in_range
from flusso.catalog import TableName
from flusso.debt import Reach
from flusso.document import Key, id_text
from flusso.errors import TableRewritten
from flusso.postgres.connect import Connection
from flusso.postgres.identifiers import quote_table

# Larger ones cost a search server a little less, but what the stream writes beside a seed waits behind them.
_CHUNK_BYTES = 400_000
_MAX_TID = "(4294967295,65535)"
_HEADER_BYTES = 19
"""What the first message begins with: a signature, flags, no extension."""
_COUNT_BYTES, _LENGTH_BYTES = 2, 4
_length = struct.Struct("!i").unpack_from
# Whoever moves the rows of a table waits for this lock, and then its file is another one.
_LOCK = "lock table only {table} in access share mode"
_FILE = "select coalesce(pg_relation_filenode(%s::regclass), 0)::bigint"


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Blocks of the root table, the end excluded; without an end it goes to wherever the table ends."""

    index: str
    start_block: int
    end_block: int | None
    partition: TableName | None = None
    """Of a partitioned root, the table whose blocks are meant."""
    oid: int = 0
    """Of the table whose blocks are meant."""
    filenode: int | None = None
    """The file that the blocks are counted in; None: whichever it is."""


def plan_ranges(conn: Connection, plan: IndexPlan, range_mb: float) -> list[BlockRange]:
    """Cut the root table, or each of its partitions, into ranges of about that size; the last has no end."""
    extents = read_extents(conn, plan.root)
    return [each for extent in extents for each in cut_ranges(plan, extent, range_mb)]


def cut_ranges(
    plan: IndexPlan, extent: Extent, range_mb: float, start: int = 0, end: int | None = None
) -> list[BlockRange]:
    """Cut one table of the root's tree, or some blocks of it; without an end the last range has none."""
    partition = extent.table if extent.table != plan.root else None
    step = max(1, int(range_mb * 1024 * 1024) // extent.block_bytes)
    starts = range(start, max(start + 1, extent.blocks if end is None else end), step)
    ends = [*starts[1:], end]
    return [
        BlockRange(plan.index, *blocks, partition, extent.oid, extent.filenode)
        for blocks in zip(starts, ends, strict=True)
    ]


def read_range(
    conn: Connection, plan: IndexPlan, block_range: BlockRange, *, chunk_bytes: int = _CHUNK_BYTES
) -> Iterator[list[Built]]:
    """Build the documents of a range, in one transaction, so many bytes at a time.

    Raises `TableRewritten` when its blocks are no longer those that were planned.
    """
    table, sql = _placed(plan, block_range, plan.by_range)
    with building(f'cannot build documents of index "{plan.index}"'), conn.transaction():
        _hold_file(conn, table, block_range.filenode)
        with psycopg.RawCursor(conn).copy(f"copy ({sql}) to stdout (format binary)".encode()) as copy:
            yield from _chunks(conn, copy, len(plan.key), chunk_bytes)


def read_keys(conn: Connection, plan: IndexPlan, block_range: BlockRange) -> list[Key]:
    """Give the keys of the rows in a range: what to build one by one when the range fails as a whole.

    Raises `TableRewritten` like `read_range`.
    """
    table, sql = _placed(plan, block_range, plan.keys_by_range)
    with building(f'cannot read keys of index "{plan.index}"'), conn.transaction():
        _hold_file(conn, table, block_range.filenode)
        return psycopg.RawCursor(conn).execute(sql.encode()).fetchall()


def read_reached(conn: Connection, plan: IndexPlan, block_range: BlockRange, reach: Reach) -> list[Key]:
    """Give the keys of those rows in a range that some values lead to.

    Raises `TableRewritten` like `read_range`.
    """
    (path,) = (path for path in plan.paths if path.place == reach.place)
    table = block_range.partition or plan.root
    sql = path.reached.replace(PARTITION, quote_table(table))
    parameters = [*_ends(block_range), *key_arrays(reach.keys)]
    with building(f'cannot find documents of index "{plan.index}"'), conn.transaction():
        _hold_file(conn, table, block_range.filenode)
        return psycopg.RawCursor(conn).execute(sql.encode(), parameters).fetchall()


def _placed(plan: IndexPlan, block_range: BlockRange, statement: Statement) -> tuple[TableName, str]:
    """Give the table whose blocks are meant, and the statement for them."""
    table = block_range.partition or plan.root
    return table, in_range(statement, table, *_ends(block_range))


def _ends(block_range: BlockRange) -> tuple[str, str]:
    end = _MAX_TID if block_range.end_block is None else f"({block_range.end_block},0)"
    return f"({block_range.start_block},0)", end


def _hold_file(conn: Connection, table: TableName, filenode: int | None) -> None:
    """See to it that until the end of the transaction the table has the file that was planned."""
    if filenode is None:
        return
    conn.execute(_LOCK.format(table=quote_table(table)).encode())
    row = conn.execute(_FILE, (quote_table(table),)).fetchone()
    if row is None or row[0] != filenode:
        raise TableRewritten(f"the rows of {table} were moved while they were read")


def _chunks(
    conn: Connection, copy: psycopg.Copy, key_columns: int, chunk_bytes: int
) -> Iterator[list[Built]]:
    """Take what has arrived, row by row, and wait only when nothing has: psycopg's own loop waits for each
    row, which costs more than all else here."""
    take, built_of = conn.pgconn.get_copy_data, _built
    chunk: list[Built] = []
    size, at = 0, _HEADER_BYTES
    while True:
        length, message = take(1)
        row = bytes(message if length else copy.read())
        if not row:
            break
        if len(row) > at + _COUNT_BYTES:  # the last message is a count alone
            chunk.append(built_of(row, at, key_columns))
        size, at = size + len(row), 0
        if chunk and size >= chunk_bytes:
            yield chunk
            chunk, size = [], 0
    if length < 0:
        _finish(conn)
    if chunk:
        yield chunk


def _built(row: bytes, at: int, key_columns: int) -> Built:
    """Take a row apart: the number of fields, then of each its length and its bytes.

    The key's come first, then the document, then its tokens if there are any.
    """
    start = at + _COUNT_BYTES + _LENGTH_BYTES
    at = start + _length(row, start - _LENGTH_BYTES)[0]
    key: Key = (row[start:at].decode(),)
    for _ in range(key_columns - 1):
        start = at + _LENGTH_BYTES
        at = start + _length(row, at)[0]
        key = (*key, row[start:at].decode())
    start = at + _LENGTH_BYTES
    end = start + _length(row, at)[0]
    tokens = row[end + _LENGTH_BYTES :] if end < len(row) else None
    return Built(id_text(key), row[start:end], tokens)


def _finish(conn: Connection) -> None:
    """Take the end of a COPY, or raise what ended it."""
    (result,) = conn.wait(generators.fetch_many(conn.pgconn))
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
