"""Tables that nobody watches, in a publication of all tables: they cost little and disturb nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from streams import read_changes, slot_of, streaming

from fix_postgres import Database
from flusso.capture import stream as stream_module
from flusso.capture import wire
from flusso.capture.slot import ensure_slot
from flusso.capture.stream import CaptureSpec
from flusso.capture.transactions import Assembler
from flusso.catalog import TableName
from flusso.change import WatchedTable
from sizes import SIZES
from waiting import wait_until

pytestmark = pytest.mark.postgres

_ROUNDS = 4
"""The least of some counts: what else runs on the machine only adds to it."""

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


def test_the_server_hears_of_the_reader_while_it_is_asked_what_a_new_relation_is(
    database18: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()
    check = stream_module.check_strangers

    def check_slowly(*arguments: object) -> None:
        assert answer.wait(30)
        check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stream_module, "check_strangers", check_slowly)
    spec = replace(_spec(database18), status_interval_s=0.1)
    heard = (
        "select reply_time from pg_stat_replication join pg_replication_slots on active_pid = pid "
        "where slot_name = %s"
    )
    with streaming(spec) as (stream, start):
        database18.execute("insert into noise values (1, 'x'); insert into users values (1, 'held')")
        assert not stream.wait(start, 0.3)
        ((before,),) = database18.execute(heard, spec.slot)
        wait_until(
            lambda: database18.execute(heard, spec.slot) > [(before,)], what="a status after the question"
        )
        answer.set()
        changes, _ = read_changes(stream, start, 1)
        assert [change.new for change in changes] == [("1",)]


@pytest.mark.sized
def test_changes_that_nobody_watches_cost_a_fraction_of_the_others(
    database18: Database, figure: Callable[[str, str], None]
) -> None:
    count = SIZES.unwatched_changes
    spec = _spec(database18)
    spent = {}
    for table in ("users", "noise"):
        database18.execute(f"insert into {table} select n, 'x' from generate_series(1, {count}) as n")
        messages = _sent(database18, spec.slot)
        assert len(messages) > count
        spent[table] = min(_assemble(spec, messages) for _ in range(_ROUNDS))
    figure(
        f"CPU of the source for {count:,} changes of one table",
        f"watched {spent['users']:.2f} s, not watched {spent['noise']:.2f} s",
    )
    assert spent["noise"] < 0.5 * spent["users"]


def _sent(database: Database, slot: str) -> list[bytes]:
    """What the server sends from a slot, which then moves on."""
    with database.connect() as conn:
        cursor = conn.cursor(binary=True)
        cursor.execute(
            "select data from pg_logical_slot_get_binary_changes(%s, null, null, 'proto_version', '1', "
            "'publication_names', 'flusso')",
            (slot,),
        )
        return [bytes(row[0]) for row in cursor]


def _assemble(spec: CaptureSpec, messages: list[bytes]) -> float:
    """Make pieces for executors of what was sent; give the CPU seconds."""
    assembler = Assembler(spec.tables, piece_changes=spec.piece_changes, piece_bytes=spec.piece_bytes)
    began_s = time.process_time()
    for message in messages:
        for piece in assembler.feed(message, 0):
            wire.encode(piece.changes)
    return time.process_time() - began_s
