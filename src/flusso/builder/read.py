"""Read finished documents: by key while following, by block range while seeding.

Called by the engine's tasks with a connection of their own. The JSON text goes from the server's answer
into `Built.body` untouched: it is never decoded, parsed or written anew. A document never contains a
line break, so it may stand as it is in a body of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.types.string import ByteaBinaryLoader

from flusso.builder.extents import Extent, read_extents
from flusso.builder.failure import building
from flusso.builder.keys import key_arrays
from flusso.builder.plan import IndexPlan
from flusso.builder.statement import PARTITION
from flusso.catalog import TableName
from flusso.document import Key, id_text, is_hashed
from flusso.postgres.connect import Connection
from flusso.postgres.identifiers import quote_table

T = TypeVar("T")
_HASHED_PAGE = 10_000
_MAX_FETCH = 10_000
# Larger ones cost a search server a little less, but what the stream writes beside a seed waits behind them.
_CHUNK_BYTES = 400_000
_MAX_TID = "(4294967295,65535)"
# A cursor is planned for its first rows by default, but all of these will be read. The estimate of a range
# is high enough to compile its expressions, which would cost more than the range gains from it.
_SETTINGS = "select set_config('cursor_tuple_fraction', '1', true), set_config('jit', 'off', true)"


@dataclass(frozen=True, slots=True)
class Built:
    """One document as it is now; no body means that its row is gone."""

    id: str
    body: bytes | None
    tokens: bytes | None = None
    """The rows that it was built from, as a JSON array of texts; None where no references are kept."""


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Blocks of the root table, the end excluded; without an end it goes to wherever the table ends."""

    index: str
    start_block: int
    end_block: int | None
    partition: TableName | None = None
    """Of a partitioned root, the table whose blocks are meant."""


def read_documents(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> list[Built]:
    """Build the documents of the keys; a key whose id no row has is a removal.

    Ids are compared as text: 1.0 and 1.00 are one key in SQL and two ids in an index.
    """
    built = _asking(conn, plan, keys, _read)
    found = {document.id for document in built}
    missing = dict.fromkeys(text for text in map(id_text, keys) if text not in found)
    return [*built, *(Built(text, None) for text in missing)]


def find_documents(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> set[str]:
    """Give the ids of those keys that have a document now, without building it."""
    return set(_asking(conn, plan, keys, _find))


def _asking(
    conn: Connection,
    plan: IndexPlan,
    keys: Sequence[Key],
    ask: Callable[[Connection, IndexPlan, list[Key]], list[T]],
) -> list[T]:
    """Ask for the rows of keys. Ids that a sink holds may be anything: what cannot be a key has no row."""
    asked = [key for key in keys if len(key) == len(plan.key) and not is_hashed(key)]
    with building(f'cannot build documents of index "{plan.index}"'):
        if hashed := {id_text(key) for key in keys if is_hashed(key)}:
            asked += _find_hashed(conn, plan, hashed)
        try:
            return ask(conn, plan, asked) if asked else []
        except (psycopg.DataError, psycopg.IntegrityError):
            fit = _fitting(conn, plan, asked)
            if len(fit) == len(asked):
                raise
            return ask(conn, plan, fit) if fit else []


def _fitting(conn: Connection, plan: IndexPlan, keys: list[Key]) -> list[Key]:
    """Leave out the keys that are no values of the key's type, found by halves."""
    try:
        psycopg.RawCursor(conn).execute(plan.cast_keys.sql.encode(), key_arrays(keys))
        return keys
    except (psycopg.DataError, psycopg.IntegrityError):
        half = len(keys) // 2
        return [*_fitting(conn, plan, keys[:half]), *_fitting(conn, plan, keys[half:])] if half else []


def _read(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> list[Built]:
    cursor = psycopg.RawCursor(conn)
    _give_bytes(cursor)
    cursor.execute(plan.by_keys.sql.encode(), [*key_arrays(keys), *plan.by_keys.operands], binary=True)
    return _built(cursor.fetchall(), plan)


def _find(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> list[str]:
    found = plan.found_by_keys
    rows = psycopg.RawCursor(conn).execute(found.sql.encode(), [*key_arrays(keys), *found.operands])
    return [id_text(row) for row in rows]


def _find_hashed(conn: Connection, plan: IndexPlan, ids: set[str]) -> list[Key]:
    """Give the keys of the rows that have these hashed ids now.

    A hash is asked for only after TRUNCATE, when the sink alone knows what there was. Every row with a long
    key is looked at; there is no index to help, and hardly ever such a row.
    """
    found: list[Key] = []
    with conn.transaction():
        with psycopg.RawServerCursor(conn, "flusso_hashed") as cursor:
            cursor.execute(plan.long_keys.sql.encode())
            while rows := cursor.fetchmany(_HASHED_PAGE):
                found += (key for key in rows if id_text(key) in ids)
    return found


def plan_ranges(conn: Connection, plan: IndexPlan, range_mb: float) -> list[BlockRange]:
    """Cut the root table, or each of its partitions, into ranges of about that size; the last has no end."""
    extents = read_extents(conn, plan.root)
    ranges = [each for extent in extents for each in cut_ranges(plan, extent, range_mb)]
    # Without a partition there is nothing to read, but a seed has to begin in order to end.
    return ranges or [BlockRange(plan.index, 0, None)]


def cut_ranges(plan: IndexPlan, extent: Extent, range_mb: float, first_block: int = 0) -> list[BlockRange]:
    """Cut one table of the root's tree, from a block on."""
    partition = extent.table if extent.table != plan.root else None
    step = max(1, int(range_mb * 1024 * 1024) // extent.block_bytes)
    starts = range(first_block, max(first_block + 1, extent.blocks), step)
    return [
        BlockRange(plan.index, start, start + step if start != starts[-1] else None, partition)
        for start in starts
    ]


def read_range(
    conn: Connection, plan: IndexPlan, block_range: BlockRange, *, first: int = 100
) -> Iterator[list[Built]]:
    """Build the documents of a range, in one transaction: a few first, then so many bytes at a time."""
    end = _MAX_TID if block_range.end_block is None else f"({block_range.end_block},0)"
    parameters = [f"({block_range.start_block},0)", end, *plan.by_range.operands]
    sql = plan.by_range.sql.replace(PARTITION, quote_table(block_range.partition or plan.root))
    with building(f'cannot build documents of index "{plan.index}"'):
        with conn.transaction():
            conn.execute(_SETTINGS)
            with psycopg.RawServerCursor(conn, "flusso_range") as cursor:
                _give_bytes(cursor)
                cursor.execute(sql.encode(), parameters, binary=True)
                fetch = first
                while rows := cursor.fetchmany(fetch):
                    built = _built(rows, plan)
                    fetch = _next_fetch(built)
                    yield built


def _next_fetch(built: Sequence[Built]) -> int:
    """Fit as many documents into a fetch as were found to make up a chunk: they may be large."""
    size = sum(len(document.body or b"") + len(document.tokens or b"") for document in built) // len(built)
    return max(1, min(_MAX_FETCH, _CHUNK_BYTES // max(1, size)))


def _give_bytes(cursor: psycopg.Cursor[Any] | psycopg.ServerCursor[Any]) -> None:
    # The binary form of json is its text: the loader for binary strings hands it over as it is.
    cursor.adapters.register_loader("json", ByteaBinaryLoader)


def _built(rows: Sequence[tuple[Any, ...]], plan: IndexPlan) -> list[Built]:
    if plan.references:
        return [Built(id_text(row[:-2]), row[-2], row[-1]) for row in rows]
    return [Built(id_text(row[:-1]), row[-1]) for row in rows]
