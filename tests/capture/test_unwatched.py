"""Tables that nobody watches, in a publication of all tables: they cost little and disturb nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from streams import current_lsn, read_changes, slot_of, streaming

from fix_postgres import Database
from flusso.capture.slot import ensure_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Position
from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.lsn import Lsn
from sizes import SIZES
from waiting import wait_until

pytestmark = pytest.mark.postgres

_TABLES = """
create table users (id int primary key, name text);
create table noise (id int primary key, name text);
create table keyless (id int, name text);
create table "odd "" name.of a table" (id int primary key, "Ünï" text);
create table "select" (id int primary key, name text);
create schema "Other Schema";
create table "Other Schema".users (id int primary key, name text);
create publication flusso for all tables
"""


def _spec(database: Database) -> CaptureSpec:
    database.execute(_TABLES)
    with database.connect() as conn:
        ensure_slot(conn, slot_of(database.dsn))
    users = WatchedTable(TableName("public", "users"), ("id",))
    return CaptureSpec(database.dsn, slot_of(database.dsn), "flusso", (users,))


def test_oddly_named_and_keyless_tables_disturb_nothing(database: Database) -> None:
    with streaming(_spec(database)) as (stream, start):
        database.execute("insert into users values (1, 'before')")
        for table in ("noise", "keyless", '"odd "" name.of a table"', '"select"', '"Other Schema".users'):
            database.execute(f"insert into {table} values (7, 'x')")
            database.execute(f"truncate {table}")
        database.execute("insert into users values (2, 'after')")
        changes, _ = read_changes(stream, start, 2)
        assert [change.new for change in changes] == [("1",), ("2",)]


@pytest.mark.sized
def test_changes_that_nobody_watches_cost_a_fraction_of_the_others(
    database18: Database, figure: Callable[[str, str], None]
) -> None:
    count = SIZES.unwatched_changes
    with streaming(_spec(database18)) as (stream, start):
        spent = {}
        for table in ("users", "noise"):
            database18.execute(f"insert into {table} select n, 'x' from generate_series(1, {count}) as n")
            began_s = time.process_time()
            start = _drain(stream, start, current_lsn(database18.dsn))
            spent[table] = time.process_time() - began_s
    figure(
        f"CPU of the source for {count:,} changes of one table",
        f"watched {spent['users']:.2f} s, not watched {spent['noise']:.2f} s",
    )
    assert spent["noise"] < 0.5 * spent["users"]


def _drain(stream: CaptureStream, after: Position, to: Lsn) -> Position:
    """Take and confirm all up to a position, and wake no oftener than Spark does."""

    def take() -> bool:
        nonlocal after
        stream.wait(after, 0.5)
        end = stream.available(after, max_changes=100_000, max_bytes=32 << 20)
        stream.pieces(after, end)
        stream.confirm(end)
        after = end
        return after.lsn >= to

    wait_until(take, what="all changes", timeout_s=SIZES.patience_s)
    return after
