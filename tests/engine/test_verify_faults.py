"""Verifying while things fail: what is away, refused, stopped or not there hinders nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from psycopg.pq import TransactionStatus

from faulty import FaultySpec
from fix_postgres import Database
from flusso.builder.choose import choose_keys
from flusso.cli.verify import exit_code
from flusso.engine import work
from flusso.engine.events import Event, Repaired, Retrying, VerifyAdvanced
from flusso.engine.policy import Patience
from flusso.engine.provision import Prepared
from flusso.engine.room import Room
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.engine.tasks import by_number
from flusso.engine.verify import facts, looks, settle
from flusso.engine.verify.inspection import Inspection
from flusso.engine.verify.judge import Kind
from flusso.engine.verify.pace import Limits
from flusso.errors import DocumentRefused, IndexUnready, SinkUnavailable
from flusso.lsn import Version
from flusso.schema.parse import parse_schema
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec
from pipelines import sqlite_sink
from turns_here import TurnsHere
from verifying import damage, fill, found, things_spec, verify, verify_one

pytestmark = pytest.mark.postgres
UNFIT = 'version: 1\ntable: things\nfilters:\n  - { raw: "name::int > 0" }\nfields:\n  - text: name\n'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody follows here, so that is known at once; and whatever a test leaves open is closed."""
    monkeypatch.setattr(settle, "LIMITS", Limits(absent_s=0.0))
    yield
    work.forget()


@pytest.fixture
def things(database18: Database) -> Database:
    database18.execute("create table things (id int primary key, name text)")
    database18.execute("insert into things select n, n from generate_series(1, 20) as n")
    return database18


def _faulty(folder: Path, name: str = "local") -> FaultySpec:
    (folder / name).mkdir()
    return FaultySpec(SqliteSpec(name, str(folder / f"{name}.db")), str(folder / name))


@pytest.mark.parametrize("method", ["count", "page", "refresh", "quarantined", "load_states", "read"])
def test_a_sink_that_is_away_for_a_moment_is_asked_again(
    things: Database, tmp_path: Path, method: str
) -> None:
    sink = _faulty(tmp_path)
    spec = things_spec(things, sink, patience=Patience(first_delay_s=0.01))
    fill(spec)
    damage(spec, "delete from documents where id = '3'")
    events: list[Event] = []

    def tell(event: Event) -> None:
        if not events:
            (Path(sink.folder) / f"fail-{method}").touch()
        events.append(event)

    assert verify(spec, tell, repairs=True).agrees
    assert any(isinstance(event, Retrying) for event in events)


def test_a_stop_while_a_sink_is_away_is_a_stop(things: Database, tmp_path: Path) -> None:
    sink = _faulty(tmp_path)
    spec = things_spec(things, sink)
    fill(spec)
    stop = threading.Event()

    def tell(event: Event) -> None:
        if isinstance(event, VerifyAdvanced):
            (Path(sink.folder) / "fail-count").touch()
        if isinstance(event, Retrying):
            stop.set()

    whole = verify(spec, tell, stop=stop)
    assert (whole.is_whole, whole.uncompared, exit_code(whole)) == (False, (), 130)


@pytest.mark.parametrize("sample", [None, 1000])
def test_a_stop_in_the_middle_of_a_repair_drops_nothing_that_is_known(
    things: Database, tmp_path: Path, sample: int | None
) -> None:
    spec = things_spec(things, sqlite_sink(tmp_path))
    fill(spec)
    damage(spec, "delete from documents where id = '3'")
    stop = threading.Event()

    def tell(event: Event) -> None:
        if isinstance(event, Repaired):
            stop.set()

    whole = verify(spec, tell, stop=stop, repairs=True, sample=sample)
    (one,) = whole.indexes
    assert (found(one), one.is_whole, exit_code(whole)) == ({"3": "missing"}, False, 130)


def test_a_sample_is_not_chosen_any_longer_after_a_stop(things: Database, tmp_path: Path) -> None:
    spec = things_spec(things, sqlite_sink(tmp_path))
    prepared = fill(spec)
    blocks: list[tuple[int, int]] = []

    def hear(looked: int, most: int) -> None:
        blocks.append((looked, most))
        raise InterruptedError

    with things.connect() as conn, pytest.raises(InterruptedError):
        choose_keys(conn, prepared.work.plans["things"], 5, Random(1), hear)
    assert blocks == [(1, 1)]
    stop = threading.Event()
    stop.set()
    assert not verify(spec, stop=stop, sample=5).is_whole


def test_a_repair_goes_on_past_refused_documents_and_ends_with_their_error(
    things: Database, tmp_path: Path
) -> None:
    spec = things_spec(things, sqlite_sink(tmp_path), UNFIT)
    fill(spec)
    things.execute("update things set name = 'x' where id = 7; update things set name = '99' where id = 8")
    whole = verify(spec, repairs=True)
    (one,) = whole.indexes
    assert (found(one), one.repaired, one.refused) == ({"7": "unbuilt"}, {Kind.DIFFERENT: 1}, 1)
    assert isinstance(whole.refused, DocumentRefused)
    assert "things/7 (" in str(whole.refused)
    assert exit_code(whole) == 5


def _unfit(database: Database, folder: Path, rows: int = 20, **changes: Any) -> PipelineSpec:
    """An index of which a row with a name that is no number has no document that can be built."""
    database.execute("create table things (id int primary key, name text, pad text)")
    database.execute(
        f"insert into things select n, n, repeat('y', 3000) from generate_series(1, {rows}) as n"
    )
    schema = 'version: 1\ntable: things\nfilters:\n  - { raw: "name::int > 0" }\nfields:\n  - text: '
    return things_spec(database, sqlite_sink(folder), f"{schema}name\n  - text: pad\n", **changes)


def test_a_row_of_which_no_document_can_be_built_hinders_no_other(
    database18: Database, tmp_path: Path
) -> None:
    spec = _unfit(database18, tmp_path)
    fill(spec)
    database18.execute(
        "update things set name = 'x' where id = 7; update things set name = '99' where id = 8"
    )
    expected = {"7": "unbuilt", "8": "different"}
    assert found(verify_one(spec)) == expected
    assert found(verify_one(spec, sample=100)) == expected
    skipping = replace(spec, indexes=(replace(spec.indexes[0], skips_refused=True),))
    mended = verify_one(skipping, repairs=True)
    assert (found(mended), mended.quarantined) == ({"7": "unbuilt"}, {"7"})


def test_a_row_that_a_sink_never_saw_may_be_one_of_which_no_document_can_be_built(
    database18: Database, tmp_path: Path
) -> None:
    spec = _unfit(database18, tmp_path)
    fill(spec)
    damage(spec, "delete from documents where id <> '8'")
    database18.execute("update things set name = 'x' where id in (7, 8)")
    spec = replace(spec, indexes=(replace(spec.indexes[0], not_backfilled=frozenset({"local"})),))
    assert found(verify_one(spec)) == {"8": "unbuilt"}


def test_each_row_counts_once_where_one_of_them_hinders_the_range(
    database18: Database, tmp_path: Path
) -> None:
    spec = _unfit(database18, tmp_path, 400, batch=BatchSpec(seed_range_mb=50.0))
    fill(spec)
    database18.execute("update things set name = 'x' where id = 400")
    one = verify_one(spec)
    assert (one.documents, found(one)) == (400, {"400": "unbuilt"})


def test_one_that_cannot_be_compared_hinders_no_other(things: Database, tmp_path: Path) -> None:
    away = _faulty(tmp_path, "away")
    spec = things_spec(things, sqlite_sink(tmp_path))
    (index,) = spec.indexes
    index = replace(index, sinks=(*index.sinks, away))
    fill(replace(spec, indexes=(index,)))
    (Path(away.folder) / "away").touch()
    work.forget()
    other = parse_schema("version: 1\ntable: things\nfields:\n  - integer: id\n", file="t.yml")
    unfilled = IndexSpec("unfilled", other, index.sinks[:1])
    lines = IndexSpec("lines", other, (StdoutSpec("out"),))
    spec = replace(spec, indexes=(unfilled, index, lines))
    whole = verify(spec)
    assert [(one.index, one.sink, one.agrees) for one in whole.indexes] == [("things", "local", True)]
    assert {(lost.index, lost.sink): type(lost.error) for lost in whole.uncompared} == {
        ("unfilled", "local"): IndexUnready,
        ("things", "away"): SinkUnavailable,
    }
    assert whole.unreadable == (("lines", "out"),)
    assert (whole.agrees, exit_code(whole)) == (False, 4)
    assert [lost.index for lost in verify(spec, names=("lines",)).uncompared] == ["lines"]
    (chosen,) = verify(spec, names=("unfilled",)).uncompared
    assert chosen.index == "unfilled"


def test_a_generation_that_readers_leave_meanwhile_costs_no_other_result(
    things: Database, tmp_path: Path
) -> None:
    spec = things_spec(things, sqlite_sink(tmp_path))
    (first,) = spec.indexes
    spec = replace(spec, indexes=(first, replace(first, name="second"), replace(first, name="third")))
    fill(spec)

    def tell(event: Event) -> None:
        if isinstance(event, VerifyAdvanced) and event.index == "things":
            _switch(spec, "second")

    whole = verify(spec, tell)
    assert [(one.index, one.agrees) for one in whole.indexes] == [("things", True), ("third", True)]
    (lost,) = whole.uncompared
    assert (lost.index, "new generation" in str(lost.error), exit_code(whole)) == ("second", True, 4)


def _switch(spec: PipelineSpec, index: str) -> None:
    sink = spec.indexes[0].sinks[0].open()
    state = sink.load_states().serving(index)
    if state is not None and state.generation == 1:
        later = replace(state, generation=2)
        sink.ensure(later.target, spec.indexes[0].schema)
        sink.save_state(later)
        sink.publish(later.target)
        sink.drop(state.target)
    sink.close()


def test_no_table_is_locked_while_a_sink_is_read(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = things_spec(things, sqlite_sink(tmp_path))
    fill(spec)
    seen: list[TransactionStatus] = []
    wrong_sights = looks.wrong_sights

    def look(*arguments: Any) -> Any:
        seen.append(work.connection(spec.dsn).info.transaction_status)
        return wrong_sights(*arguments)

    monkeypatch.setattr(looks, "wrong_sights", look)
    assert verify(spec).agrees
    assert set(seen) == {TransactionStatus.IDLE}


class _Turns(TurnsHere):
    """Turns that show how many run at a time."""

    def join(self) -> None:
        pass

    def run(self, task: Callable[[Any], Any], count: int) -> list[Any]:
        assert count <= self.room.pace.slots
        return TurnsHere.run(self, task, count)


def _inspection(spec: PipelineSpec, prepared: Prepared) -> Inspection:
    turns = _Turns(
        None,  # type: ignore[arg-type]
        prepared.quarantine, 0.001, 2, lambda: Version(0), lambda event: None, Room(1),
    )  # fmt: skip
    return Inspection(spec, prepared.work, turns, threading.Event())


def test_before_readers_move_no_more_tasks_run_at_a_time_than_there_is_room_for(
    things: Database, tmp_path: Path
) -> None:
    spec = things_spec(things, sqlite_sink(tmp_path))
    prepared = fill(spec)
    assert _inspection(spec, prepared)._run(by_number(prepared.work, str), 3) == ["0", "1", "2"]


@pytest.mark.parametrize("is_skipped", [True, False])
def test_before_readers_move_all_that_waits_in_the_quarantine_is_let_pass(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_skipped: bool
) -> None:
    monkeypatch.setattr(facts, "SHOWN", 2)
    spec = things_spec(things, sqlite_sink(tmp_path), UNFIT)
    index = replace(spec.indexes[0], verifies=True, skips_refused=is_skipped)
    spec = replace(spec, indexes=(index,))
    prepared = fill(spec)
    things.execute("update things set name = 'x' where id <= 5")
    (entry,) = prepared.ledger.entries
    inspection = _inspection(spec, prepared)
    if is_skipped:
        assert inspection.is_passed(entry)
    else:
        with pytest.raises(IndexUnready, match=r"differs from its tables in 5 documents"):
            inspection.is_passed(entry)
