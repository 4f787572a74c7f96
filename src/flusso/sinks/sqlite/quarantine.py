"""The quarantine of a SQLite sink: refused documents, one row each. Called within the sink's transactions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from flusso.document import Refusal


def keep(conn: sqlite3.Connection, refusals: Sequence[Refusal]) -> None:
    """Keep refused documents, each with one attempt more than it had."""
    conn.executemany(
        "insert into quarantine values (?, ?, ?, ?, ?, ?, ?)"
        " on conflict (name, id) do update set version = excluded.version, sink = excluded.sink,"
        " reason = excluded.reason, at = excluded.at, attempts = attempts + excluded.attempts",
        [
            (each.index, each.id, each.version, each.sink, each.reason, each.at, each.attempts)
            for each in refusals
        ],
    )


def release(conn: sqlite3.Connection, index: str, ids: Sequence[str], version: int) -> int:
    """Forget documents that were refused up to a version; give how many."""
    return conn.execute(
        "delete from quarantine where name = ? and version <= ? and id in (select value from json_each(?))",
        (index, version, json.dumps(list(ids))),
    ).rowcount


def entries(conn: sqlite3.Connection, index: str) -> list[Refusal]:
    """List the refused documents of an index, by id."""
    rows = conn.execute(
        "select name, id, version, sink, reason, at, attempts from quarantine where name = ? order by id",
        (index,),
    )
    return [Refusal(*row) for row in rows]
