"""Read finished documents by key, as following does. `builder/ranges.py` reads them by block range.

Called by the engine's tasks with a connection of their own. The JSON text goes from the server's answer
into `Built.body` untouched: it is never decoded, parsed or written anew. A document never contains a
line break, so it may stand as it is in a body of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psycopg
from psycopg.types.string import ByteaBinaryLoader

from flusso.builder.failure import building
from flusso.builder.keys import key_arrays
from flusso.builder.plan import IndexPlan
from flusso.document import Key, id_text, is_hashed
from flusso.postgres.connect import Connection

T = TypeVar("T")
_HASHED_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Built:
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
    # The binary form of json is its text: the loader for binary strings hands it over as it is.
    cursor.adapters.register_loader("json", ByteaBinaryLoader)
    cursor.execute(plan.by_keys.sql.encode(), [*key_arrays(keys), *plan.by_keys.operands], binary=True)
    rows = cursor.fetchall()
    if plan.references:
        return [Built(id_text(row[:-2]), row[-2], row[-1]) for row in rows]
    return [Built(id_text(row[:-1]), row[-1]) for row in rows]


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
