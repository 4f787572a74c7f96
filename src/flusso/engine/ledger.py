"""What every sink remembers of its indexes, kept in step with what was written.

Driver only. A position is recorded here, durably in every sink, before Spark is allowed to confirm it to
the slot: that record is the witness which later shows that someone else moved the slot.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from flusso.engine import work
from flusso.engine.work import Destination
from flusso.lsn import Lsn
from flusso.sinks.base import IndexState


@dataclass(slots=True)
class Entry:
    """One index in one sink, with what is remembered of it."""

    destination: Destination
    state: IndexState


@dataclass(slots=True)
class Ledger:
    """All entries; its methods may be called from any thread of the driver."""

    entries: list[Entry]
    position: Lsn = field(default=Lsn(0))
    """Everything up to here is written and recorded."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_seeded(self, index: str) -> bool:
        """Whether every sink has the whole index."""
        return all(entry.state.is_seeded for entry in self._of(index))

    def unseeded(self) -> list[str]:
        """Name the indexes that still need a seed, in order."""
        names = dict.fromkeys(entry.state.index for entry in self.entries)
        return [name for name in names if not self.is_seeded(name)]

    def seeded(self) -> frozenset[str]:
        """Name the indexes that readers see."""
        names = {entry.state.index for entry in self.entries}
        return frozenset(name for name in names if self.is_seeded(name))

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
            index: tuple(entry.destination for entry in self._of(index) if not entry.state.is_seeded)
            for index in self.unseeded()
        }

    def skip_seed(self, index: str, sinks: Collection[str]) -> None:
        """Let readers of these sinks see an index as it is: it gets only what changes from now on."""
        self._publish([entry for entry in self._of(index) if entry.destination.sink.name in sinks], 0)

    def finish_seed(self, index: str, highest_version: int) -> None:
        """Let readers see an index that is now whole, and remember that it is."""
        self._publish(self._of(index), highest_version)

    def _publish(self, entries: Iterable[Entry], highest_version: int) -> None:
        with self._lock:
            for entry in entries:
                if entry.state.is_seeded:
                    continue
                sink = work.sink(entry.destination.sink)
                sink.refresh(entry.destination.target)
                sink.publish(entry.destination.target)
                highest = max(entry.state.highest_version, highest_version)
                entry.state = replace(entry.state, is_seeded=True, highest_version=highest)
                _save(entry)

    def save_all(self) -> None:
        """Write every state as it stands."""
        with self._lock:
            for entry in self.entries:
                _save(entry)

    def _of(self, index: str) -> Iterable[Entry]:
        return [entry for entry in self.entries if entry.state.index == index]


def _save(entry: Entry) -> None:
    if entry.destination.sink.capabilities.keeps_state:
        work.sink(entry.destination.sink).save_state(entry.state)
