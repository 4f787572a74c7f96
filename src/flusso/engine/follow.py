"""Keep the live query running: start it, watch it, and replace one that failed by a new one.

The heart of the pipeline. A query that fails is never mended: the next one, on a new scratch checkpoint,
begins where the slot stands, so whatever was written but not confirmed is written once more. While the
server does not answer no query is started at all.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from flusso.capture.stream import CaptureSpec
from flusso.capture.transactions import Position
from flusso.engine.batch import BatchRunner
from flusso.engine.debts import Payer
from flusso.engine.events import CaughtUp, Following, Listener, LookingAgain
from flusso.engine.holdup import Holdup
from flusso.engine.limits import limit_tasks
from flusso.engine.lookout import Lookout
from flusso.engine.outage import Outage
from flusso.engine.policy import may_be_outdated
from flusso.engine.provision import Prepared, renew
from flusso.engine.refresh import Refresher
from flusso.engine.retry import as_typed
from flusso.engine.seed import Seeder
from flusso.engine.session import LIVE_POOL, Session
from flusso.engine.source import FORMAT, SECRET_OPTION
from flusso.engine.source_reader import SourceSpec
from flusso.engine.spec import PipelineSpec
from flusso.engine.switch import Switcher
from flusso.errors import CatalogOutdated, EngineError, FlussoError, SourceError, SourceWorkerLost, TaskLost
from flusso.lsn import Lsn, Version
from flusso.postgres.connect import connect

_LOOK_S = 0.1
_QUERY_END_S = 5.0
_PIECE_CHANGES = 10_000
_STEADY_S = 60.0
"""So long without a failure counts as progress, as on an idle server there is none."""
_checkpoints = itertools.count(1)


@dataclass(slots=True)
class Follower:
    """One live query at a time, from the first start to the end that was asked for."""

    spec: PipelineSpec
    prepared: Prepared
    session: Session
    seeder: Seeder
    payer: Payer
    lookout: Lookout
    switcher: Switcher
    emit: Callable[[], Version]
    tell: Listener
    stop: threading.Event
    gave_up: bool = False
    """Whether a stop did not wait for the batch in hand to end."""
    _reached: Position = field(default=Position(Lsn(0)))
    """How far the queries that failed had come."""
    _outage: Outage = field(init=False)
    _holdup: Holdup = field(init=False)
    _refresher: Refresher = field(default_factory=Refresher)

    def __post_init__(self) -> None:
        note = self.prepared.ledger.note_waiting
        self._outage = Outage(self.spec.patience, self.tell, self.stop, note)
        self._holdup = Holdup(self.spec.dsn, self.tell, note)

    def run(self) -> None:
        """Keep a query running until all is done or a stop is asked for; raise what does not heal."""
        try:
            self._run()
        finally:
            self._refresher.close()

    def _run(self) -> None:
        self.prepared.ledger.note_waiting("", 0.0)  # of a process that ended while it waited
        while (failure := self._follow()) is not None:
            outdated = self._find_outdated(failure)
            if outdated is not None:
                self._renew(outdated)
                continue
            if failure in (
                self.seeder.failure,
                self.payer.failure,
                self.switcher.failure,
            ):  # which have been patient themselves
                raise failure
            if not (self._outage.wait(failure) and self._await_source()):
                return

    def _follow(self) -> FlussoError | None:
        """Run one query, on a new scratch checkpoint, to its end; give what made it fail."""
        runner = self._make_runner()
        with self.session.asking():
            query = self._start_query(runner)
        try:
            self._watch(query, runner)
        except FlussoError as error:
            self._reached = max(self._reached, runner.reached)
            return error
        finally:
            self._end_query(query, runner)
        return None

    def _await_source(self) -> bool:
        """Wait until the server answers, as a query started in vain costs seconds; False on a stop."""
        while True:
            try:
                connect(self.spec.dsn).close()
                return True
            except FlussoError as error:
                if not self._outage.wait(error):
                    return False

    def _find_outdated(self, error: FlussoError) -> SourceError | None:
        """Say whether tables that are no longer as they were are behind an error."""
        if isinstance(error, CatalogOutdated):
            return error
        return self.lookout.look() if may_be_outdated(error) else None

    def _renew(self, outdated: SourceError) -> None:
        """Go on with the tables as they are now; raise when that takes more than a new query."""
        if not isinstance(outdated, CatalogOutdated) or self.seeder.failure is not None:
            raise outdated
        self.tell(LookingAgain(outdated.message))
        while True:
            try:
                renewed = renew(self.spec, self.prepared, self.tell, self.stop)
                break
            except FlussoError as error:
                if not self._outage.wait(error):
                    return
        if renewed is None:
            raise outdated
        self.prepared = renewed
        self.lookout.expect(renewed)

    def _watch(self, query: Any, runner: BatchRunner) -> None:
        """Return when all is done or a stop is asked for; raise what went wrong."""
        while not self.stop.is_set():
            if failure := self._failure_beside():
                raise failure
            if not self._is_active(query):
                raise self._why(query, runner)
            if runner.is_running.is_set():
                # Not before: starting both at once makes the first changes wait for seconds.
                self.seeder.start()
                self.payer.start()
                self.lookout.start()
                self.switcher.start()
            if self._outage.is_on and self._has_recovered(runner):
                self._outage.end()
            if self.spec.is_once and self._is_done():
                self.tell(CaughtUp(self.prepared.target))
                return
            self.stop.wait(_LOOK_S)

    def _has_recovered(self, runner: BatchRunner) -> bool:
        """Not with the first batch already: a replay may succeed again and again up to where it fails."""
        is_running = runner.is_running.is_set() and self._holdup.held is None
        return is_running and (runner.reached > self._reached or self._outage.is_quiet(_STEADY_S))

    def _failure_beside(self) -> FlussoError | None:
        """Give what went wrong beside the query."""
        beside = (self.seeder, self.payer, self.lookout, self.switcher)
        return next((each.failure for each in beside if each.failure is not None), None)

    def _is_active(self, query: Any) -> bool:
        try:
            return bool(query.isActive)
        except Exception as error:
            raise self.session.why(error) from error

    def _is_done(self) -> bool:
        ledger = self.prepared.ledger
        is_built = not self.seeder.is_running() and not ledger.unseeded() and not ledger.owing()
        return is_built and not ledger.waiting() and ledger.position >= self.prepared.target

    def _why(self, query: Any, runner: BatchRunner) -> FlussoError:
        if runner.failure is not None:
            return runner.failure
        error = query.exception()
        if error is None:
            return EngineError("the Spark query ended by itself")
        found = as_typed(error)
        return (
            SourceWorkerLost("the process that reads the WAL was lost")
            if isinstance(found, TaskLost)
            else found
        )

    def _end_query(self, query: Any, runner: BatchRunner) -> None:
        """End the query after the batch in hand, or in its middle if that takes too long."""
        if not self.session.is_alive():
            return
        self.gave_up = not runner.close()
        stopping = threading.Thread(target=_stop_quietly, args=(query,), daemon=True)
        stopping.start()
        stopping.join(_QUERY_END_S)
        while stopping.is_alive() and not self.stop.is_set():
            stopping.join(_QUERY_END_S)
        self.gave_up = self.gave_up or stopping.is_alive()

    def _make_runner(self) -> BatchRunner:
        return BatchRunner(
            self.prepared.work,
            self.prepared.ledger,
            self.prepared.quarantine,
            self.spec.batch.small_changes,
            self.session.scratch / f"checkpoint-{next(_checkpoints)}",
            self.emit,
            self.tell,
            self._outage,
            self._holdup,
            self._refresher,
            gate=self.switcher.gate,
        )

    def _start_query(self, runner: BatchRunner) -> Any:
        batch = self.spec.sizes
        source = SourceSpec(
            CaptureSpec(
                self.spec.dsn,
                self.spec.slot,
                self.spec.publication,
                self.prepared.watched,
                piece_changes=min(_PIECE_CHANGES, batch.max_changes),
                known=replace(self.prepared.lineage, lsn=self.prepared.ledger.position),
            ),
            batch.max_changes,
            batch.max_bytes,
            batch.small_changes,
            min(self.session.slots, limit_tasks(self.session.slots, self.spec.spark.max_tasks).live),
            confirm_after_s=batch.confirm_after_s,
            tick_s=batch.tick_s,
            hurry_to=self.prepared.target if self.spec.is_once else None,
        )
        spark = self.session.spark
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", LIVE_POOL)
        changes = spark.readStream.format(FORMAT).option(SECRET_OPTION, source.to_option()).load()
        query = (
            changes.writeStream.foreachBatch(runner.run)
            .trigger(processingTime=f"{self.spec.batch.delay_ms} milliseconds")
            .option("checkpointLocation", runner.checkpoint.as_uri())
            .start()
        )
        self.tell(Following(self.spec.slot, self.prepared.ledger.position))
        return query


def _stop_quietly(query: Any) -> None:
    with contextlib.suppress(Exception):
        query.stop()
