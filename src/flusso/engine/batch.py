"""One batch of the live stream: resolve → distinct → spread → build → write, then record.

Spark calls `run` for each micro-batch, one at a time, in a thread of its own. When it returns, Spark may
confirm the batch to the slot; so it returns only after every document is durable or owed, and the position is
recorded in every sink. It raises, and nothing is confirmed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame

from flusso.capture.transactions import Position
from flusso.document import WriteReport
from flusso.engine import tasks, work
from flusso.engine.events import BatchWritten, Listener
from flusso.engine.frames import ID_TYPE, REPORT_TYPE
from flusso.engine.holdup import Holdup
from flusso.engine.ledger import Ledger
from flusso.engine.offsets import Offset, parse_offset_log
from flusso.engine.outage import Outage
from flusso.engine.outcome import Totals, settle_reports
from flusso.engine.quarantine import Quarantine
from flusso.engine.refresh import Refresher
from flusso.engine.retry import as_failure, collect, retrying
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import FlussoError
from flusso.lsn import Lsn, Version

LAST_BATCH_S = 8.0
"""How long the batch in hand may take once a stop is asked for."""
_LOOK_S = 0.5


class Stopping(Exception):
    """A batch was refused because the stream is being stopped; nothing of it was written."""


@dataclass(slots=True)
class BatchRunner:
    """Runs the batches of one query."""

    spec: WorkSpec
    ledger: Ledger
    quarantine: Quarantine
    small_changes: int
    checkpoint: Path
    emit: Callable[[], Version]
    tell: Listener
    outage: Outage
    """Of the whole live stream: a batch that cannot be written is part of it."""
    holdup: Holdup
    refresher: Refresher
    reached: Position = field(default=Position(Lsn(0)))
    """The end of the last batch that was written and recorded."""
    failure: FlussoError | None = None
    """Why the last batch failed: typed, because Spark hands on only text."""
    is_running: threading.Event = field(default_factory=threading.Event)
    """Set once the first batch has been through: from then on changes are written as they come."""
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Held while a batch is in hand; whoever holds it is between two batches."""
    _is_closed: bool = False
    _changes_before: int = 0
    _unchanged_before: int = 0

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch and record its end."""
        with self.gate:
            if self._is_closed:
                raise Stopping
            try:
                self._run(frame, self._end_of(batch_id))
                self.is_running.set()
            except Exception as error:
                self.failure = as_failure(error, "a batch")
                raise

    def close(self) -> bool:
        """Take no more, and wait for the batch in hand: a query that is stopped in its middle throws it away.

        Who was asked to stop does not wait for ever, as for a server that hangs: False, and the batch is lost
        to this process. Nothing of it is confirmed.
        """
        self._is_closed, stopping_s = True, None
        while not self.gate.acquire(timeout=_LOOK_S):
            if self.outage.stop.is_set():
                stopping_s = stopping_s or time.monotonic()
                if time.monotonic() - stopping_s >= LAST_BATCH_S:
                    return False
        self.gate.release()
        return True

    def _run(self, frame: DataFrame, end: Offset) -> None:
        started_s = time.monotonic()
        self.holdup.hear(end.held)
        changes = end.changes - self._changes_before
        unchanged = end.unchanged - self._unchanged_before
        totals = self._write(frame, changes, end) if changes else Totals()
        for owed in totals.owed:
            self.ledger.owe([owed.index], owed.scope, owed.reason, end.position.lsn, reach=owed.reach)
        self.ledger.record(end.position.lsn, totals.highest_version)
        self._changes_before, self._unchanged_before = end.changes, end.unchanged
        self.reached = end.position
        if changes or unchanged:
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
                    unchanged,
                )
            )

    def _write(self, frame: DataFrame, changes: int, end: Offset) -> Totals:
        """Write the batch's documents, again and again while what fails may heal."""
        served = self.ledger.serving()
        refresh = self.refresher.choose(served, is_behind=end.is_behind)
        self.ledger.make_room(changes)
        spec = self.ledger.narrow(replace(self.spec, quarantines=self.quarantine.holders))

        def attempt() -> Totals:
            parts = (self._reports(frame, changes, part, refresh) for part in self.ledger.passes(spec))
            reports = [report for part in parts for report in part]
            return settle_reports(reports, spec, self.quarantine, self.emit)

        totals = retrying(attempt, self.outage)
        self.refresher.note(served, refresh, is_behind=end.is_behind)
        return totals

    def _reports(
        self, frame: DataFrame, changes: int, spec: WorkSpec, refresh: frozenset[Destination]
    ) -> list[WriteReport]:
        if changes <= self.small_changes:
            small = replace(spec, refreshes=refresh)
            reports = collect(frame.mapInArrow(tasks.process_changes(small), REPORT_TYPE))
            if not any(report.is_overflow for report in reports):
                return reports
        reports = run_spread(frame, spec)
        written = {each for found in spec.destinations.values() for each in found}
        for destination in refresh & written:
            work.sink(destination.sink).refresh(destination.target)
        return reports

    def _end_of(self, batch_id: int) -> Offset:
        return parse_offset_log((self.checkpoint / "offsets" / str(batch_id)).read_text())


def run_spread(changes: DataFrame, spec: WorkSpec) -> list[WriteReport]:
    """Resolve changes, make the ids distinct, spread them over all executors, build and write."""
    ids = changes.mapInArrow(tasks.resolve_changes(spec), ID_TYPE).distinct()
    return collect(ids.mapInArrow(tasks.write_documents(spec), REPORT_TYPE))
