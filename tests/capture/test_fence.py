"""On servers of their own: settings that would hold up every other test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest
from streams import prepare, read_images, streaming

from absent_standby import hanging_commit, standby_missing
from flusso.capture.snapshot import Blocker, await_settled, find_holder, read_snapshot
from flusso.demo.server import EmbeddedServer
from flusso.errors import SourceUnavailable
from flusso.postgres.connect import Dsn, connect
from waiting import wait_until

pytestmark = pytest.mark.postgres

Execute = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def execute(own_server: EmbeddedServer) -> Iterator[Execute]:
    def run(sql: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(own_server.dsn(), autocommit=True) as conn:
            cursor = conn.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    yield run
    run("drop table if exists users")
    run("drop publication if exists flusso")
    # Its sender lets go of a slot a moment after the reader has gone.
    wait_until(
        lambda: not run("select from pg_replication_slots where active"), what="the end of all senders"
    )
    run("select pg_drop_replication_slot(slot_name) from pg_replication_slots")


def test_a_commit_that_waits_for_a_standby_is_held_back_until_it_is_visible(
    own_server: EmbeddedServer, execute: Execute
) -> None:
    execute("create table users (id int primary key)")
    dsn = Dsn(own_server.dsn())
    spec = prepare(dsn, "id")
    with streaming(spec) as (stream, position):
        execute("insert into users values (1)")
        assert read_images(stream, position, 1) == [("i", None, ("1",))]
        position = stream.available(position, max_changes=100, max_bytes=1 << 20)
        writer = threading.Thread(target=execute, args=("insert into users values (2)",))
        with standby_missing(own_server.dsn()):
            writer.start()
            _wait_until_sent(own_server, execute, spec.slot)
            assert not stream.wait(position, 1)
        writer.join(20)
        assert read_images(stream, position, 1) == [("i", None, ("2",))]


def test_a_commit_that_is_held_back_for_long_is_named_with_its_holder_until_it_is_visible(
    own_server: EmbeddedServer, execute: Execute
) -> None:
    execute("create table users (id int primary key)")
    dsn = Dsn(own_server.dsn())
    spec = replace(prepare(dsn, "id"), stuck_s=0.2)
    began = time.time()
    with streaming(spec) as (stream, _):
        writer = threading.Thread(target=execute, args=("insert into users values (1)",))
        with standby_missing(own_server.dsn()):
            writer.start()
            pid = hanging_commit(own_server.dsn())
            held = wait_until(lambda: stream.held, what="the held transaction")
            with connect(dsn) as conn:
                assert find_holder(conn, held.xid) == Blocker(pid=pid)
            assert began < held.since < time.time()
        writer.join(20)
        wait_until(lambda: stream.held is None, what="the end of it")


def _wait_until_sent(server: EmbeddedServer, execute: Execute, slot: str) -> None:
    """The commit hangs, and the sender has sent all there is."""
    hanging_commit(server.dsn())
    ((target,),) = execute("select pg_current_wal_lsn()::text")
    wait_until(
        lambda: execute(
            "select pid from pg_stat_replication join pg_replication_slots on active_pid = pid "
            "where slot_name = %s and sent_lsn >= %s::pg_lsn",
            slot,
            target,
        ),
        what="the commit to be sent",
    )


def test_settling_waits_for_an_open_transaction_and_names_its_pid(own_server: EmbeddedServer) -> None:
    with connect(Dsn(own_server.dsn())) as conn, psycopg.connect(own_server.dsn()) as writer:
        writer.execute("select pg_current_xact_id()")
        pid = writer.info.backend_pid
        met: list[tuple[Blocker, ...]] = []

        def end_it(blockers: tuple[Blocker, ...]) -> None:
            met.append(blockers)
            writer.commit()

        await_settled(conn, 20, end_it)
        assert met[0] == (Blocker(pid=pid),)
        assert str(met[0][0]) == f"pid {pid}"


def test_settling_waits_for_a_prepared_transaction_and_names_it(
    own_server: EmbeddedServer, execute: Execute
) -> None:
    execute("create table users (id int primary key)")
    with psycopg.connect(own_server.dsn(), autocommit=True) as writer:
        writer.execute("begin")
        writer.execute("insert into users values (1)")
        writer.execute("prepare transaction 'later'")
    met: list[tuple[Blocker, ...]] = []

    def end_it(blockers: tuple[Blocker, ...]) -> None:
        met.append(blockers)
        execute("commit prepared 'later'")

    with connect(Dsn(own_server.dsn())) as conn:
        await_settled(conn, 20, end_it)
    assert met[0] == (Blocker(gid="later"),)


def test_settling_gives_up_in_the_end_and_names_who_is_in_the_way(own_server: EmbeddedServer) -> None:
    with connect(Dsn(own_server.dsn())) as conn, psycopg.connect(own_server.dsn()) as writer:
        writer.execute("select pg_current_xact_id()")
        with pytest.raises(SourceUnavailable, match=f"pid {writer.info.backend_pid}"):
            await_settled(conn, 0.1)


def test_settling_does_not_wait_for_readers(own_server: EmbeddedServer) -> None:
    with connect(Dsn(own_server.dsn())) as conn, psycopg.connect(own_server.dsn()) as reader:
        reader.execute("select 1")
        await_settled(conn, 5)


def test_a_snapshot_sees_what_has_committed_and_not_what_runs(own_server: EmbeddedServer) -> None:
    with connect(Dsn(own_server.dsn())) as conn, psycopg.connect(own_server.dsn()) as writer:
        row = writer.execute("select pg_current_xact_id()::xid::text").fetchone()
        assert row is not None
        assert not read_snapshot(conn).sees(int(row[0]))
        writer.commit()
        assert read_snapshot(conn).sees(int(row[0]))
