"""Seed: fill indexes from their root tables, beside the live stream.

Ranges of about a second, each a Spark job of one task in its own scheduling pool. Fair pools order free
slots and pre-empt nothing, so at most `slots - 1` ranges run at a time: one slot is always free for the
stream. Versions decide between a range and the stream, so no order between them matters.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from flusso.builder.read import BlockRange, plan_ranges
from flusso.engine import tasks
from flusso.engine.batch import collect_reports
from flusso.engine.events import Listener, Retrying, SeedAdvanced, SeedFinished, SeedStarted
from flusso.engine.ledger import Ledger
from flusso.engine.outcome import Totals, settle_reports
from flusso.engine.policy import Patience
from flusso.engine.session import SEED_POOL
from flusso.engine.work import WorkSpec
from flusso.errors import FlussoError
from flusso.lsn import Version
from flusso.postgres.connect import connect


@dataclass(slots=True)
class _Progress:
    ranges: int
    started_s: float
    done: int = 0
    documents: int = 0
    bytes: int = 0
    highest_version: int = 0


@dataclass(slots=True)
class Seeder:
    """Seeds what the ledger says is unseeded; `start` returns at once."""

    spark: SparkSession
    spec: WorkSpec
    ledger: Ledger
    skips: Mapping[str, bool]
    range_mb: float
    parallelism: int
    emit: Callable[[], Version]
    tell: Listener
    patience: Patience = field(default_factory=Patience)
    failure: FlussoError | None = None
    _is_closed: threading.Event = field(default_factory=threading.Event)
    _ranges: queue.Queue[BlockRange] = field(default_factory=queue.Queue)
    _progress: dict[str, _Progress] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Plan the ranges and begin."""
        self._plan()
        for number in range(self.parallelism):
            thread = InheritableThread(target=self._work, name=f"flusso-seed-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

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
        with connect(self.spec.dsn) as conn:
            for index in self.ledger.unseeded():
                ranges = plan_ranges(conn, self.spec.plans[index], self.range_mb)
                self._progress[index] = _Progress(len(ranges), time.monotonic())
                self.tell(SeedStarted(index, len(ranges)))
                for block_range in ranges:
                    self._ranges.put(block_range)

    def _work(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", SEED_POOL)
        try:
            while not self._is_closed.is_set() and self.failure is None:
                block_range = self._ranges.get_nowait()
                self._finish(block_range, self._write(block_range))
        except queue.Empty:
            return
        except FlussoError as error:
            self.failure = error

    def _write(self, block_range: BlockRange) -> Totals:
        attempt = 1
        while True:
            try:
                return self._attempt(block_range)
            except FlussoError as error:
                if not error.retryable or self.patience.is_exhausted(attempt):
                    raise
                self.tell(Retrying(str(error), attempt, self.patience.delay_s(attempt)))
                if self._is_closed.wait(self.patience.delay_s(attempt)):
                    raise
                attempt += 1

    def _attempt(self, block_range: BlockRange) -> Totals:
        frame = self.spark.range(1, numPartitions=1)
        reports = collect_reports(
            frame.mapInArrow(tasks.write_range(self.spec, block_range), tasks.REPORT_DDL)
        )
        return settle_reports(reports, self.spec, self.skips, self.emit)

    def _finish(self, block_range: BlockRange, totals: Totals) -> None:
        index = block_range.index
        with self._lock:
            progress = self._progress[index]
            progress.done += 1
            progress.documents += totals.written + totals.superseded
            progress.bytes += totals.bytes
            progress.highest_version = max(progress.highest_version, totals.highest_version)
            seconds = time.monotonic() - progress.started_s
            self.tell(
                SeedAdvanced(
                    index, progress.done, progress.ranges, progress.documents, progress.bytes, seconds
                )
            )
            is_whole = progress.done == progress.ranges
        if is_whole:
            self.ledger.finish_seed(index, progress.highest_version)
            self.tell(SeedFinished(index, progress.documents, time.monotonic() - progress.started_s))
