"""Pay debts: build anew, beside the live stream, what was too much for a batch.

A debt of an index in a sink is paid in turns of about a second (`engine/turns.py`), each with its own
versions, so versions decide between a turn and the stream, and no order between them matters. How far it is
paid is remembered in the sink after each turn; a restart goes on there.

An index that is still being seeded waits: a range in flight may yet write rows as they were before the
debt, so paying begins when every range has ended. For the same reason a debt that is owed anew begins again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from flusso.builder.extents import Extent, read_extents
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import BlockRange, cut_ranges
from flusso.debt import BY_REFERENCES, Cursor, Debt, Reach, Scope
from flusso.document import DocumentId, key_of
from flusso.engine import tasks, work
from flusso.engine.due import settle_due
from flusso.engine.entry import Entry
from flusso.engine.events import DebtAdvanced, DebtFound, DebtPaid
from flusso.engine.ledger import Ledger
from flusso.engine.outage import Outage
from flusso.engine.outcome import Totals
from flusso.engine.retry import as_failure
from flusso.engine.turns import Turns
from flusso.engine.work import WorkSpec
from flusso.errors import BuildError, FlussoError
from flusso.postgres.identifiers import quote_table

_LOOK_S = 0.1
_TURN_S = 1.0
_FIRST_SHARE, _LARGEST_SHARE = 4, 128
"""Ranges that a task is given: more while it manages them within its turn."""
_IDS_IN_A_SHARE = 5000
_TELL_S = 5.0


@dataclass(slots=True)
class _Progress:
    """What this process has done for a debt."""

    times: int
    started_s: float
    told_s: float
    documents: int = 0
    share: int = _FIRST_SHARE
    turn: int = 0
    found: Iterator[str] | None = None
    """Ids that a look-up has still to give."""


@dataclass(slots=True)
class Payer:
    """Pays what the ledger says is owed, for as long as it runs."""

    turns: Turns
    spec: WorkSpec
    ledger: Ledger
    failure: FlussoError | None = None
    _is_closed: threading.Event = field(default_factory=threading.Event)
    _progress: dict[tuple[str, str, int], _Progress] = field(default_factory=dict)
    _count: int = 0
    _thread: threading.Thread | None = None
    _outage: Outage = field(init=False)

    def __post_init__(self) -> None:
        self._outage = self.turns.outage(self._is_closed)

    def start(self) -> None:
        """Begin, and begin again after a failure; returns at once."""
        if self._thread is not None and self._thread.is_alive():
            return
        self.failure = None
        self._thread = self.turns.start(self._work, "flusso-debts")

    def close(self, timeout_s: float) -> None:
        """Begin no more turns, and wait for the one in hand."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        pause_s = 0.0
        try:
            while not self._is_closed.wait(pause_s):
                entry = self._choose()
                pause_s = _LOOK_S if entry is None else 0.0
                if entry is not None:
                    self._try_turn(entry)
        except Exception as error:
            if not self._is_closed.is_set():
                self.failure = as_failure(error, "a debt")

    def _try_turn(self, entry: Entry) -> None:
        """Take a turn, or wait: what failed and may heal is chosen again."""
        try:
            self._take_turn(entry)
            self._outage.end()
        except FlussoError as error:
            if any(each is entry for each in self.ledger.entries):  # else readers left it, and it was dropped
                self._outage.wait(error)

    def _choose(self) -> Entry | None:
        """Pick what has waited longest: a large debt must not hold up a small one."""
        entries = [entry for entry in self.ledger.owing() if entry.state.is_seeded]
        return min(entries, key=lambda entry: self._of(entry, entry.state.debts[0]).turn, default=None)

    def _of(self, entry: Entry, debt: Debt) -> _Progress:
        place = _place(entry)
        found = self._progress.get(place)
        if found is None or found.times != debt.times:
            now_s = time.monotonic()
            found = self._progress[place] = _Progress(debt.times, now_s, now_s)
            self.turns.tell(DebtFound(*place[:2], "; ".join(debt.reasons)))
        return found

    def _take_turn(self, entry: Entry) -> None:
        debt = entry.state.debts[0]
        entry.is_settling = False  # also after an end that failed: from here on something is written again
        progress = self._of(entry, debt)
        self._count += 1
        progress.turn = self._count
        if debt.reach is not None:
            debt = self.ledger.begin(entry, debt)
        meant = _as_known(entry, self.spec.plans[entry.plan_name], debt)
        if _is_by_references(meant):
            cursor, totals = self._pay_referring(entry, meant, progress)
        else:
            pay = self._pay_rows if _needs_rows(entry, meant) else self._pay_held
            cursor, totals = pay(entry, meant, progress)
        progress.documents += totals.written + totals.removed + totals.superseded
        highest = totals.highest_version
        if cursor is None:
            highest = max(highest, self._settle(entry))
            work.sink(entry.destination.sink).refresh(entry.destination.target)
        self.ledger.pay(entry, debt, cursor, highest)
        entry.is_settling = False
        self._report(entry, progress, is_paid=cursor is None and debt not in entry.state.debts)

    def _settle(self, entry: Entry) -> int:
        """Look up once more what rows left while turns were under way."""
        entry.is_settling = True
        return settle_due(self.turns, self.spec, self.ledger, entry)

    def _report(self, entry: Entry, progress: _Progress, *, is_paid: bool) -> None:
        place = _place(entry)
        now_s = time.monotonic()
        if is_paid and not entry.state.debts:
            del self._progress[place]
            self.turns.tell(DebtPaid(*place[:2], progress.documents, now_s - progress.started_s))
        elif now_s - progress.told_s >= _TELL_S:
            progress.told_s = now_s
            self.turns.tell(DebtAdvanced(*place[:2], progress.documents, now_s - progress.started_s))

    def _pay_rows(self, entry: Entry, debt: Debt, progress: _Progress) -> tuple[Cursor | None, Totals]:
        """Write the next ranges of the root table, one of its partitions after the other."""
        spec = self._spec_of(entry)
        plan = spec.plans[entry.plan_name]
        with work.looking(spec.dsn) as conn:
            extent, block = _next_extent(read_extents(conn, plan.root), debt.cursor)
        if extent is None:
            return None if debt.reach else replace(debt.cursor, are_rows_paid=True), Totals()
        place = quote_table(extent.table)
        ranges = cut_ranges(plan, extent, self.turns.range_mb, block)
        try:
            done, totals = self._write_ranges(spec, ranges, progress, debt.reach)
        except BuildError:
            if self._is_the_file(spec, entry, extent):
                raise
            done, totals = None, Totals()
        if done is None:
            # Its rows were moved while they were read: whatever is there now is read from its first block.
            return Cursor(place, filenode=-1), totals
        if done < len(ranges):
            return Cursor(place, extent.filenode, ranges[done].start_block), totals
        return Cursor(place), totals

    def _write_ranges(
        self, spec: WorkSpec, ranges: Sequence[BlockRange], progress: _Progress, reach: Reach | None
    ) -> tuple[int | None, Totals]:
        """Give how many of the ranges, from the first on, are written; None if their table was rewritten."""
        with self.turns.slots(min(self.turns.parallelism, len(ranges))) as slots:
            share = min(progress.share, -(-len(ranges) // slots))
            turns = [ranges[at : at + share] for at in range(0, min(len(ranges), slots * share), share)]
            reports = self.turns.run(tasks.write_ranges(spec, turns, _TURN_S, reach), len(turns))
        totals = self.turns.settle([each for report in reports for each in report.reports], spec)
        done = [report.done for report in reports]
        is_whole = all(count == len(turn) for count, turn in zip(done, turns, strict=True))
        progress.share = min(_LARGEST_SHARE, share * 2) if is_whole else max(1, min(done))
        is_rewritten = any(report.is_rewritten for report in reports)
        return None if is_rewritten else _first_done(done, turns), totals

    def _pay_held(self, entry: Entry, debt: Debt, progress: _Progress) -> tuple[Cursor | None, Totals]:
        """Write the next documents that the sink holds: a row that is gone becomes a removal."""
        spec = self._spec_of(entry)
        index, target = entry.plan_name, entry.destination.target
        columns = len(spec.plans[index].key)
        sink = work.sink(entry.destination.sink)
        shares: list[list[DocumentId]] = []
        after = debt.cursor.after
        with self.turns.slots(self.turns.parallelism) as slots:
            while len(shares) < slots:
                page = sink.page(target, after, _IDS_IN_A_SHARE)
                after = page.after
                if page.ids:
                    shares.append([DocumentId(index, key_of(id_, columns)) for id_ in page.ids])
                if not after:
                    break
            totals = self._write_held(spec, shares, debt.scope) if shares else Totals()
        return replace(debt.cursor, are_rows_paid=True, after=after) if after else None, totals

    def _pay_referring(self, entry: Entry, debt: Debt, progress: _Progress) -> tuple[Cursor | None, Totals]:
        """Write the next documents that have the tokens; a sink that keeps nothing gets what another finds.

        A look-up has no place to go on at: after a failure or a restart it begins again.
        """
        if debt.reach is None or not entry.destination.target.keeps_references:
            return None, Totals()
        index, target = entry.plan_name, entry.destination.target
        columns = len(self.spec.plans[index].key)
        others = [each for each in self.spec.destinations[index] if not each.sink.capabilities.keeps_state]
        spec = replace(self._spec_of(entry), destinations={index: (entry.destination, *others)})
        found, progress.found = progress.found, None
        if found is None:
            tokens = [token for (token,) in debt.reach.keys]
            found = work.sink(entry.destination.sink).find_references(target, tokens)
        with self.turns.slots(self.turns.parallelism) as slots:
            shares = [
                [DocumentId(index, key_of(id_, columns)) for id_ in ids]
                for _ in range(slots)
                if (ids := list(islice(found, _IDS_IN_A_SHARE)))
            ]
            totals = self._write_held(spec, shares, debt.scope) if shares else Totals()
        if len(shares) < slots:
            return None, totals
        progress.found = found
        return debt.cursor, totals

    def _write_held(self, spec: WorkSpec, shares: Sequence[Sequence[DocumentId]], scope: Scope) -> Totals:
        run = tasks.write_held(spec, shares, only_gone=scope is Scope.GONE)
        return self.turns.settle(self.turns.run(run, len(shares)), spec)

    def _is_the_file(self, spec: WorkSpec, entry: Entry, extent: Extent) -> bool:
        with work.looking(spec.dsn) as conn:
            extents = read_extents(conn, spec.plans[entry.plan_name].root)
        return (extent.table, extent.filenode) in [(each.table, each.filenode) for each in extents]

    def _spec_of(self, entry: Entry) -> WorkSpec:
        return replace(
            self.spec,
            quarantines=self.turns.quarantine.holders,
            destinations={entry.plan_name: (entry.destination,)},
        )


def _place(entry: Entry) -> tuple[str, str, int]:
    return entry.state.index, entry.destination.sink.name, entry.state.generation


def _as_known(entry: Entry, plan: IndexPlan, debt: Debt) -> Debt:
    """Take a debt along a path that the plan does not have for one of everything, and one of references that
    the generation does not have for one of all that is held."""
    if _is_by_references(debt):
        is_held = entry.destination.sink.capabilities.keeps_state
        has_tokens = entry.destination.target.keeps_references
        return replace(debt, scope=Scope.HELD, reach=None) if is_held and not has_tokens else debt
    if debt.reach is None or any(path.place == debt.reach.place for path in plan.paths):
        return debt
    return replace(debt, scope=Scope.WHOLE, reach=None)


def _is_by_references(debt: Debt) -> bool:
    return debt.reach is not None and debt.reach.place == BY_REFERENCES


def _needs_rows(entry: Entry, debt: Debt) -> bool:
    """Whether to read the root first. A sink that keeps nothing has no ids: its rows are all there is."""
    if debt.reach is not None:
        return True
    has_ids = entry.destination.sink.capabilities.keeps_state
    is_wanted = debt.scope is Scope.WHOLE or (debt.scope is Scope.HELD and not has_ids)
    return is_wanted and not entry.is_partial and not debt.cursor.are_rows_paid


def _next_extent(extents: Sequence[Extent], cursor: Cursor) -> tuple[Extent | None, int]:
    """Find the table that is next, and the block to begin at."""
    for place, extent in sorted((quote_table(extent.table), extent) for extent in extents):
        if place == cursor.table and cursor.filenode:
            return extent, cursor.block if cursor.filenode == extent.filenode else 0
        if place > cursor.table:
            return extent, 0
    return None, 0


def _first_done(done: Sequence[int], turns: Sequence[Sequence[BlockRange]]) -> int:
    """Count the ranges that are done without a gap."""
    total = 0
    for count, turn in zip(done, turns, strict=True):
        total += count
        if count < len(turn):
            break
    return total
