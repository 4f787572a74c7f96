"""Turns: short Spark jobs beside the live stream, for whoever seeds and whoever pays debts.

Both take their slots from one room and run in one scheduling pool. Fair pools order free slots and pre-empt
nothing, so the room is smaller than the number of slots: one is always free for the stream.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from flusso.document import WriteReport
from flusso.engine.events import Listener
from flusso.engine.frames import REPORT_TYPE
from flusso.engine.outage import Outage
from flusso.engine.outcome import Totals, settle_reports
from flusso.engine.policy import Patience
from flusso.engine.quarantine import Quarantine
from flusso.engine.retry import as_typed, collect
from flusso.engine.room import Room
from flusso.engine.session import SEED_POOL, SPARK_ERRORS
from flusso.engine.tasks import Batches
from flusso.engine.work import WorkSpec
from flusso.lsn import Version

_groups = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Turns:
    """Where turns run, and what they have in common. Used from any thread."""

    spark: SparkSession
    quarantine: Quarantine
    range_mb: float
    parallelism: int
    """How many slots one of them may have at a time."""
    emit: Callable[[], Version]
    tell: Listener
    room: Room
    """The slots that all of them together may have."""
    patience: Patience = field(default_factory=Patience)
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Held by a batch while it is in hand; whoever holds it is between two batches."""
    group: str = field(default_factory=lambda: f"flusso-turns-{next(_groups)}")
    """What Spark knows all their jobs by."""

    def outage(self, stop: threading.Event) -> Outage:
        """Give one for something that goes on trying until it is stopped."""
        return Outage(self.patience, self.tell, stop)

    def start(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Start a thread whose jobs are turns."""

        def run() -> None:
            self.join()
            target()

        thread = InheritableThread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def join(self) -> None:
        """Let the jobs of the calling thread be turns."""
        context = self.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", SEED_POOL)
        context.setJobGroup(self.group, "turns beside the stream", interruptOnCancel=True)

    def end(self) -> None:
        """Let no turn begin any more, and end those under way, with the processes that they hang in.

        The next pipeline has a room of its own, which knows nothing of a slot that is still taken.
        """
        with suppress(*SPARK_ERRORS):  # its JVM is gone, and they with it
            self.spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self.group)

    @contextmanager
    def slots(self, most: int) -> Iterator[int]:
        """Take at least one slot, and more of those that are free."""
        taken = self.room.take(most)
        try:
            yield taken
        finally:
            self.room.give(taken)

    def run(self, task: Callable[[Batches], Batches], count: int) -> list[Any]:
        """Run a task so many times side by side, each with its number; give what they report."""
        return self.plan(task, count)()

    def plan(self, task: Callable[[Batches], Batches], count: int) -> Callable[[], list[Any]]:
        """Make such a job ready, and give what runs it: Spark thinks it out before there is a slot for it."""
        try:
            frame = self.spark.range(count, numPartitions=count).mapInArrow(task, REPORT_TYPE)
            frame._jdf.queryExecution().executedPlan()
        except Exception as error:
            raise as_typed(error) from error
        return partial(collect, frame)

    def settle(self, reports: Sequence[WriteReport], spec: WorkSpec) -> Totals:
        """Act on reports; on return all they speak of is durable, quarantined by policy, or superseded."""
        return settle_reports(reports, spec, self.quarantine, self.emit)
