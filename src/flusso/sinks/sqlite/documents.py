"""How writes meet the documents of a SQLite sink: what is older than what is there is left out.

Called within the sink's transaction, so that what is compared cannot change under it. A removal keeps its
row, without a body: its version goes on counting.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flusso.document import Write


class Row(NamedTuple):
    """A row of `documents`."""

    seq: int
    target: int
    id: str
    version: int
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of writes."""

    rows: list[Row]
    """Those that were stored."""
    superseded: int
    newest_conflict: int


@dataclass(frozen=True, slots=True)
class _Present:
    """What is there already under an id."""

    seq: int
    version: int
    is_live: bool


def merge_writes(
    conn: sqlite3.Connection, target: int, writes: Sequence[Write], texts: Mapping[str, str]
) -> Merged:
    """Store what is not older than what is there; a document without a text to search was refused."""
    present = _present(conn, target, [write.id for write in writes])
    (last,) = conn.execute("select coalesce(max(seq), 0) from documents").fetchone()
    rows: list[Row] = []
    newest_conflict = superseded = 0
    for write in writes:
        found = present.get(write.id)
        if write.body is not None and write.id not in texts:
            continue
        if found is not None and found.version > write.version:
            superseded += 1
            newest_conflict = max(newest_conflict, found.version)
            continue
        if found is None:
            last += 1
        seq = last if found is None else found.seq
        rows.append(Row(seq, target, write.id, write.version, write.body))
    _store(conn, target, rows, present, texts)
    return Merged(rows, superseded, newest_conflict)


def _present(conn: sqlite3.Connection, target: int, ids: Sequence[str]) -> dict[str, _Present]:
    rows = conn.execute(
        "select id, seq, version, body is not null from documents"
        " where target = ? and id in (select value from json_each(?))",
        (target, json.dumps(ids)),
    )
    return {id_: _Present(seq, version, bool(is_live)) for id_, seq, version, is_live in rows}


def _store(
    conn: sqlite3.Connection,
    target: int,
    rows: Sequence[Row],
    present: Mapping[str, _Present],
    texts: Mapping[str, str],
) -> None:
    stale = [(found.seq,) for row in rows if (found := present.get(row.id)) is not None and found.is_live]
    conn.executemany(f"delete from search_{target} where rowid = ?", stale)
    conn.executemany(
        # The cast keeps the bytes and only marks them as text, which SQL's JSON functions want.
        "insert into documents (seq, target, id, version, body) values (?, ?, ?, ?, cast(? as text))"
        " on conflict (seq) do update set version = excluded.version, body = excluded.body",
        rows,
    )
    conn.executemany(
        f"insert into search_{target} (rowid, body) values (?, ?)",
        [(row.seq, texts[row.id]) for row in rows if row.body is not None],
    )
