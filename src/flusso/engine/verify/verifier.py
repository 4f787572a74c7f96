"""Verify one index: all its rows, then all that its sinks hold, and once more what does not agree.

Runs on the driver of a Spark session of its own, beside whoever follows, and shares nothing with that one but
the tables and the sinks. Memory holds one share of ids for each slot and a bounded number of suspects; these
are settled, and repaired if that is asked for, whenever there are enough of them.

A repair is a write like any other: built after its own version was emitted, so the stream and a repair may
write the same document in any order. The sinks' state is never touched: it belongs to whoever follows.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from flusso.builder.choose import choose_keys
from flusso.builder.extents import Extent, read_extents
from flusso.builder.ranges import cut_ranges
from flusso.catalog import TableName
from flusso.document import DocumentId, WriteReport, id_text, key_of
from flusso.engine import tasks, work
from flusso.engine.events import Listener, Repaired, VerifyAdvanced, VerifySettled, Waiting
from flusso.engine.outage import Outage
from flusso.engine.outcome import Totals, settle_reports
from flusso.engine.policy import Patience, first_failure
from flusso.engine.retry import retrying
from flusso.engine.tasks import Batches
from flusso.engine.verify.facts import Tally
from flusso.engine.verify.gathering import Gathering
from flusso.engine.verify.judge import Difference
from flusso.engine.verify.looks import (
    LookReport,
    Share,
    VerifyTask,
    look_at_held,
    look_at_ranges,
    look_at_rows,
    state_of,
)
from flusso.engine.verify.settle import SettleReport, look_again
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import BuildError, FlussoError
from flusso.lsn import Version
from flusso.postgres.version import emit_version
from flusso.sinks.base import Page

Task: TypeAlias = Callable[[Batches], Batches]
_TURN_S = 2.0
_RANGES_IN_A_TURN = 100
_IDS_IN_A_SHARE = 5000
_MOST_SUSPECTS = 20_000
"""As many are remembered before they are settled."""
_TELL_S = 2.0
T = TypeVar("T")


class Interrupted(Exception):
    """A stop was asked for; what was compared until then is no result."""


@dataclass(slots=True)
class IndexVerifier:
    """Compares one index in all its sinks."""

    run: Callable[[Task, int], list[Any]]
    """Runs a task so many times side by side, each with its number, and gathers what they report."""
    task: VerifyTask
    parallelism: int
    range_mb: float
    repairs: bool
    skips: Mapping[str, bool]
    patience: Patience
    tell: Listener
    stop: threading.Event
    tallies: dict[str, Tally] = field(default_factory=dict)
    documents: int = 0
    _suspects: dict[str, dict[str, None]] = field(default_factory=dict)
    _seen: int = 0
    _began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for destination in self.task.destinations:
            self.tallies[destination.sink.name] = Tally()
            self._suspects[destination.sink.name] = {}

    def verify(self) -> None:
        """Compare everything, both ways."""
        self._compare_rows()
        for destination in self.task.destinations:
            self._compare_held(destination)
        self._settle()

    def verify_sample(self, count: int) -> None:
        """Compare the documents of so many rows, chosen at random."""
        ids = self._patiently(lambda: self._choose(count))
        size = max(1, min(_IDS_IN_A_SHARE, -(-len(ids) // self.parallelism)))
        shares = [ids[at : at + size] for at in range(0, len(ids), size)]
        for some in _groups(shares, self.parallelism):
            self._count(self._look(look_at_rows(self.task, some), len(some)))
            self._advance("rows", self.documents, len(ids), self.documents)
        self._settle()

    def _choose(self, count: int) -> list[str]:
        plan, told_s = self.task.work.plans[self.task.index], time.monotonic()

        def hear(looked: int, most: int) -> None:
            nonlocal told_s
            if self.stop.is_set():
                raise Interrupted
            if time.monotonic() - told_s >= _TELL_S:
                told_s = time.monotonic()
                self.tell(Waiting(f"rows of {self.task.index} are chosen, from {looked} of {most} blocks"))

        with work.looking(self.task.work.dsn) as conn:
            return [id_text(key) for key in choose_keys(conn, plan, count, random.Random(), hear)]

    def _compare_rows(self) -> None:
        """Look at every table that holds rows of the root; again at one whose rows moved meanwhile."""
        done: set[TableName] = set()
        blocks = 0
        while left := [one for one in self._extents() if one.table not in done]:
            extent, total = left[0], blocks + sum(one.blocks for one in left)
            before = self.documents
            self._begin_table()
            try:
                for count in self._compare_extent(extent):
                    self._advance("rows", blocks + count, total, self.documents)
                done.add(extent.table)
                blocks += extent.blocks
            except BuildError:
                if _file(extent) in map(_file, self._extents()):
                    raise
                self.documents = before
                for tally in self.tallies.values():
                    tally.undo()

    def _begin_table(self) -> None:
        """Let what is found from here on be forgotten if the table is read again, but not what waits."""
        for name, tally in self.tallies.items():
            tally.begin(self._suspects[name])

    def _extents(self) -> list[Extent]:
        def read() -> list[Extent]:
            with work.looking(self.task.work.dsn) as conn:
                return read_extents(conn, self.task.work.plans[self.task.index].root)

        return self._patiently(read)

    def _compare_extent(self, extent: Extent) -> Iterator[int]:
        """Look at one table in turns; give how many of its blocks are done after each."""
        ranges = cut_ranges(self.task.work.plans[self.task.index], extent, self.range_mb)
        while ranges:
            share = max(1, min(_RANGES_IN_A_TURN, len(ranges) // self.parallelism))
            turns = [
                ranges[at : at + share] for at in range(0, min(len(ranges), share * self.parallelism), share)
            ]
            reports = self._look(look_at_ranges(self.task, turns, _TURN_S), len(turns))
            self._count(reports)
            rest = [turn[report.done :] for turn, report in zip(turns, reports, strict=True)]
            ranges = [*(one for some in rest for one in some), *ranges[sum(map(len, turns)) :]]
            yield ranges[0].start_block if ranges else extent.blocks

    def _compare_held(self, destination: Destination) -> None:
        """Look for the rows of all documents that a sink holds."""
        self._began_s = time.monotonic()
        spec, target, name = destination.sink, destination.target, destination.sink.name
        total, held, after = self._patiently(lambda: work.sink(spec).count(target)), 0, ""
        while True:
            shares: list[Share] = []
            while len(shares) < self.parallelism:
                page = self._page(destination, after)
                after = page.after
                if page.ids:
                    shares.append(Share(name, page.ids))
                if not after:
                    break
            if shares:
                reports = self._look(look_at_held(self.task, shares), len(shares))
                held += sum(report.documents for report in reports)
                self._advance("held", held, max(total, held), held)
            if not after:
                self.tallies[name].held = held
                return

    def _page(self, destination: Destination, after: str) -> Page:
        sink, target = destination.sink, destination.target
        return self._patiently(lambda: work.sink(sink).page(target, after, _IDS_IN_A_SHARE))

    def _look(self, task: Task, count: int) -> list[LookReport]:
        """Run a first look, and settle its suspects once there are many."""
        reports: list[LookReport] = self._run(task, count)
        for share in (share for report in reports for share in report.suspects):
            self._seen += len(share.ids)
            self._suspects[share.sink].update(dict.fromkeys(share.ids))
        if sum(map(len, self._suspects.values())) >= _MOST_SUSPECTS:
            self._settle()
        return reports

    def _count(self, reports: Sequence[LookReport]) -> None:
        self.documents += sum(report.documents for report in reports)

    def _settle(self) -> None:
        """Look again at all suspects, and repair what is wrong with them if that is asked for."""
        began_s = time.monotonic()
        shares = _shares((sink, list(ids)) for sink, ids in self._suspects.items())
        for ids in self._suspects.values():
            ids.clear()
        if not shares:
            return
        suspects = sum(len(share.ids) for share in shares)
        self.tell(
            Waiting(f"{suspects} documents of {self.task.index} do not agree: a look past this position")
        )
        found = self._look_again(shares)
        seconds = time.monotonic() - began_s
        self.tell(VerifySettled(self.task.index, suspects, sum(map(len, found.values())), seconds))
        try:
            while found:
                sink = next(iter(found))
                self._take(sink, found[sink])
                del found[sink]
        except (Interrupted, FlussoError):
            for sink, differences in found.items():  # stopped or failed: they are there for all that is known
                for one in differences:
                    self.tallies[sink].add(one)
            raise

    def _take(self, sink: str, differences: Sequence[Difference]) -> None:
        """Count differences, those that are left after a repair if that is asked for."""
        left = {one.id: one for one in differences}
        if self.repairs and differences:
            left = self._repair(sink, differences)
        waiting = self._quarantined(sink) if left else frozenset()
        for one in differences:
            if one.id in left:
                self.tallies[sink].add(left[one.id], is_quarantined=one.id in waiting)
            else:
                self.tallies[sink].add_repaired(one)

    def _quarantined(self, sink: str) -> frozenset[str]:
        spec, index = self.task.destination(sink).sink, self.task.index
        refusals = self._patiently(lambda: work.sink(spec).quarantined(index))
        return frozenset(refusal.id for refusal in refusals)

    def _look_again(self, shares: Sequence[Share]) -> dict[str, list[Difference]]:
        found: dict[str, list[Difference]] = {}
        for some in _groups(shares, self.parallelism):
            reports: list[SettleReport] = self._run(look_again(self.task, some), len(some))
            for report in reports:
                tally = self.tallies[report.sink]
                tally.add_untold(report.changing, report.unproven)
                tally.reasons |= dict.fromkeys(report.reasons)
                if report.stood is not None:
                    tally.pace = report.stood.pace
                    stood = {**self.task.stood, report.sink: report.stood}
                    self.task = replace(self.task, stood=stood)
                found.setdefault(report.sink, []).extend(report.differences)
        return found

    def _repair(self, sink: str, differences: Sequence[Difference]) -> dict[str, Difference]:
        """Write what differs anew, remove what has no row, and look again; give what differs still."""
        index, tally = self.task.index, self.tallies[sink]
        destination = self._patiently(lambda: _as_written_now(self.task.destination(sink)))
        gathering = Gathering(self.skips, tally=tally)
        self._patiently(lambda: gathering.look([destination]))
        spec = replace(self.task.work, destinations={index: (destination,)}, quarantines=gathering.holders)
        columns = len(spec.plans[index].key)
        ids = [one.id for one in differences]
        written = removed = 0
        for some in _groups(_shares([(sink, ids)]), self.parallelism):
            keys = [[DocumentId(index, key_of(id_, columns)) for id_ in share.ids] for share in some]
            reports = self._run(tasks.write_held(spec, keys, only_gone=False), len(keys))
            totals = self._settle_reports(reports, spec, gathering)
            written, removed = written + totals.written, removed + totals.removed
        self._patiently(lambda: work.sink(destination.sink).refresh(destination.target))
        self.tell(Repaired(index, sink, written, removed))
        left = self._look_again(_shares([(sink, ids)]))
        return {one.id: one for one in left.get(sink, [])}

    def _settle_reports(self, reports: Sequence[WriteReport], spec: WorkSpec, gathering: Gathering) -> Totals:
        def attempt() -> Totals:
            return settle_reports(reports, spec, gathering, self._emit)

        return self._patiently(attempt)

    def _emit(self) -> Version:
        with work.looking(self.task.work.dsn) as conn:
            return emit_version(conn)

    def _run(self, task: Task, count: int) -> list[Any]:
        """Run a task so many times side by side, again while what fails may heal."""

        def attempt() -> list[Any]:
            found = self.run(task, count)
            failure = first_failure(found)
            if failure is not None:
                raise failure
            return found

        return self._patiently(attempt)

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """Do something, again while what fails may heal."""
        if self.stop.is_set():
            raise Interrupted
        try:
            return retrying(attempt, Outage(self.patience, self.tell, self.stop))
        except FlussoError as error:
            if error.retryable and self.stop.is_set():
                raise Interrupted from error
            raise

    def _advance(self, part: str, done: int, total: int, documents: int) -> None:
        seconds = time.monotonic() - self._began_s
        self.tell(VerifyAdvanced(self.task.index, part, done, total, documents, self._seen, seconds))


def _as_written_now(destination: Destination) -> Destination:
    """Give a generation as whoever follows writes it: one that has started since has a term of its own."""
    term = state_of(destination).term
    return replace(destination, target=replace(destination.target, term=term))


def _file(extent: Extent) -> tuple[TableName, int]:
    return extent.table, extent.filenode


def _shares(found: Iterable[tuple[str, Collection[str]]]) -> list[Share]:
    """Cut the ids of each sink into shares of a task."""
    return [
        Share(sink, tuple(ids)[at : at + _IDS_IN_A_SHARE])
        for sink, ids in found
        for at in range(0, len(ids), _IDS_IN_A_SHARE)
    ]


def _groups(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))
