"""Read finished documents by key, as following does. `builder/ranges.py` reads them by block range.

Called by the engine's tasks with a connection of their own. The JSON text goes from the server's answer
into `Built.body` untouched: it is never decoded, parsed or written anew. A document never contains a
line break, so it may stand as it is in a body of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.types.string import ByteaBinaryLoader

from flusso.builder.failure import building
from flusso.builder.keys import key_arrays
from flusso.builder.plan import IndexPlan
from flusso.document import Key, id_text, is_hashed, is_id_alone, without_row
from flusso.postgres.connect import Connection

T = TypeVar("T")
_HASHED_PAGE = 10_000


class Built(NamedTuple):
    """One document as it is now; no body means that its row is gone."""

    id: str
    body: bytes | None
    tokens: bytes | None = None
    """The rows that it was built from, as a JSON array of texts; None where no references are kept."""


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
    named = name_hashed(conn, plan, keys)
    asked = [key for key in named if len(key) == len(plan.key) and not is_id_alone(key)]
    with building(f'cannot build documents of index "{plan.index}"'):
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
    cursor = document_cursor(conn)
    cursor.execute(plan.by_keys.sql.encode(), [*key_arrays(keys), *plan.by_keys.operands], binary=True)
    return list(built_of(cursor, plan))


def document_cursor(conn: Connection) -> psycopg.RawCursor[tuple[Any, ...]]:
    """Make a cursor that gives documents as they come, when it is asked for the binary form."""
    cursor = psycopg.RawCursor(conn)
    # The binary form of json is its text: the loader for binary strings hands it over as it is.
    cursor.adapters.register_loader("json", ByteaBinaryLoader)
    return cursor


def built_of(rows: Iterable[tuple[Any, ...]], plan: IndexPlan) -> Iterator[Built]:
    """Name the parts of rows: the key's columns, the document, and its tokens where references are kept."""
    columns, has_tokens = len(plan.key), bool(plan.references)
    for row in rows:
        yield Built(id_text(row[:columns]), row[columns], row[-1] if has_tokens else None)


def _find(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> list[str]:
    found = plan.found_by_keys
    rows = psycopg.RawCursor(conn).execute(found.sql.encode(), [*key_arrays(keys), *found.operands])
    return [id_text(row) for row in rows]


def name_hashed(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> list[Key]:
    """Put the keys of the rows that have them now in place of hashed ids, and say which ones no row has.

    The order stays. Whoever writes takes its version before: what no row had may have one a moment later.

    A hash comes from a sink: from all that it holds, or from what it finds by references. Every row with a
    long key is looked at, there is no index to help. So whoever has many ids asks once for all of them; what
    this gives is not looked for again.
    """
    hashed = {id_text(key) for key in keys if is_hashed(key)}
    if not hashed:
        return list(keys)
    found = {id_text(key): key for key in keys if not is_id_alone(key)}
    if wanted := hashed - found.keys():
        with building(f'cannot build documents of index "{plan.index}"'):
            found |= _find_hashed(conn, plan, wanted)
    return [(found.get(key[1]) or without_row(key)) if is_hashed(key) else key for key in keys]


def _find_hashed(conn: Connection, plan: IndexPlan, ids: set[str]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    with conn.transaction():
        with psycopg.RawServerCursor(conn, "flusso_hashed") as cursor:
            cursor.execute(plan.long_keys.sql.encode())
            while rows := cursor.fetchmany(_HASHED_PAGE):
                found |= {id_: key for key in rows if (id_ := id_text(key)) in ids}
    return found
