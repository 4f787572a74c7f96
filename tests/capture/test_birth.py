"""The wait between the birth of slot or publication and the first seed read, beside a start without it.

A row that is neither in the first snapshot after the start nor ever decoded is lost for good.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from absent_standby import hanging_commit, standby_missing
from fix_postgres import Database, fresh_database
from flusso.demo.server import EmbeddedServer
from flusso.engine import provision
from flusso.engine.events import Event, Waiting
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.schema.parse import parse_schema
from pipelines import market_spec, sqlite_sink
from waiting import wait_until

pytestmark = pytest.mark.postgres

SCHEMA = "version: 1\ntable: {}\nfields: [{{ integer: id }}]\n"


@pytest.fixture
def database(own_server: EmbeddedServer) -> Iterator[Database]:
    yield from fresh_database(own_server)


@pytest.fixture(params=[True, False], ids=["with the wait", "without it"])
def waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a start waits: without it each of these rows must be lost, or the test proves nothing."""
    if not request.param:
        monkeypatch.setattr(provision, "await_settled", lambda *_, **__: None)
    return bool(request.param)


def _spec(database: Database, folder: Path, *tables: str) -> PipelineSpec:
    sink = sqlite_sink(folder)
    indexes = tuple(IndexSpec(name, parse_schema(SCHEMA.format(name), file=name), (sink,)) for name in tables)
    return market_spec(database, sink, indexes=indexes)


class Start:
    """A start in the background, and what a seed would read at once when it has ended."""

    def __init__(self, database: Database, spec: PipelineSpec, table: str) -> None:
        self.events: list[Event] = []
        self.seen: list[tuple[object, ...]] = []
        self._database, self._spec, self._table = database, spec, table
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert provision.prepare(self._spec, self.events.append, threading.Event())
        self.seen = self._database.execute(f"select id from {self._table} order by id")

    def blockers(self) -> str:
        """Wait until it says what it waits for."""
        found = wait_until(
            lambda: [event for event in self.events if isinstance(event, Waiting)],
            what="a word on who blocks",
        )
        return found[0].reason

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def is_lost(self, *row: object) -> bool:
        """Say whether the row was neither read at the start nor is ever decoded."""
        options = "'proto_version', '1', 'publication_names', 'flusso'"
        changes = self._database.execute(
            f"select data from pg_logical_slot_peek_binary_changes(%s, null, null, {options})",
            self._spec.slot,
        )
        inserts = [data for (data,) in changes if bytes(data)[:1] == b"I"]  # type: ignore[call-overload]
        return row not in self.seen and not inserts


@contextmanager
def _held(database: Database, sql: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(database.dsn.text) as writer:
        writer.execute(sql.encode())
        yield writer


def _extend(database: Database, folder: Path) -> PipelineSpec:
    """Start with one index, and give the spec with another of the table `later`."""
    database.execute("create table first (id int primary key); create table later (id int primary key)")
    spec = _spec(database, folder, "first", "later")
    assert provision.prepare(replace(spec, indexes=spec.indexes[:1]), lambda event: None, threading.Event())
    return spec


def test_a_row_written_before_an_extension_and_committed_after_it_is_not_lost(
    database: Database, tmp_path: Path, waits: bool
) -> None:
    spec = _extend(database, tmp_path)
    with _held(database, "insert into later values (1)") as writer:
        start = Start(database, spec, "later")
        if waits:
            assert f"pid {writer.info.backend_pid}" in start.blockers()
        else:
            start.join()
        writer.commit()
    start.join()
    assert start.is_lost(1) is not waits


def test_a_row_prepared_before_an_extension_and_committed_after_it_is_not_lost(
    database: Database, tmp_path: Path, waits: bool
) -> None:
    spec = _extend(database, tmp_path)
    gid = f"held_{database.name}"
    with psycopg.connect(database.dsn.text, autocommit=True) as writer:
        for sql in ("begin", "insert into later values (1)", f"prepare transaction '{gid}'"):
            writer.execute(sql.encode())
        start = Start(database, spec, "later")
        try:
            if waits:
                assert f'prepared transaction "{gid}"' in start.blockers()
            else:
                start.join()
        finally:
            writer.execute(f"commit prepared '{gid}'".encode())
    start.join()
    assert start.is_lost(1) is not waits


def test_a_commit_held_for_a_standby_across_the_birth_of_the_slot_is_not_lost(
    database: Database, tmp_path: Path, waits: bool
) -> None:
    database.execute("create table first (id int primary key)")
    spec = _spec(database, tmp_path, "first")
    # What a start commits by itself must not hang as well.
    database.execute("create publication flusso for table first")
    with standby_missing(database.dsn.text), _held(database, "select pg_current_xact_id()") as oldest:
        start = Start(database, spec, "first")
        _wait_for_wait_on(database, oldest)
        with _held(database, "select pg_current_xact_id()") as older:
            oldest.rollback()
            # The slot is born in three steps; what begins in the last one is neither waited for nor decoded.
            _wait_for_wait_on(database, older)
            writer = threading.Thread(target=database.execute, args=("insert into first values (1)",))
            writer.start()
            pid = hanging_commit(database.dsn.text)
            older.rollback()
        if waits:
            assert f"pid {pid}" in start.blockers()
        else:
            start.join()
    writer.join(30)
    start.join()
    assert start.is_lost(1) is not waits


def _wait_for_wait_on(database: Database, holder: psycopg.Connection[tuple[object, ...]]) -> None:
    sql = "select 1 from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
    pid = holder.info.backend_pid
    wait_until(lambda: database.execute(sql, pid), what="the slot to wait for a transaction")
