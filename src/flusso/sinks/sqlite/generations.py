"""Generations of an index in a SQLite file: which number one has, and how it goes."""

from __future__ import annotations

import sqlite3

from flusso.errors import SinkRefused
from flusso.sinks.base import Held, IndexTarget
from flusso.sinks.sqlite.references import drop_references
from flusso.sinks.state import state_key


def find_generation(conn: sqlite3.Connection, target: IndexTarget) -> int | None:
    """Give the number of a generation; None when it is not there."""
    found = conn.execute(
        "select target from generations where name = ? and digest = ? and generation = ?",
        (target.index, target.digest, target.generation),
    ).fetchone()
    return None if found is None else int(found[0])


def is_published(conn: sqlite3.Connection, target: IndexTarget) -> bool:
    """Whether readers see a generation."""
    number = find_generation(conn, target)
    found = conn.execute("select target from published where name = ?", (target.index,)).fetchone()
    return number is not None and found is not None and int(found[0]) == number


def list_generations(conn: sqlite3.Connection) -> list[Held]:
    """List the generations with the bytes of their documents."""
    rows = conn.execute(
        "select name, digest, generation, target in (select target from published),"
        " (select coalesce(sum(length(cast(body as blob))), 0) from documents"
        "  where documents.target = generations.target)"
        " from generations order by name, generation"
    )
    return [Held(name, digest, number, size, bool(is_read)) for name, digest, number, is_read, size in rows]


def drop_generation(conn: sqlite3.Connection, target: IndexTarget) -> None:
    """Remove a generation with its state; within the caller's transaction. Refuses one that readers see."""
    number = find_generation(conn, target)
    if number is not None:
        if conn.execute("select 1 from published where target = ?", (number,)).fetchone():
            raise SinkRefused(f'readers of index "{target.index}" see generation {target.generation}')
        conn.execute(f"drop table if exists search_{number}")
        drop_references(conn, number)
        conn.execute("delete from documents where target = ?", (number,))
        conn.execute("delete from generations where target = ?", (number,))
    conn.execute("delete from states where name = ?", (state_key(target.index, target.generation),))
    conn.execute(  # as an earlier release kept it
        "delete from states where name = ? and json_extract(state, '$.generation') = ?",
        (target.index, target.generation),
    )
