"""Seed: fill indexes from their root tables, beside the live stream.

A turn (`engine/turns.py`) is a Spark job of one task: it works off some ranges of a root table for up to
three seconds and hands back those it did not begin. Versions decide between a range and the stream, so no
order between them matters.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from flusso.builder.read import BlockRange, plan_ranges
from flusso.engine import tasks, work
from flusso.engine.events import SeedAdvanced, SeedFinished, SeedStarted
from flusso.engine.ledger import Ledger
from flusso.engine.outcome import Totals
from flusso.engine.retry import retrying
from flusso.engine.turns import Turns
from flusso.engine.work import WorkSpec
from flusso.errors import FlussoError

# The first turns are short, so that there is something to show soon. The others are long enough that starting
# and draining are small beside them, and short enough to end soon when they must.
_FIRST_TURN_S, _TURN_S = 0.25, 3.0
_MOST_RANGES = 100
"""Of one turn: more than it can do in its time, and few enough to travel with it."""
_REFRESH_AT = 0.7
"""The share of an index after which most of it is refreshed, beside the last turns: a search server does that
on one core, and the one refresh at the end would leave the others idle."""


@dataclass(slots=True)
class _Progress:
    ranges: int
    started_s: float
    turns: int = 0
    done: int = 0
    documents: int = 0
    bytes: int = 0
    highest_version: int = 0
    is_refreshed: bool = False

    @property
    def is_whole(self) -> bool:
        return self.done == self.ranges

    def take_refresh(self) -> bool:
        """Say once that most is there and something is left."""
        is_due = not self.is_refreshed and not self.is_whole and self.done >= _REFRESH_AT * self.ranges
        self.is_refreshed |= is_due
        return is_due


@dataclass(slots=True)
class Seeder:
    """Seeds what the ledger says is unseeded."""

    turns: Turns
    spec: WorkSpec
    ledger: Ledger
    failure: FlussoError | None = None
    _is_closed: threading.Event = field(default_factory=threading.Event)
    _ranges: deque[BlockRange] = field(default_factory=deque)
    _progress: dict[str, _Progress] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Plan the ranges and begin, once; returns at once."""
        if self._threads:
            return
        self._plan()
        for number in range(self.turns.parallelism):
            self._threads.append(self.turns.start(self._work, f"flusso-seed-{number}"))

    def is_running(self) -> bool:
        """Whether any range is still to be written."""
        return any(thread.is_alive() for thread in self._threads)

    def close(self, timeout_s: float) -> None:
        """Begin no more ranges, and wait for those in hand."""
        self._is_closed.set()
        deadline_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def _plan(self) -> None:
        self._ranges.clear()  # of a plan that failed half-way
        with work.looking(self.spec.dsn) as conn:
            for index in self.ledger.unseeded():
                ranges = plan_ranges(conn, self.spec.plans[index], self.turns.range_mb)
                self._progress[index] = _Progress(len(ranges), time.monotonic())
                self.turns.tell(SeedStarted(index, len(ranges)))
                self._ranges.extend(ranges)

    def _work(self) -> None:
        outage = self.turns.outage(self._is_closed)
        try:
            while not self._is_closed.is_set() and self.failure is None and (turn := self._take_turn()):
                done, totals = retrying(partial(self._attempt, turn), outage)
                outage.end()
                with self._lock:
                    self._ranges.extendleft(reversed(turn[done:]))
                self._finish(turn[0].index, done, totals)
        except FlussoError as error:
            self.failure = error

    def _take_turn(self) -> list[BlockRange]:
        """Take ranges of one index: few enough that the last ones keep all threads busy."""
        with self._lock:
            if not self._ranges:
                return []
            rest = len(self._ranges)
            threads = self.turns.parallelism
            share = min(_MOST_RANGES, rest if threads == 1 else rest // (2 * threads))
            turn = [self._ranges.popleft()]
            while len(turn) < share and self._ranges[0].index == turn[0].index:
                turn.append(self._ranges.popleft())
            return turn

    def _attempt(self, turn: Sequence[BlockRange]) -> tuple[int, Totals]:
        turn_s = min(_TURN_S, _FIRST_TURN_S * 2 ** min(8, self._progress[turn[0].index].turns))
        with self.turns.slots(1):
            [report] = self.turns.run(tasks.write_ranges(self.spec, [turn], turn_s), 1)
        return report.done, self.turns.settle(report.reports, self.spec)

    def _finish(self, index: str, done: int, totals: Totals) -> None:
        with self._lock:
            progress = self._progress[index]
            progress.turns += 1
            progress.done += done
            progress.documents += totals.written + totals.superseded
            progress.bytes += totals.bytes
            progress.highest_version = max(progress.highest_version, totals.highest_version)
            seconds = time.monotonic() - progress.started_s
            self.turns.tell(
                SeedAdvanced(
                    index, progress.done, progress.ranges, progress.documents, progress.bytes, seconds
                )
            )
            is_whole, is_refresh_due = progress.is_whole, progress.take_refresh()
        if is_refresh_due:
            threading.Thread(target=self._refresh, args=(index,), daemon=True).start()
        if is_whole:
            self.ledger.finish_seed(index, progress.highest_version)
            self.turns.tell(SeedFinished(index, progress.documents, time.monotonic() - progress.started_s))

    def _refresh(self, index: str) -> None:
        """Refresh what is written so far. It only saves time: the one at the end tells what goes wrong."""
        for destination in self.spec.destinations[index]:
            if destination.sink.capabilities.is_driver_side:
                continue
            with contextlib.suppress(FlussoError), contextlib.closing(destination.sink.open()) as sink:
                sink.refresh(destination.target)
