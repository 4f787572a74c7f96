"""Turns that hang when their pipeline ends: their slots are for the next one. Real Spark, on two slots."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine.events import Following, ReadersMoved
from flusso.engine.quarantine import Quarantine
from flusso.engine.room import Room
from flusso.engine.session import Session
from flusso.engine.spec import IndexSpec
from flusso.engine.tasks import Batches, _reports
from flusso.engine.turns import Turns
from flusso.errors import TaskLost
from flusso.lsn import Version
from flusso.schema.parse import parse_schema
from flusso.sinks.base import Request
from flusso.sinks.sqlite import SqliteSpec
from market import create_market, market_schema
from pipelines import Run, market_spec, published, run_once, sqlite_sink
from waiting import wait_until

pytestmark = pytest.mark.spark

NOTES = """
version: 1
table: notes
fields:
  - text: name
"""


def _turns(session: Session) -> Turns:
    return Turns(session.spark, Quarantine({}), 1.0, 1, lambda: Version(0), lambda _: None, Room(1))


def _meet(folder: Path, count: int, timeout_s: float = 60) -> Callable[[Batches], Batches]:
    """A task that ends when so many of its kind run at the same time, or a file lets it go."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            [number] = batch.column(0).to_pylist()
            (folder / f"met-{number}").write_text(str(os.getpid()))
            wait_until(
                lambda: (folder / "free").exists() or len(list(folder.glob("met-*"))) >= count,
                what="the others",
                timeout_s=timeout_s,
            )
            yield from _reports([number])

    return run


def test_a_turn_that_hangs_leaves_its_slot_and_its_process_when_turns_end(
    spark_session: Session, tmp_path: Path
) -> None:
    (hanging := tmp_path / "hanging").mkdir()
    (meeting := tmp_path / "meeting").mkdir()
    turns, lost = _turns(spark_session), list[Any]()

    def hang() -> None:
        with contextlib.suppress(TaskLost):
            turns.run(_meet(hanging, 2, timeout_s=600), 1)
        lost.append("it")

    thread = turns.start(hang, "hanging")
    try:
        wait_until((hanging / "met-0").exists, what="the turn")
        turns.end()
        assert sorted(_turns(spark_session).run(_meet(meeting, 2), 2)) == [0, 1]
        pid = int((hanging / "met-0").read_text())
        wait_until(lambda: not psutil.pid_exists(pid), what="the end of the process that hung", timeout_s=20)
    finally:
        (hanging / "free").touch()
        thread.join(60)
    assert lost


def test_turns_that_have_ended_begin_no_more(spark_session: Session, tmp_path: Path) -> None:
    turns, lost = _turns(spark_session), list[TaskLost]()
    turns.end()

    def try_one() -> None:
        try:
            turns.run(_meet(tmp_path, 1), 1)
        except TaskLost as error:
            lost.append(error)

    turns.start(try_one, "late").join(60)
    assert lost
    assert not list(tmp_path.glob("met-*"))


def _holder(folder: Path) -> str:
    """The process of a write that hangs, if any does."""
    try:
        return (folder / "held").read_text()
    except FileNotFoundError:
        return ""


@pytest.mark.postgres
def test_changes_are_written_after_a_restart_although_a_turn_from_before_hangs_in_its_sink(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    database18.execute(
        "create table notes (id int primary key, name text); insert into notes values (1, 'a')"
    )
    held, free = (
        FaultySpec(sqlite_sink(tmp_path), str(tmp_path)),
        SqliteSpec("free", str(tmp_path / "free.db")),
    )
    notes = IndexSpec("notes", parse_schema(NOTES, file="notes.schema.yml"), (free,))
    users = IndexSpec("users", market_schema(), (held,))
    run_once(market_spec(database18, free, indexes=(notes,)), spark_session)
    spec = market_spec(database18, held, indexes=(users, notes), look_s=0.2)
    (tmp_path / "hold").touch()
    sink = free.open()
    try:
        with Run(spec, spark_session) as run:
            first = run.wait(lambda: _holder(tmp_path), what="a turn that hangs")
            sink.ask("notes", Request.REINDEX)
            run.wait(lambda: len(run.of(Following)) == 2, what="the pipeline that follows")
            run.wait(lambda: _holder(tmp_path) not in ("", first), what="another turn that hangs")
            database18.execute("insert into notes values (2, 'b')")
            run.wait(lambda: sink.read(published(sink, "notes"), ["2"]), what="a change", timeout_s=60)
            (tmp_path / "hold").unlink()
            run.wait(lambda: len(run.of(ReadersMoved)) == 2, what="both indexes")
    finally:
        (tmp_path / "hold").unlink(missing_ok=True)
        sink.close()
