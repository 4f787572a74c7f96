"""One turn of a seed, without Spark: the function that a task runs."""

import threading
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.builder.read import BlockRange, plan_ranges
from flusso.engine import tasks, work
from flusso.engine.provision import prepare
from flusso.engine.work import WorkSpec
from flusso.postgres.connect import connect
from market import create_market
from pipelines import market_spec, sqlite_sink

pytestmark = pytest.mark.postgres


def _planned(database: Database, folder: Path) -> tuple[WorkSpec, list[BlockRange]]:
    create_market(database, users=600)
    prepared = prepare(market_spec(database, sqlite_sink(folder)), lambda event: None, threading.Event())
    assert prepared is not None
    with connect(database.dsn) as conn:
        ranges = plan_ranges(conn, prepared.work.plans["users"], 0.01)
    assert len(ranges) > 2
    return prepared.work, ranges


def test_a_turn_writes_all_its_ranges_while_there_is_time(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, ranges = _planned(database, tmp_path)
    monkeypatch.setattr(tasks, "_TURN_S", 60.0)
    try:
        report = tasks._write_ranges(spec, ranges)
    finally:
        work.forget()
    assert (report.done, sum(part.written for part in report.reports)) == (len(ranges), 600)


@pytest.mark.parametrize("limit", ["_TURN_S", "_TURN_BYTES"])
def test_a_turn_that_is_over_leaves_the_ranges_it_did_not_begin(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    spec, ranges = _planned(database, tmp_path)
    monkeypatch.setattr(tasks, limit, 0)
    try:
        report = tasks._write_ranges(spec, ranges)
    finally:
        work.forget()
    assert report.done == 1
    assert 0 < sum(part.written for part in report.reports) < 600
