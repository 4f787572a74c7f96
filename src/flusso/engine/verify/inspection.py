"""Verify a generation before readers see it: beside the stream, by the looks of `flusso verify --repair`.

Called by the switcher for what is ready otherwise, in its thread; its tasks are turns like those of a seed.
What differs is written anew. What differs still keeps readers where they are, and ends the run: they see the
former generation for as long as nobody says what to do.
"""

from __future__ import annotations

import textwrap
import threading
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from flusso.builder.plan import without_partitions
from flusso.engine.entry import Entry
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.tasks import Batches
from flusso.engine.turns import Turns
from flusso.engine.verify.facts import Tally
from flusso.engine.verify.looks import VerifyTask
from flusso.engine.verify.verifier import IndexVerifier, Interrupted, Task
from flusso.engine.work import WorkSpec
from flusso.errors import IndexUnready

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Inspection:
    """Looks at generations that are about to be read."""

    spec: PipelineSpec
    work: WorkSpec
    turns: Turns
    stop: threading.Event

    def is_passed(self, entry: Entry) -> bool:
        """Compare a generation with its tables where that is wanted.

        False: it was stopped before the end, or the stream has yet to write what does not agree. Ask again.
        Raises `IndexUnready` when documents differ that a repair does not mend and no policy lets pass.
        """
        index = self._find(entry)
        if index is None or not index.verifies or not entry.destination.sink.capabilities.keeps_state:
            return True
        verifier = self._verifier(index, entry)
        try:
            verifier.verify()
        except Interrupted:
            return False
        tally = verifier.tallies[entry.destination.sink.name]
        self._refuse_different(entry, tally)
        return not tally.unproven

    def _find(self, entry: Entry) -> IndexSpec | None:
        """Find what is declared; of a schema that is declared no more, readers have seen it before."""
        found = (index for index in self.spec.indexes if index.name == entry.state.index)
        return None if entry.plan else next(found, None)

    def _verifier(self, index: IndexSpec, entry: Entry) -> IndexVerifier:
        plan = without_partitions(self.work.plans[index.name])
        looked_at = replace(
            self.work, plans={index.name: plan}, destinations={index.name: (entry.destination,)}
        )
        return IndexVerifier(
            self._run,
            VerifyTask(looked_at, index.name, index.not_backfilled),
            self.turns.parallelism,
            self.turns.range_mb,
            True,
            self.spec.skips,
            self.turns.patience,
            self.turns.tell,
            self.stop,
        )

    def _run(self, task: Task, count: int) -> list[Any]:
        """Run so many as there are slots for at a time: what is left is the stream's."""
        self.turns.join()
        found: list[Any] = []
        while len(found) < count:
            with self.turns.slots(count - len(found)) as slots:
                found += self.turns.run(_later(task, len(found)), slots)
        return found

    def _refuse_different(self, entry: Entry, tally: Tally) -> None:
        """What the policy has put into quarantine is no reason to wait."""
        sink, state = entry.destination.sink, entry.state
        left = tally.counts.total() - tally.quarantined
        if left:
            what = f'generation {state.generation} of index "{state.index}" in sink "{sink.name}"'
            shown = textwrap.shorten(", ".join(tally.others), _SHOWN)
            raise IndexUnready(
                f"{what} differs from its tables in {left} documents ({shown}): readers do not move to it",
                hint=f"run flusso reindex {state.index}, or set verify_before_switch = false",
            )


def _later(task: Task, first: int) -> Task:
    """Let a task count from a number on."""

    def run(batches: Batches) -> Batches:
        return task(batch.set_column(0, "id", pc.add(batch.column(0), first)) for batch in batches)

    return run
