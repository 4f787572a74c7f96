"""The SQLite file: how it is opened, its tables, and what its errors mean.

Many processes have the file open at once. Write-ahead logging lets readers go on while one writes;
writers queue up behind `begin immediate` and wait for `busy_timeout`. `synchronous = full` makes a commit
survive a power cut, not only `kill -9`: flusso confirms a position because the sink said "durable", and
one sync per batch did not show in the measurements (44 k documents/s either way).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from flusso.errors import SinkError, SinkRefused, SinkUnavailable

_APPLICATION_ID = 0x666C7573  # "flus"
_LAYOUT = 2
_TABLES = """
create table if not exists generations (
    target integer primary key,
    name text not null,
    digest text not null,
    generation integer not null,
    unique (name, digest, generation)
);
create table if not exists published (
    name text primary key,
    target integer not null
) without rowid;
create table if not exists documents (
    seq integer primary key,
    target integer not null,
    id text not null,
    version integer not null,
    body text,
    unique (target, id)
);
create table if not exists states (
    name text primary key,
    state text not null
) without rowid;
create table if not exists quarantine (
    name text not null,
    id text not null,
    version integer not null,
    sink text not null,
    reason text not null,
    at real not null,
    attempts integer not null,
    primary key (name, id)
) without rowid;
"""
"""A removed document keeps its row with a null body: its version still turns older writes away."""


def open_file(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open the file, and make it and its tables if it is new."""
    attempts = Retrying(
        # The switch to write-ahead logging does not wait for the busy timeout by itself.
        retry=retry_if_exception_type(SinkUnavailable),
        stop=stop_after_delay(busy_timeout_s),
        wait=wait_random_exponential(multiplier=0.01, max=0.2),
        reraise=True,
    )
    return attempts(_open, path, busy_timeout_s)


def _open(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    with translated(path):
        conn = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
    try:
        with translated(path):
            _refuse_foreign(conn, path)
            conn.execute("pragma journal_mode = wal")
            conn.execute("pragma synchronous = full")
            if conn.execute("pragma application_id").fetchone() != (_APPLICATION_ID,):
                _create_tables(conn)
    except BaseException:
        conn.close()
        raise
    return conn


def _refuse_foreign(conn: sqlite3.Connection, path: Path) -> None:
    conn.execute("begin")  # all three as they are at one moment: another process may be making the tables
    (application,) = conn.execute("pragma application_id").fetchone()
    (layout,) = conn.execute("pragma user_version").fetchone()
    (tables,) = conn.execute("select count(*) from sqlite_master").fetchone()
    conn.execute("commit")
    if application != _APPLICATION_ID and tables:
        raise SinkRefused(f'"{path}" is a database of another program', hint="choose another path")
    if application == _APPLICATION_ID and layout != _LAYOUT:
        raise SinkRefused(
            f'"{path}" was made by another release of flusso', hint="choose another path and seed anew"
        )


def _create_tables(conn: sqlite3.Connection) -> None:
    with transaction(conn):
        for statement in _TABLES.split(";"):
            conn.execute(statement)
        conn.execute(f"pragma user_version = {_LAYOUT}")
        conn.execute(f"pragma application_id = {_APPLICATION_ID}")


def identity_of(path: Path) -> tuple[int, int] | None:
    """Tell which file is there under a path, whatever its content; None when there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SinkUnavailable(f'"{path}" cannot be read or written now') from error
    return found.st_dev, found.st_ino


@contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """Write in one transaction that is alone from its start, so what it reads cannot change under it."""
    conn.execute("begin immediate")
    try:
        yield
        conn.execute("commit")
    except BaseException:
        if conn.in_transaction:
            conn.execute("rollback")
        raise


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(path, error) from error


def _meaning(path: Path, error: sqlite3.Error) -> SinkError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return SinkUnavailable(f'"{path}" is locked by another process')
        case sqlite3.SQLITE_FULL:
            return SinkUnavailable(f'there is no room for "{path}"', hint="free some disk space")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
            return SinkUnavailable(f'"{path}" cannot be read or written now')
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return SinkRefused(
                f'"{path}" is not a sound SQLite database', hint="move it away and let flusso seed a new one"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return SinkRefused(
                f'"{path}" cannot be opened', hint="is its folder there, and may you write in it?"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return SinkRefused(f'"{path}" cannot be written', hint="check its permissions")
        case _:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            return SinkRefused(f'"{path}" refused a statement ({name})')
