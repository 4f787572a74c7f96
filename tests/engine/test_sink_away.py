"""A sink that is away when flusso starts: waited for, told, and given up in the end. No Spark."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.cli.status import SlotFacts, _print, gather_indexes
from flusso.engine import work
from flusso.engine.events import Event, Recovered, Retrying
from flusso.engine.pipeline import _await_prepared
from flusso.engine.policy import Patience
from flusso.engine.spec import PipelineSpec
from flusso.errors import SinkUnavailable
from market import create_market
from pipelines import market_spec, sqlite_sink
from waiting import wait_until

pytestmark = pytest.mark.postgres
QUICK = Patience(first_delay_s=0.01, longest_delay_s=0.05)


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    create_market(database18, users=2)
    (tmp_path / "away").touch()
    sink = FaultySpec(sqlite_sink(tmp_path), str(tmp_path))
    return market_spec(database18, sink, patience=QUICK)


def retried(events: list[Event]) -> list[Retrying]:
    return [event for event in events if isinstance(event, Retrying)]


def test_a_start_waits_for_a_sink_that_is_away_and_goes_on_by_itself(
    spec: PipelineSpec, tmp_path: Path
) -> None:
    events: list[Event] = []
    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(_await_prepared, spec, events.append, threading.Event())
        wait_until(lambda: len(retried(events)) > 2, what="the start to try again")
        (tmp_path / "away").unlink()
        prepared = started.result(60)
        thread.submit(work.forget).result(60)
    assert prepared is not None
    assert retried(events)[0].error == "the sink is away for the test"
    assert isinstance(events[-1], Recovered)


def test_a_start_ends_when_it_was_asked_to_while_it_waits(spec: PipelineSpec) -> None:
    stop = threading.Event()
    assert _await_prepared(spec, lambda event: stop.set(), stop) is None


def test_a_sink_that_stays_away_is_given_up_with_its_own_exit_code(spec: PipelineSpec) -> None:
    hasty = replace(spec, patience=replace(QUICK, sink_s=0.1))
    events: list[Event] = []
    with pytest.raises(SinkUnavailable) as raised:
        _await_prepared(hasty, events.append, threading.Event())
    assert (raised.value.exit_code, bool(retried(events))) == (4, True)


def test_status_says_that_a_sink_is_away_and_shows_all_else(
    spec: PipelineSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    (facts,) = gather_indexes(spec)
    assert (facts.state, facts.error) == ("unavailable", "the sink is away for the test")
    _print(SlotFacts("s", exists=False), [facts])
    assert 'in sink "local": the sink is away for the test' in " ".join(capsys.readouterr().out.split())
