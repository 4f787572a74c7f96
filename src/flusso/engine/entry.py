"""One generation of an index in one sink that is being written, and how its state gets there.

The ledger (`engine/ledger.py`) keeps all of them in step; seeds, debts and the switch of readers work on one.
Driver only. A state is changed and saved under the ledger's lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flusso.engine import work
from flusso.engine.work import Destination
from flusso.sinks.base import IndexState


@dataclass(slots=True)
class Entry:
    """One generation of an index in one sink that is being written, with what is remembered of it."""

    destination: Destination
    state: IndexState
    is_partial: bool = False
    """Whether this sink takes only what changes: rows that it never saw are not missing."""
    is_settling: bool = False
    """Whether the last range or turn has ended, so that a look-up finds whatever they wrote."""
    room: int = 0
    """How many more tokens may be remembered for it before they are counted again."""
    plan: str = ""
    """The plan that builds its documents; empty for the declared one, which has the name of the index."""
    keeps: int = 0
    """How many generations that readers saw before are kept when they come to see this one."""

    @property
    def plan_name(self) -> str:
        """What the plan is called wherever documents are resolved and built."""
        return self.plan or self.state.index

    @property
    def has_been_read(self) -> bool:
        """Whether readers see it, or saw it before."""
        return self.state.serves or self.state.is_kept

    @property
    def is_waiting(self) -> bool:
        """Whether it is whole and readers do not see it yet."""
        return self.state.is_seeded and not self.has_been_read

    @property
    def remembers(self) -> bool:
        """Whether batches remember their tokens: documents are written beside them, and some are not due."""
        is_written_beside = bool(self.state.debts) or not self.state.is_seeded
        keeps_references = self.destination.target.keeps_references
        return keeps_references and is_written_beside and not (self.is_settling or self.state.is_all_due)

    def end_marks(self) -> None:
        """Let removals leave no more marks, from the next batch on."""
        target = replace(self.destination.target, keeps_removals=False)
        self.destination = replace(self.destination, target=target)


def save(entry: Entry) -> None:
    """Write the state as it stands, where the sink keeps any."""
    if entry.destination.sink.capabilities.keeps_state:
        work.sink(entry.destination.sink).save_state(entry.state)


def save_due(entry: Entry, *, is_all: bool) -> None:
    """Write whether all that is held is due, then take it for true.

    Only what the sink remembers counts: the batch that relies on it may be the last of this process.
    """
    state = replace(entry.state, is_all_due=is_all)
    work.sink(entry.destination.sink).save_state(state)
    entry.state = state
