"""One turn of a seed, without Spark: the function that a task runs."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.builder.ranges import BlockRange, plan_ranges
from flusso.engine import tasks, work
from flusso.engine.provision import prepare
from flusso.engine.tasks import TurnReport
from flusso.engine.work import WorkSpec
from flusso.errors import SinkUnavailable
from flusso.postgres.connect import connect
from flusso.sinks.sqlite.sink import SqliteSink
from market import create_market
from pipelines import market_spec, sqlite_sink

pytestmark = pytest.mark.postgres


def _planned(database: Database, folder: Path) -> tuple[WorkSpec, list[BlockRange]]:
    create_market(database, users=600)
    return _planned_again(database, folder)


def _planned_again(database: Database, folder: Path) -> tuple[WorkSpec, list[BlockRange]]:
    prepared = prepare(market_spec(database, sqlite_sink(folder)), lambda event: None, threading.Event())
    assert prepared is not None
    with connect(database.dsn) as conn:
        ranges = plan_ranges(conn, prepared.work.plans["users"], 0.01)
    assert len(ranges) > 2
    return prepared.work, ranges


def test_a_turn_writes_all_its_ranges_while_there_is_time(database: Database, tmp_path: Path) -> None:
    spec, ranges = _planned(database, tmp_path)
    report = _run(spec, ranges, 60.0)
    assert (report.done, sum(part.written for part in report.reports)) == (len(ranges), 600)


def test_a_turn_whose_time_is_over_leaves_the_ranges_it_did_not_begin(
    database: Database, tmp_path: Path
) -> None:
    spec, ranges = _planned(database, tmp_path)
    report = _run(spec, ranges, 0.0)
    assert report.done == 1
    assert 0 < sum(part.written for part in report.reports) < 600


def test_a_turn_that_has_written_enough_bytes_leaves_the_rest(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, ranges = _planned(database, tmp_path)
    monkeypatch.setattr(tasks, "_TURN_BYTES", 1)
    assert _run(spec, ranges, 60.0).done == 1


def test_a_turn_stops_where_the_rows_were_moved_and_says_so(database: Database, tmp_path: Path) -> None:
    spec, ranges = _planned(database, tmp_path)
    first = _run(spec, ranges[:1], 60.0)
    database.execute("cluster users_0 using users_0_pkey; cluster users_1 using users_1_pkey")
    second = _run(spec, ranges[1:], 60.0)
    assert (first.is_rewritten, second.is_rewritten, second.done) == (False, True, 0)
    assert not [report for report in second.reports if report.failure]


def test_a_worker_opens_a_file_anew_that_was_replaced_before_this_start(
    database18: Database, tmp_path: Path
) -> None:
    spec, ranges = _planned(database18, tmp_path)
    work.forget()  # the driver's own
    with ThreadPoolExecutor(1) as worker:  # keeps a sink of its own, as a process does
        assert worker.submit(tasks._write_ranges, spec, ranges[:1], 60.0).result().done == 1
        for each in tmp_path.iterdir():
            each.unlink()
        again, ranges = _planned_again(database18, tmp_path)
        report = worker.submit(tasks._write_ranges, again, ranges, 60.0).result()
    work.forget()
    assert not [part.failure for part in report.reports if part.failure]
    assert report.done == len(ranges)


def test_a_last_turn_has_what_is_written_refreshed_beside_its_last_two_ranges_and_last_requests(
    database18: Database, tmp_path: Path, refreshed: list[str]
) -> None:
    spec, ranges = _planned(database18, tmp_path)
    report = _run(spec, ranges, 60.0, is_last=True)
    assert (report.done, refreshed) == (len(ranges), ["users"] * 3)


@pytest.mark.parametrize(("turn_s", "is_last"), [(60.0, False), (0.0, True)])
def test_a_turn_that_others_come_after_refreshes_nothing(
    database18: Database, tmp_path: Path, refreshed: list[str], turn_s: float, is_last: bool
) -> None:
    _run(*_planned(database18, tmp_path), turn_s, is_last=is_last)
    assert refreshed == []


def test_a_turn_ends_well_when_its_refresh_fails(
    database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SinkUnavailable("gone for a moment")

    monkeypatch.setattr(SqliteSink, "refresh", fail)
    report = _run(*_planned(database18, tmp_path), 60.0, is_last=True)
    assert sum(part.written for part in report.reports) == 600


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The indexes that the sink was asked to refresh, in order."""
    found: list[str] = []
    monkeypatch.setattr(SqliteSink, "refresh", lambda _, target: found.append(target.index))
    return found


def _run(spec: WorkSpec, ranges: list[BlockRange], turn_s: float, *, is_last: bool = False) -> TurnReport:
    try:
        return tasks._write_ranges(spec, ranges, turn_s, is_last=is_last)
    finally:
        work.forget()
