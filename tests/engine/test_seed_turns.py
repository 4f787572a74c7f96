"""Turns of a seed side by side: how many at a time, in which order, what a slow one holds up. No Spark."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fix_postgres import Database
from flusso.engine import filling
from flusso.engine.tasks import Batches
from flusso.sinks.sqlite.sink import SqliteSink
from market import create_market
from pipelines import assert_exact
from turns_here import Seed, TurnsHere, spec_of_small_ranges
from waiting import wait_until

pytestmark = pytest.mark.postgres

USERS = 3000


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has few of the forty ranges, so that there are many."""
    monkeypatch.setattr(filling, "_LARGEST_SHARE", 4)


class Watched(TurnsHere):
    """Notes how many turns run at a time, and does something in each."""

    running: ClassVar[list[int]] = []
    most: ClassVar[int] = 0
    do: ClassVar[Callable[[], object]] = lambda: None

    def plan(self, task: Callable[[Batches], Batches], count: int) -> Callable[[], list[Any]]:
        planned = super().plan(task, count)

        def run() -> list[Any]:
            Watched.running.append(1)
            Watched.most = max(Watched.most, sum(Watched.running))
            try:
                Watched.do()
                return planned()
            finally:
                Watched.running.append(-1)

        return run


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr(Watched, "running", [])
    monkeypatch.setattr(Watched, "most", 0)
    monkeypatch.setattr(Watched, "do", lambda: None)
    return Watched


def test_no_more_turns_run_at_a_time_than_asked_for_though_there_are_slots(
    database: Database, tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    seed = Seed(spec, turns=watched, slots=4, ahead=3)
    waited: list[int] = []

    def let_another_come() -> None:
        (job,) = seed.seeder._jobs
        if job.filling.has_ranges:
            wait_until(lambda: job.filling.under_way > 1, what="a turn to wait beside this one")
            waited.append(job.filling.under_way)

    monkeypatch.setattr(watched, "do", let_another_come)
    seed.run()
    assert waited
    assert watched.most == 1
    assert_exact(database, spec)


def test_turns_begin_in_the_order_in_which_they_were_taken_though_the_first_is_slow_to_be_ready(
    database18: Database, tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database18, users=USERS)
    spec = spec_of_small_ranges(database18, tmp_path)
    another, began, planned = threading.Event(), [], itertools.count(1)

    def plan(turns: TurnsHere, task: Callable[[Batches], Batches], count: int) -> Callable[[], list[Any]]:
        number, run = next(planned), TurnsHere.plan(turns, task, count)
        if number == 1:
            another.wait(0.3)  # in vain: no other turn is made ready meanwhile
        another.set()
        return lambda: began.append(number) or run()

    monkeypatch.setattr(watched, "plan", plan)
    Seed(spec, turns=watched, ahead=1).run()
    assert len(began) > 1
    assert began == sorted(began)


class LastComeFirstServed:
    """Lets one in at a time, and of those who wait whoever came last."""

    def __init__(self) -> None:
        self._waiting: list[object] = []
        self._is_taken = False
        self._changed = threading.Condition()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        me = object()
        with self._changed:
            self._waiting.append(me)
            self._changed.wait_for(lambda: not self._is_taken and self._waiting[-1] is me)
            self._waiting.remove(me)
            self._is_taken = True
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()


def test_turns_begin_in_the_order_in_which_they_were_taken_though_a_later_one_is_let_in_first(
    database18: Database, tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database18, users=2 * USERS)
    began, planned = [], itertools.count(1)

    def plan(turns: TurnsHere, task: Callable[[Batches], Batches], count: int) -> Callable[[], list[Any]]:
        number, run = next(planned), TurnsHere.plan(turns, task, count)
        return lambda: began.append(number) or run()

    let_in = LastComeFirstServed()
    monkeypatch.setattr(watched, "plan", plan)
    monkeypatch.setattr(watched, "slots", lambda turns, most: let_in())
    seed = Seed(spec_of_small_ranges(database18, tmp_path), turns=watched, slots=3, ahead=3)
    seed.seeder._at_a_time = threading.Semaphore(3)
    seed.run()
    assert len(began) > 3
    assert began == sorted(began)


def test_a_turn_that_waits_for_its_slot_does_not_begin_once_the_seed_is_stopped(
    database: Database, tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database, users=USERS)
    seed = Seed(spec_of_small_ranges(database, tmp_path), turns=watched, ahead=1)

    def stop() -> None:
        wait_until(lambda: seed.seeder._jobs[0].filling.under_way == 2, what="another turn to wait")
        seed.stop()

    monkeypatch.setattr(watched, "do", stop)
    seed.run()
    assert sum(step for step in watched.running if step > 0) == 1


def test_what_is_written_is_refreshed_before_the_last_turn_has_ended(
    database18: Database, tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database18, users=USERS)
    seed = Seed(spec_of_small_ranges(database18, tmp_path), turns=watched)
    under_way: list[int] = []

    def refresh(*_: object) -> None:
        (job,) = seed.seeder._jobs
        under_way.append(job.filling.under_way)

    monkeypatch.setattr(SqliteSink, "refresh", refresh)
    seed.run()
    assert 1 in under_way


def test_a_turn_that_takes_long_holds_up_none_of_the_others(
    database: Database, tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_market(database, users=USERS)
    spec = spec_of_small_ranges(database, tmp_path)
    seed = Seed(spec, turns=watched, slots=2, parallelism=2)
    first = threading.Lock()

    def is_alone() -> bool:
        (job,) = seed.seeder._jobs
        return job.filling.under_way == 1 and not job.filling.has_ranges

    def hold_the_first() -> None:
        if first.acquire(blocking=False):
            wait_until(is_alone, what="the others to end", timeout_s=60)

    monkeypatch.setattr(watched, "do", hold_the_first)
    seed.run()
    assert watched.most == 2
    assert_exact(database, spec)
