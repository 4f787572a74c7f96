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

from flusso.debt import Cursor, Debt, Scope, join
from flusso.engine import work
from flusso.engine.work import Destination
from flusso.errors import SinkError
from flusso.lsn import Lsn
from flusso.sinks.base import IndexState


@dataclass(slots=True)
class Entry:
    """One generation of an index in one sink that is being written, with what is remembered of it."""

    destination: Destination
    state: IndexState
    is_partial: bool = False
    """Whether this sink takes only what changes: rows that it never saw are not missing."""
    plan: str = ""
    """The plan that builds its documents; empty for the declared one, which has the name of the index."""

    @property
    def plan_name(self) -> str:
        """What the plan is called wherever documents are resolved and built."""
        return self.plan or self.state.index


@dataclass(slots=True)
class Ledger:
    """All entries; its methods may be called from any thread of the driver.

    An index may have several entries: one for each sink, and in each sink one for each generation that is
    written. Where a method takes the name of an index it means that of a plan: all entries that it builds.
    """

    entries: list[Entry]
    position: Lsn = field(default=Lsn(0))
    """Everything up to here is written and recorded."""
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

    def destinations(self) -> dict[str, tuple[Destination, ...]]:
        """Where the documents of each plan go, for the batch that is planned now."""
        found: dict[str, tuple[Destination, ...]] = {}
        for entry in self.entries:
            found[entry.plan_name] = (*found.get(entry.plan_name, ()), entry.destination)
        return found

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
                _save(entry)
            self.position = max(self.position, lsn)

    def unseeded_destinations(self) -> dict[str, tuple[Destination, ...]]:
        """Where a seed writes to: of each index only the sinks that do not have it yet."""
        return {
            index: tuple(entry.destination for entry in self.of(index) if not entry.state.is_seeded)
            for index in self.unseeded()
        }

    def skip_seed(self, index: str, sinks: Collection[str]) -> None:
        """Let readers of these sinks see an index as it is: it gets only what changes from now on."""
        chosen = [entry for entry in self.of(index) if entry.destination.sink.name in sinks]
        for entry in chosen:
            entry.is_partial = True
        self._publish(chosen, 0)

    def finish_seed(self, index: str, highest_version: int) -> None:
        """Let readers see an index that is now whole, and remember that it is."""
        self._publish(self.of(index), highest_version)

    def _publish(self, entries: Iterable[Entry], highest_version: int) -> None:
        with self._lock:
            for entry in entries:
                if entry.state.is_seeded:
                    continue
                sink = work.sink(entry.destination.sink)
                sink.refresh(entry.destination.target)
                sink.publish(entry.destination.target)
                highest = max(entry.state.highest_version, highest_version)
                entry.state = replace(entry.state, is_seeded=True, serves=True, highest_version=highest)
                _save(entry)
                _drop_older(entry)

    def owe(
        self,
        indexes: Collection[str],
        scope: Scope,
        reason: str,
        since: Lsn | None = None,
        *,
        sink: str | None = None,
    ) -> None:
        """Remember that documents of these indexes must be built anew, durably in every sink on return.

        Call it before the position that caused it is recorded. What is owed already begins again. With a
        `sink` only that one owes.
        """
        debt = Debt(scope, (reason,), self.position if since is None else since)
        with self._lock:
            for entry in self.entries:
                if entry.plan_name in indexes and sink in (None, entry.destination.sink.name):
                    entry.state = replace(entry.state, debts=join(entry.state.debts, debt))
                    _save(entry)

    def remember_catalog(self, entry: Entry, catalog: str) -> None:
        """Remember what the tables of an index look like, once all that follows from it is owed."""
        with self._lock:
            entry.state = replace(entry.state, catalog=catalog)
            _save(entry)

    def note_waiting(self, reason: str, since: float) -> None:
        """Let readers of the state know what keeps the stream from going on, or that nothing does."""
        with self._lock:
            for entry in self.entries:
                if (entry.state.waiting_for, entry.state.waiting_since) != (reason, since):
                    entry.state = replace(entry.state, waiting_for=reason, waiting_since=since)
                    with contextlib.suppress(SinkError):  # it is only told, and a sink may be what is away
                        _save(entry)

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
            rest = tuple(each for each in entry.state.debts if each != debt)
            highest = max(entry.state.highest_version, highest_version)
            debts = rest if cursor is None else (*rest, replace(debt, cursor=cursor))
            entry.state = replace(entry.state, debts=debts, highest_version=highest)
            _save(entry)

    def save_all(self) -> None:
        """Write every state as it stands."""
        with self._lock:
            for entry in self.entries:
                _save(entry)

    def of(self, index: str) -> list[Entry]:
        """List the entries of an index, sink by sink and generation by generation."""
        return [entry for entry in self.entries if entry.plan_name == index]


def _save(entry: Entry) -> None:
    if entry.destination.sink.capabilities.keeps_state:
        work.sink(entry.destination.sink).save_state(entry.state)


def _drop_older(entry: Entry) -> None:
    """Let the generations go that readers saw before this one, and what never came so far."""
    sink = work.sink(entry.destination.sink)
    for state in sink.load_states().of(entry.state.index):
        if state.generation < entry.state.generation:
            sink.drop(state.target)
