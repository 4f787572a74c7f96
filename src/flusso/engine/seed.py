"""Seed: fill indexes from their root tables, beside the live stream.

A turn (`engine/turns.py`) is a Spark job of one task: it works off some ranges of a root table for up to
ten seconds and hands back those it did not begin. Versions decide between a range and the stream, so no
order between them matters. After each turn its ranges are remembered in the sink: a restart goes on there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from flusso.builder.extents import Extent, read_extents
from flusso.builder.ranges import BlockRange
from flusso.engine import tasks, work
from flusso.engine.due import settle_due
from flusso.engine.entry import Entry
from flusso.engine.events import SeedAdvanced, SeedFinished, SeedStarted
from flusso.engine.filling import Filling
from flusso.engine.ledger import Ledger
from flusso.engine.outage import Outage
from flusso.engine.outcome import Totals
from flusso.engine.retry import as_failure, retrying
from flusso.engine.tasks import TurnReport
from flusso.engine.turns import Turns
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import FlussoError

# Long enough that starting and draining are small beside it, and short enough that its end shows how far a
# seed is, and that little is done again when it is cut off.
_TURN_S = 10.0
_LOOK_S = 0.1


@dataclass(slots=True)
class _Job:
    """An index on its way into the sinks that have come equally far with it."""

    entries: tuple[Entry, ...]
    spec: WorkSpec
    """Whose destinations are those of the entries."""
    filling: Filling
    before_s: float = 0.0
    """How long earlier runs took."""
    began_s: float | None = None
    """When its first turn began: until then others were filled."""
    highest_version: int = 0
    is_ended: bool = False
    saving: threading.Lock = field(default_factory=threading.Lock)

    @property
    def index(self) -> str:
        return self.entries[0].state.index

    @property
    def sinks(self) -> tuple[str, ...]:
        return tuple(entry.destination.sink.name for entry in self.entries)

    @property
    def seconds(self) -> float:
        """How long it took so far, over all runs; not how long it waited for its turn."""
        return self.before_s + (0.0 if self.began_s is None else time.monotonic() - self.began_s)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Ranges that a thread has taken, and what writes them. One of none only ends its job."""

    job: _Job
    ranges: Sequence[BlockRange] = ()
    run: Callable[[], list[TurnReport]] = list
    before: threading.Event = field(default_factory=threading.Event)
    """Set when the one that was taken before it begins."""
    begins: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Seeder:
    """Seeds what the ledger says is unseeded."""

    turns: Turns
    spec: WorkSpec
    ledger: Ledger
    ahead: int = 1
    """Threads beyond the turns at a time: while one remembers what its turn did, the next turn runs."""
    failure: FlussoError | None = None
    _is_closed: threading.Event = field(default_factory=threading.Event)
    _jobs: list[_Job] = field(default_factory=list)
    _known: set[Destination] = field(default_factory=set)
    _lock: threading.Condition = field(default_factory=threading.Condition)
    """Over all of these; told of ranges that a turn hands back."""
    _making_ready: threading.Lock = field(default_factory=threading.Lock)
    _last: threading.Event = field(default_factory=threading.Event)
    """Set when the turn that was taken last begins."""
    _threads: list[threading.Thread] = field(default_factory=list)
    _at_a_time: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._at_a_time = threading.Semaphore(self.turns.parallelism)
        self._last.set()  # there is none before the first

    def start(self) -> None:
        """Begin what is new in the ledger; returns at once, and may be called again and again."""
        new = [entry for entry in self.ledger.to_seed() if entry.destination not in self._known]
        if not new or self.failure is not None:
            return
        jobs = self._plan(new)
        with self._lock:
            self._jobs += jobs
            self._known |= {entry.destination for entry in new}
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for number in range(len(self._threads), self.turns.parallelism + self.ahead):
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

    def _plan(self, entries: Iterable[Entry]) -> list[_Job]:
        """Put together what has come equally far, and cut what is left of it."""
        groups: dict[object, list[Entry]] = {}
        for entry in entries:
            groups.setdefault((entry.plan_name, entry.state.seeding.place), []).append(entry)
        jobs = [self._make_job(tuple(group)) for group in groups.values()]
        for job in jobs:
            self.turns.tell(SeedStarted(job.index, job.sinks, job.filling.seeding))
        return jobs

    def _make_job(self, entries: tuple[Entry, ...]) -> _Job:
        plan, seeding = self.spec.plans[entries[0].plan_name], entries[0].state.seeding
        destinations = {plan.index: tuple(entry.destination for entry in entries)}
        filling = Filling(plan, self.turns.range_mb, seeding)
        filling.begin(self._extents(filling))
        spec = replace(self.spec, destinations=destinations)
        return _Job(entries, spec, filling, before_s=seeding.seconds)

    def _extents(self, filling: Filling) -> list[Extent]:
        with work.looking(self.spec.dsn) as conn:
            return read_extents(conn, filling.plan.root)

    def _work(self) -> None:
        outage = self.turns.outage(self._is_closed)
        try:
            while not self._is_closed.is_set() and self.failure is None and self._is_open():
                turn = self._make_ready(outage)
                if turn is not None:
                    self._take_turn(turn, outage)
        except Exception as error:
            if not self._is_closed.is_set():
                self.failure = as_failure(error, "a seed")

    def _is_open(self) -> bool:
        with self._lock:
            return not all(job.is_ended for job in self._jobs)

    def _make_ready(self, outage: Outage) -> _Turn | None:
        """Take the next turn, one thread after the other, so that turns begin in the order in which they were
        taken: the first is short, and the last refreshes what all have written."""
        with self._making_ready:
            with self._lock:
                job = self._choose()
                if job is None:
                    self._lock.wait(_LOOK_S)
                    return None
                job.began_s = job.began_s or time.monotonic()
                ranges = job.filling.take(self.turns.parallelism)
                is_last = not job.filling.has_ranges
            if not ranges:
                return _Turn(job)
            task = tasks.write_ranges(job.spec, [ranges], _TURN_S, is_last=is_last)
            turn = _Turn(job, ranges, retrying(partial(self.turns.plan, task, 1), outage), self._last)
            self._last = turn.begins
            return turn

    def _choose(self) -> _Job | None:
        """Give the index that is nearest to its end, so that some are soon there for readers. Under the
        lock."""
        open_ = [job for job in self._jobs if not job.is_ended and _may_go_on(job.filling)]
        if not open_:
            return None
        return min(open_, key=lambda job: job.filling.seeding.blocks - job.filling.seeding.done)

    def _take_turn(self, turn: _Turn, outage: Outage) -> None:
        job, ranges = turn.job, turn.ranges
        if ranges:
            report, totals = retrying(partial(self._attempt, turn), outage)
            moved = ranges[report.done].oid if report.is_rewritten else None
            extents = retrying(partial(self._extents, job.filling), outage) if report.is_rewritten else []
            self._note(job, ranges, report.done, totals, moved, extents)
        else:
            self._note(job, ranges, 0, Totals(), None, [])
        retrying(partial(self._remember, job), outage)
        outage.end()

    def _attempt(self, turn: _Turn) -> tuple[TurnReport, Totals]:
        # A semaphore lets in whoever comes at the right moment, before those who wait.
        while not (turn.before.wait(_LOOK_S) or self._is_closed.is_set() or self.failure):
            pass
        with self._at_a_time, self.turns.slots(1):
            turn.begins.set()
            if self._is_closed.is_set():  # while it waited for its slot
                return TurnReport(0, ()), Totals()
            began_s = time.monotonic()
            [report] = turn.run()
            worked_s = time.monotonic() - began_s
        totals = self.turns.settle(report.reports, turn.job.spec)
        self.turns.room.feel(worked_s, totals.backed_off_s)
        return report, totals

    def _note(
        self,
        job: _Job,
        turn: Sequence[BlockRange],
        done: int,
        totals: Totals,
        moved: int | None,
        extents: Sequence[Extent],
    ) -> None:
        with self._lock:
            if moved is not None:
                job.filling.restart(moved, extents)
            job.filling.end(turn, done, totals, job.seconds)
            job.highest_version = max(job.highest_version, totals.highest_version)
            self._lock.notify_all()
            self.turns.tell(SeedAdvanced(job.index, job.sinks, job.filling.seeding))

    def _remember(self, job: _Job) -> None:
        """Keep in the sinks what is written; when that is all of it, let readers see it."""
        with job.saving:
            if job.is_ended:
                return
            with self._lock:
                seeding, is_over = job.filling.seeding, job.filling.is_over
            self.ledger.advance_seed(job.entries, seeding, job.highest_version)
            if not is_over:
                return
            job.highest_version = max(job.highest_version, self._settle(job))
            self.ledger.advance_seed(job.entries, seeding, job.highest_version)
            self.ledger.finish_seed(job.entries)
            job.is_ended = True
        self.turns.tell(SeedFinished(job.index, job.sinks, seeding.documents, job.seconds))

    def _settle(self, job: _Job) -> int:
        """Look up once more what rows left while ranges were under way: then no document is as it was."""
        for entry in job.entries:
            entry.is_settling = True
        return max((settle_due(self.turns, job.spec, self.ledger, entry) for entry in job.entries), default=0)


def _may_go_on(filling: Filling) -> bool:
    """Whether there is a turn to take; with nothing left from the start the only one is of nothing, and ends
    it."""
    is_untouched = not (filling.turns or filling.under_way)
    return filling.has_ranges or (filling.is_whole and is_untouched)
