"""What every sink remembers of its indexes, kept in step with what was written.

Driver only. A position is recorded here, durably in every sink, before Spark is allowed to confirm it to
the slot: that record is the witness which later shows that someone else moved the slot. Debts are kept the
same way: `owe` returns when every sink remembers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from flusso.debt import Cursor, Debt, Reach, Scope, join
from flusso.engine import work
from flusso.engine.entry import Entry, save, save_due
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import SinkError
from flusso.lsn import Lsn
from flusso.seeding import Seeding
from flusso.sinks.base import IndexState, IndexTarget, SinkSpec


@dataclass(slots=True)
class Ledger:
    """All entries; its methods may be called from any thread of the driver.

    An index may have several entries: one for each sink, and in each sink one for each generation that is
    written. Where a method takes the name of an index it means that of a plan: all entries that it builds.
    """

    entries: list[Entry]
    position: Lsn = field(default=Lsn(0))
    """Everything up to here is written and recorded."""
    most_due: int = 1_000_000
    """Tokens that are remembered of a generation, or as many as it has documents if those are more: beyond
    that it costs less to build them all."""
    frozen: list[tuple[SinkSpec, IndexState]] = field(default_factory=list)
    """Generations that readers see until a new one is whole, and that are written no more."""
    retired: list[tuple[SinkSpec, IndexState]] = field(default_factory=list)
    """Generations that readers have left for good, to be dropped."""
    has_news: threading.Event = field(default_factory=threading.Event)
    """Set when readers may have a generation to move to; cleared by whoever looks (`switch`)."""
    _left: list[Entry] = field(default_factory=list)
    """Those that readers have left and that are kept, until that is remembered."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_seeded(self, index: str) -> bool:
        """Whether every sink has the whole index."""
        return all(entry.state.is_seeded for entry in self.of(index))

    def unseeded(self) -> list[str]:
        """Name the indexes that still need a seed, in order."""
        names = dict.fromkeys(entry.plan_name for entry in self.entries)
        return [name for name in names if not self.is_seeded(name)]

    def serving(self) -> frozenset[Destination]:
        """Name the generations that readers see."""
        return frozenset(entry.destination for entry in self.entries if entry.state.serves)

    def waiting(self) -> list[Entry]:
        """List the generations that are whole and that readers do not see yet."""
        return [entry for entry in self.entries if entry.is_waiting]

    def shown(self) -> list[tuple[SinkSpec, IndexTarget]]:
        """List the generations that readers are to see, written or frozen."""
        written = [entry.destination for entry in self.entries if entry.state.serves]
        frozen = [(sink, state.target) for sink, state in self.frozen]
        return [(each.sink, each.target) for each in written] + frozen

    def lacks_readers(self, sink: SinkSpec, target: IndexTarget) -> bool:
        """Whether readers are to see a generation and its sink does not show it to them.

        Who finds that looks once more: they may just have been moving.
        """

        def is_unread() -> bool:
            return (sink, target) in self.shown() and not work.sink(sink).is_read(target)

        if not is_unread():
            return False
        with self._lock:
            return is_unread()

    def has_readers(self, entry: Entry) -> bool:
        """Whether readers see another generation of its index in its sink."""
        return any(state.serves for state in self._beside(entry))

    def narrow(self, spec: WorkSpec) -> WorkSpec:
        """Say what the batch that is planned now has to build, and for whom."""
        destinations = self.destinations()
        plans = {name: plan for name, plan in spec.plans.items() if name in destinations}
        return replace(spec, plans=plans, destinations=destinations, remembers=self.remembering())

    def passes(self, spec: WorkSpec) -> list[WorkSpec]:
        """Split what `narrow` gives into what is done one after the other.

        Where readers are about to move to another plan, it comes last: whatever a reader has seen by the old
        one, the new one then has seen too.
        """
        last = {entry.plan_name for entry in self.waiting() if self._is_read_by_another_plan(entry)}
        if not last:
            return [spec]
        chosen = [{name for name in spec.plans if (name in last) is is_last} for is_last in (False, True)]
        return [_only(spec, names) for names in chosen if names]

    def _is_read_by_another_plan(self, entry: Entry) -> bool:
        place = (entry.destination.sink.name, entry.state.index)
        return any(
            each.state.serves
            and (each.destination.sink.name, each.state.index) == place
            and each.plan_name != entry.plan_name
            for each in self.entries
        )

    def destinations(self) -> dict[str, tuple[Destination, ...]]:
        """Where the documents of each plan go, for the batch that is planned now."""
        found: dict[str, tuple[Destination, ...]] = {}
        for entry in self.entries:
            found[entry.plan_name] = (*found.get(entry.plan_name, ()), entry.destination)
        return found

    def remembering(self) -> frozenset[Destination]:
        """Where documents are written beside the batches: what a batch looks up there may come after it."""
        return frozenset(entry.destination for entry in self.entries if entry.remembers)

    def make_room(self, changes: int) -> None:
        """Let sinks remember a token for each change of a batch, before it is planned.

        Where that would be too many all that is held is due, durably on return: then no more need be
        remembered. A sink that is away keeps nobody waiting here: it goes on remembering, and is asked again.
        """
        with self._lock:
            for entry in [each for each in self.entries if each.remembers]:
                with contextlib.suppress(SinkError):
                    self._make_room(entry, changes)

    def _make_room(self, entry: Entry, changes: int) -> None:
        if entry.room < changes:
            sink, target = work.sink(entry.destination.sink), entry.destination.target
            entry.room = max(self.most_due, sink.count(target)) - sink.count_tokens(target)
        if entry.room < changes:
            save_due(entry, is_all=True)
        entry.room -= changes

    def end_due(self, entry: Entry) -> None:
        """Remember that all that was due is written."""
        with self._lock:
            save_due(entry, is_all=False)

    def record(self, lsn: Lsn, highest_version: int) -> None:
        """Remember a written position in every sink, before it is confirmed."""
        with self._lock:
            if lsn <= self.position and not highest_version:
                return
            for entry in self.entries:
                entry.state = replace(
                    entry.state,
                    witness=max(entry.state.witness, lsn),
                    highest_version=max(entry.state.highest_version, highest_version),
                )
                save(entry)
            self.position = max(self.position, lsn)

    def to_seed(self) -> list[Entry]:
        """List what a seed has to fill: of each index only the sinks that do not have it yet."""
        return [entry for entry in self.entries if not entry.state.is_seeded]

    def skip_seed(self, index: str, sinks: Collection[str], *, is_order: bool) -> None:
        """Let readers of these sinks see an index as it is: it gets only what changes from now on.

        Without an order not in place of what they see, which they would lose. That is filled from all rows:
        nobody knows which of them had changed before.
        """
        chosen = [entry for entry in self.of(index) if entry.destination.sink.name in sinks]
        if not is_order:
            chosen = [entry for entry in chosen if entry.has_been_read or not self.has_readers(entry)]
        for entry in chosen:
            entry.is_partial = True
        self.finish_seed(chosen)
        for entry in chosen:
            if entry.is_waiting:
                self.publish(entry)
        self.drop_retired()

    def advance_seed(self, entries: Iterable[Entry], seeding: Seeding, highest_version: int) -> None:
        """Remember how far a seed has come, once all of that is written."""
        with self._lock:
            for entry in entries:
                highest = max(entry.state.highest_version, highest_version)
                entry.state = replace(entry.state, seeding=seeding, highest_version=highest)
                save(entry)

    def finish_seed(self, entries: Iterable[Entry]) -> None:
        """Remember that all is written; readers come to see it between two batches (`switch`)."""
        with self._lock:
            for entry in entries:
                if not entry.state.is_seeded:
                    entry.state = replace(entry.state, is_seeded=True, seeding=Seeding())
                    save(entry)
        self.has_news.set()

    def await_position(self, entry: Entry, lsn: Lsn) -> None:
        """Remember how far a seeded generation must be written before readers may see it."""
        with self._lock:
            entry.state = replace(entry.state, ready_at=lsn)
            save(entry)

    def publish(self, entry: Entry) -> None:
        """Let readers see a generation, in one step; those past keeping are dropped by `drop_retired`.

        Only between two batches: from here on what they saw before is written only if it is kept. No mark of
        a removal is left, or comes. The state goes first: after a crash half-way the one with the highest
        number of those that serve counts, and is published once more.
        """
        with self._lock:
            sink = work.sink(entry.destination.sink)
            entry.end_marks()
            sink.purge(entry.destination.target)
            sink.refresh(entry.destination.target)
            number = 1 + max(state.published for state in (entry.state, *self._beside(entry)))
            before = entry.state
            entry.state = replace(before, serves=True, is_kept=False, published=number)
            try:
                save(entry)
                sink.publish(entry.destination.target)
            except BaseException:
                entry.state = before  # readers may not have moved: it is tried again
                raise
            self._retire_others(entry)

    def roll_back(self, index: str, sink: str, generation: int) -> None:
        """Lead readers back to a generation that they saw before, if it is kept; else they stay."""
        for entry in list(self.entries):
            place = (entry.state.index, entry.destination.sink.name, entry.state.generation)
            if place == (index, sink, generation) and entry.state.is_kept:
                self.publish(entry)
                self.drop_retired()

    def drop_retired(self) -> None:
        """Drop the generations that readers have left and that are not kept; again where that has failed.

        What is kept is remembered as such first. Should that fail, the number of the move tells as much.
        """
        with self._lock:
            for entry in [each for each in self._left if each in self.entries]:
                save(entry)
            self._left = []
        while self.retired:
            spec, state = self.retired[0]
            if spec.capabilities.keeps_state:
                work.sink(spec).drop(state.target)
            self.retired.pop(0)

    def _beside(self, entry: Entry) -> list[IndexState]:
        """List what else there is of an index in a sink."""
        place = (entry.destination.sink.name, entry.state.index)
        known = [(each.destination.sink, each.state) for each in self.entries if each is not entry]
        return [state for spec, state in known + self.frozen if (spec.name, state.index) == place]

    def _retire_others(self, entry: Entry) -> None:
        """Keep as many of the others as are wanted, those that readers saw last, and take the rest out.

        Readers have moved, so nothing here may fail.
        """
        sink, others = entry.destination.sink, self._beside(entry)
        read = (state for state in others if state.serves or state.is_kept)
        seen = sorted(read, key=lambda state: state.move, reverse=True)
        kept = [state for state in seen if not state.stale][: max(entry.keeps, 0)]
        gone = [state for state in seen if state not in kept]
        self.retired += [(sink, state) for state in gone]
        self.entries = [
            each for each in self.entries if not (each.destination.sink == sink and each.state in gone)
        ]
        self.frozen = [each for each in self.frozen if not (each[0] == sink and each[1] in gone)]
        for each in self.entries:
            if each.destination.sink == sink and each.state in kept:
                each.state = replace(each.state, serves=False, is_kept=True)
                self._left.append(each)

    def owe(
        self,
        indexes: Collection[str],
        scope: Scope,
        reason: str,
        since: Lsn | None = None,
        *,
        sink: str | None = None,
        reach: Reach | None = None,
    ) -> None:
        """Remember that documents of these indexes must be built anew, durably in every sink on return.

        Call it before the position that caused it is recorded. What is owed already begins again. With a
        `sink` only that one owes.
        """
        debt = Debt(scope, (reason,), self.position if since is None else since, reach=reach)
        with self._lock:
            for entry in self.entries:
                if entry.plan_name in indexes and sink in (None, entry.destination.sink.name):
                    entry.state = replace(entry.state, debts=join(entry.state.debts, debt))
                    save(entry)

    def remember_uuids(self, entry: Entry, uuids: tuple[str, ...]) -> None:
        """Remember what a generation is written to from now on."""
        if entry.state.uuids != uuids:
            with self._lock:
                entry.state = replace(entry.state, uuids=uuids)
                save(entry)

    def remember_catalog(self, entry: Entry, catalog: str) -> None:
        """Remember what the tables of an index look like, once all that follows from it is owed."""
        with self._lock:
            entry.state = replace(entry.state, catalog=catalog)
            save(entry)

    def note_waiting(self, reason: str, since: float) -> None:
        """Let readers of the state know what keeps the stream from going on, or that nothing does."""
        with self._lock:
            for entry in self.entries:
                if (entry.state.waiting_for, entry.state.waiting_since) != (reason, since):
                    entry.state = replace(entry.state, waiting_for=reason, waiting_since=since)
                    with contextlib.suppress(SinkError):  # it is only told, and a sink may be what is away
                        save(entry)

    def beat(self, moment: float) -> None:
        """Show whoever else would write these indexes that someone does; zero: no more."""
        with self._lock:
            for entry in self.entries:
                entry.state = replace(entry.state, beat=moment)
                save(entry)

    def owing(self) -> list[Entry]:
        """List the entries that are not exact."""
        return [entry for entry in self.entries if entry.state.debts]

    def pay(self, entry: Entry, debt: Debt, cursor: Cursor | None, highest_version: int) -> None:
        """Remember how far a debt is paid, or without a cursor that it is.

        Nothing is remembered when it was owed anew meanwhile: what was under way may have read too early.
        """
        with self._lock:
            if debt not in entry.state.debts:
                return
            paid = () if cursor is None else (replace(debt, cursor=cursor),)
            highest = max(entry.state.highest_version, highest_version)
            entry.state = replace(
                entry.state, debts=_replaced(entry.state.debts, debt, paid), highest_version=highest
            )
            save(entry)
            for each in self.entries:  # readers may now see what a generation that waits does not have yet
                if each.is_waiting and each.state.index == entry.state.index and entry.state.serves:
                    each.state = replace(each.state, ready_at=0)

    def begin(self, entry: Entry, debt: Debt) -> Debt:
        """Note that a debt is being paid from now on: what is owed later is not what is being read."""
        with self._lock:
            begun = replace(debt, cursor=replace(debt.cursor, has_begun=True))
            entry.state = replace(entry.state, debts=_replaced(entry.state.debts, debt, (begun,)))
            return begun if begun in entry.state.debts else debt

    def save_all(self) -> None:
        """Write every state as it stands."""
        with self._lock:
            for entry in self.entries:
                save(entry)
            for spec, state in self.frozen:
                work.sink(spec).save_state(state)

    def of(self, index: str) -> list[Entry]:
        """List the entries of an index, sink by sink and generation by generation."""
        return [entry for entry in self.entries if entry.plan_name == index]


def _replaced(debts: tuple[Debt, ...], debt: Debt, by: tuple[Debt, ...]) -> tuple[Debt, ...]:
    """Put others in the place of a debt: the first is paid to its end before the next."""
    return tuple(other for each in debts for other in (by if each == debt else (each,)))


def _only(spec: WorkSpec, names: Collection[str]) -> WorkSpec:
    plans = {name: plan for name, plan in spec.plans.items() if name in names}
    destinations = {name: found for name, found in spec.destinations.items() if name in names}
    return replace(spec, plans=plans, destinations=destinations)
