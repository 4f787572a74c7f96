"""References of documents in a SQLite file: the tokens of each document, written in its own transaction.

Every function is called within the caller's transaction. A document is named by its `seq`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

_TABLES = """
create table if not exists tokens (
    target integer not null,
    token text not null,
    seq integer not null,
    primary key (target, token, seq)
) without rowid;
create index if not exists tokens_of_documents on tokens (seq);
create table if not exists due_tokens (
    target integer not null,
    token text not null,
    primary key (target, token)
) without rowid;
"""


def ensure_tables(conn: sqlite3.Connection) -> None:
    """Make the tables; a file of an earlier release has none."""
    for statement in _TABLES.split(";"):
        conn.execute(statement)


def write_tokens(
    conn: sqlite3.Connection, target: int, documents: Iterable[tuple[int, bytes | None]]
) -> None:
    """Give documents these tokens in place of those they had."""
    written = list(documents)
    conn.executemany("delete from tokens where seq = ?", [(seq,) for seq, _ in written])
    conn.executemany(
        "insert or ignore into tokens select ?, value, ? from json_each(?)",
        [(target, seq, tokens.decode()) for seq, tokens in written if tokens is not None],
    )


def page_of_documents(
    conn: sqlite3.Connection, target: int, tokens: Sequence[str], after: int, limit: int
) -> list[tuple[int, str]]:
    """Give documents that have any of the tokens, in the order of `seq`, after one of them."""
    return conn.execute(
        "select distinct documents.seq, documents.id from tokens join documents using (seq)"
        " where tokens.target = ? and tokens.token in (select value from json_each(?)) and seq > ?"
        " order by documents.seq limit ?",
        (target, json.dumps(list(tokens)), after, limit),
    ).fetchall()


def remember_due(conn: sqlite3.Connection, target: int, tokens: Sequence[str]) -> None:
    """Keep tokens for a later look-up."""
    conn.executemany("insert or ignore into due_tokens values (?, ?)", [(target, token) for token in tokens])


def find_due(conn: sqlite3.Connection, target: int, limit: int) -> list[str]:
    """Give up to so many of the tokens that are kept."""
    rows = conn.execute("select token from due_tokens where target = ? limit ?", (target, limit))
    return [token for (token,) in rows]


def count_due(conn: sqlite3.Connection, target: int) -> int:
    """Count the tokens that are kept."""
    (found,) = conn.execute("select count(*) from due_tokens where target = ?", (target,)).fetchone()
    return int(found)


def forget_due(conn: sqlite3.Connection, target: int, tokens: Sequence[str]) -> None:
    """Keep these no longer."""
    conn.executemany(
        "delete from due_tokens where target = ? and token = ?", [(target, token) for token in tokens]
    )


def drop_references(conn: sqlite3.Connection, target: int) -> None:
    """Remove all that is kept of a generation."""
    ensure_tables(conn)
    conn.execute("delete from tokens where target = ?", (target,))
    conn.execute("delete from due_tokens where target = ?", (target,))
