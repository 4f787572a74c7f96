"""One batch of the live stream: resolve → distinct → spread → build → write, then record.

Spark calls `run` for each micro-batch, one at a time, in a thread of its own. When it returns, Spark may
confirm the batch to the slot; so it returns only after every document is durable and the position is
recorded in every sink. It raises, and nothing is confirmed.
"""

from __future__ import annotations

import pickle
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from flusso.document import WriteReport
from flusso.engine import tasks, work
from flusso.engine.events import BatchWritten, Listener, Retrying
from flusso.engine.ledger import Ledger
from flusso.engine.offsets import Offset, parse_offset_log
from flusso.engine.outcome import Totals, settle_reports
from flusso.engine.policy import Patience
from flusso.engine.work import WorkSpec
from flusso.errors import EngineError, FlussoError, TaskLost, from_text
from flusso.lsn import Version

_REFRESH_AT_LEAST_EVERY_S = 1.0
_CAUSE = re.compile(r"(Caused by: )?[\w.]*(Error|Exception|Lost)\b.*")


class Stopping(Exception):
    """A batch was refused because the stream is being stopped; nothing of it was written."""


@dataclass(slots=True)
class BatchRunner:
    """Runs the batches of one query."""

    spec: WorkSpec
    ledger: Ledger
    skips: Mapping[str, bool]
    small_changes: int
    checkpoint: Path
    stop: threading.Event
    emit: Callable[[], Version]
    tell: Listener
    patience: Patience = field(default_factory=Patience)
    failure: FlussoError | None = None
    """Why the last batch failed: typed, because Spark hands on only text."""
    _at_work: threading.Lock = field(default_factory=threading.Lock)
    _is_closed: bool = False
    _changes_before: int = 0
    _refreshed_s: float = 0.0

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch and record its end."""
        with self._at_work:
            if self._is_closed:
                raise Stopping
            try:
                self._run(frame, self._end_of(batch_id))
            except FlussoError as error:
                self.failure = error
                raise
            except Exception as error:
                self.failure = EngineError(f"a batch failed: {type(error).__name__}: {error}")
                raise

    def close(self) -> None:
        """Wait for the batch in hand and take no more: a query that is stopped in the middle of a batch
        throws it away."""
        with self._at_work:
            self._is_closed = True

    def _run(self, frame: DataFrame, end: Offset) -> None:
        started_s = time.monotonic()
        changes = end.changes - self._changes_before
        totals = self._write(frame, changes, end) if changes else Totals()
        self.ledger.record(end.position.lsn, totals.highest_version)
        self._changes_before = end.changes
        if changes:
            seconds = time.monotonic() - started_s
            self.tell(
                BatchWritten(
                    changes,
                    totals.written,
                    totals.removed,
                    totals.superseded,
                    totals.refused,
                    seconds,
                    end.position.lsn,
                )
            )

    def _write(self, frame: DataFrame, changes: int, end: Offset) -> Totals:
        """Write the batch's documents, again and again while what fails may heal."""
        refresh = self._wants_refresh(end)
        attempt = 1
        while True:
            try:
                reports = self._reports(frame, changes, refresh)
                totals = settle_reports(reports, self.spec, self.skips, self.emit)
                break
            except FlussoError as error:
                if not error.retryable or self.patience.is_exhausted(attempt):
                    raise
                self.tell(Retrying(str(error), attempt, self.patience.delay_s(attempt)))
                if self.stop.wait(self.patience.delay_s(attempt)):
                    raise
                attempt += 1
        if refresh:
            self._refreshed_s = time.monotonic()
        return totals

    def _reports(self, frame: DataFrame, changes: int, refresh: frozenset[str]) -> list[WriteReport]:
        if changes <= self.small_changes:
            spec = replace(self.spec, refreshes=refresh)
            reports = collect_reports(frame.mapInArrow(tasks.process_changes(spec), tasks.REPORT_DDL))
            if not any(report.is_overflow for report in reports):
                return reports
        ids = frame.mapInArrow(tasks.resolve_changes(self.spec), tasks.ID_DDL).distinct()
        reports = collect_reports(ids.mapInArrow(tasks.write_documents(self.spec), tasks.REPORT_DDL))
        self._refresh(refresh)
        return reports

    def _refresh(self, indexes: frozenset[str]) -> None:
        for index in indexes:
            for destination in self.spec.destinations[index]:
                work.sink(destination.sink).refresh(destination.target)

    def _wants_refresh(self, end: Offset) -> frozenset[str]:
        """Ask for searchability when caught up, and now and then when not."""
        waited_s = time.monotonic() - self._refreshed_s
        if end.is_behind and waited_s < _REFRESH_AT_LEAST_EVERY_S:
            return frozenset()
        return self.ledger.seeded()

    def _end_of(self, batch_id: int) -> Offset:
        return parse_offset_log((self.checkpoint / "offsets" / str(batch_id)).read_text())


def collect_reports(frame: DataFrame) -> list[WriteReport]:
    """Run the tasks of a frame and gather what they report."""
    try:
        rows: list[Any] = frame.collect()
    except Exception as error:
        raise as_typed(error) from error
    return [pickle.loads(row.report) for row in rows]


def as_typed(error: Exception) -> FlussoError:
    """Find the typed error in what Spark raised; without one, a process was lost on the way."""
    text = str(error)
    causes = [line.strip() for line in text.splitlines() if _CAUSE.match(line.strip())]
    return from_text(text) or TaskLost(f"Spark lost a task: {causes[-1] if causes else type(error).__name__}")
