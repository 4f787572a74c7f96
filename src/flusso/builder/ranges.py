"""Read finished documents by ranges of blocks, as seeding does.

Rows come a few at a time and wait in the server until they are taken: memory holds one chunk of documents
and those few, whatever is in a range. The bodies are those that `builder/read.py` gives for the same keys.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg import pq

from flusso.builder.extents import Extent, read_extents
from flusso.builder.failure import building
from flusso.builder.keys import key_arrays
from flusso.builder.level import PARTITION
from flusso.builder.plan import IndexPlan
from flusso.builder.read import Built, built_of, document_cursor
from flusso.builder.statement import Statement, in_range
from flusso.catalog import TableName
from flusso.debt import Reach
from flusso.document import Key
from flusso.errors import TableRewritten
from flusso.postgres.connect import Connection
from flusso.postgres.identifiers import quote_table

# Smaller ones cost a search server and whoever writes them more CPU, larger ones no less; and what the stream
# writes beside a seed waits behind them.
_CHUNK_BYTES = 500_000
_MAX_TID = "(4294967295,65535)"
# So many are half the work of one at a time, more are hardly less, and each may be a document of megabytes.
_ROWS_AT_A_TIME = 5 if pq.version() >= 170000 else 1
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
    step = max(1, int(range_mb * 1024 * 1024 / extent.bytes_in_a_block))
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
        stream = document_cursor(conn).stream(sql.encode(), binary=True, size=_ROWS_AT_A_TIME)
        # One that is left in the middle keeps the connection: it has to end before the transaction can.
        with closing(cast("Generator[tuple[Any, ...]]", stream)) as rows:
            yield from _chunks(built_of(rows, plan), chunk_bytes)


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


def _chunks(documents: Iterable[Built], chunk_bytes: int) -> Iterator[list[Built]]:
    """Put documents together until they have so many bytes, with their tokens."""
    chunk: list[Built] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.body or b"") + len(document.tokens or b"")
        if size >= chunk_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
