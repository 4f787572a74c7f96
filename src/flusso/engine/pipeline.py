"""The pipeline: provision, follow for ever with the seed beside, stop in order.

`run_pipeline` is what the command line calls. It returns when it was asked to stop or, with `is_once`,
when all is seeded and caught up; it raises the typed error that ended it otherwise.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import InheritableThread

from flusso.capture.slot import advance_slot, await_release
from flusso.capture.stream import CaptureSpec
from flusso.engine import tasks, work
from flusso.engine.batch import BatchRunner, run_spread
from flusso.engine.events import CaughtUp, Following, Listener, Retrying, Stopped
from flusso.engine.frames import CHANGES_TYPE
from flusso.engine.policy import Patience
from flusso.engine.provision import Prepared, prepare
from flusso.engine.retry import as_typed
from flusso.engine.seed import Seeder
from flusso.engine.session import LIVE_POOL, Session, open_session
from flusso.engine.source import FORMAT, SECRET_OPTION, SourceSpec
from flusso.engine.spec import PipelineSpec
from flusso.errors import EngineError, FlussoError, SourceWorkerLost, TaskLost
from flusso.lsn import Version
from flusso.postgres.connect import Connection, connect
from flusso.postgres.version import emit_version

_LOOK_S = 0.1
_PIECE_CHANGES = 10_000
_HEARTBEAT_S = 40.0
_RELEASE_S = 10.0
_TURN_END_S = 5.0
_checkpoints = itertools.count(1)


def run_pipeline(
    spec: PipelineSpec, tell: Listener, stop: threading.Event, *, session: Session | None = None
) -> None:
    """Run one deployment until it is stopped, done or broken."""
    prepared = prepare(spec, tell, stop)
    if prepared is None:
        return
    own = session is None
    session = session or open_session(spec.spark)
    try:
        Pipeline(spec, prepared, session, tell, stop).run()
    finally:
        if own:
            session.close()


@dataclass(slots=True)
class _Clock:
    """Emits versions for the driver, from any of its threads."""

    spec: PipelineSpec
    _conn: Connection | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def emit(self) -> Version:
        with self._lock:
            if self._conn is None or self._conn.closed or self._conn.broken:
                self._conn = connect(self.spec.dsn)
            return emit_version(self._conn)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()


@dataclass(slots=True)
class Pipeline:
    """The running thing: one live query at a time, one seeder, one heartbeat."""

    spec: PipelineSpec
    prepared: Prepared
    session: Session
    tell: Listener
    stop: threading.Event
    patience: Patience = field(default_factory=lambda: Patience(attempts=8, first_delay_s=0.5))
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Follow, and seed beside it, until the end."""
        clock = _Clock(self.spec)
        seeder = self._make_seeder(clock)
        try:
            self._configure()
            self._start_heartbeat()
            self._follow(clock, seeder)
        finally:
            self._ended.set()
            if self.session.is_alive():
                seeder.close(_TURN_END_S)
            clock.close()
            work.forget()
        self._settle()

    def _configure(self) -> None:
        parallelism = min(self.session.slots * 2, self.spec.spark.max_tasks)
        self.session.spark.conf.set("spark.sql.shuffle.partitions", str(parallelism))

    def _follow(self, clock: _Clock, seeder: Seeder) -> None:
        """Keep a query running; a new one, on a new scratch checkpoint, replaces one that failed."""
        attempt = 0
        while True:
            progress = self.prepared.ledger.position
            runner = self._make_runner(clock)
            query = self._start_query(runner)
            try:
                self._watch(query, runner, seeder)
                return
            except FlussoError as error:
                attempt = 1 if self.prepared.ledger.position > progress else attempt + 1
                if not error.retryable or self.patience.is_exhausted(attempt) or self.stop.is_set():
                    raise
                self.tell(Retrying(str(error), attempt, self.patience.delay_s(attempt)))
                self.stop.wait(self.patience.delay_s(attempt))
            finally:
                self._end_query(query, runner)

    def _watch(self, query: Any, runner: BatchRunner, seeder: Seeder) -> None:
        """Return when all is done or a stop is asked for; raise what went wrong."""
        while not self.stop.is_set():
            if seeder.failure is not None:
                raise seeder.failure
            if not self._is_active(query):
                raise self._why(query, runner)
            if runner.is_running.is_set():
                # Not before: starting both at once makes the first changes wait for seconds.
                seeder.start()
            if self.spec.is_once and self._is_done(seeder):
                self.tell(CaughtUp(self.prepared.target))
                return
            self.stop.wait(_LOOK_S)

    def _is_active(self, query: Any) -> bool:
        try:
            return bool(query.isActive)
        except Exception as error:
            if not self.session.is_alive():
                raise EngineError("the Spark JVM died", hint="start flusso again: nothing is lost") from error
            raise EngineError(f"Spark does not answer: {type(error).__name__}") from error

    def _is_done(self, seeder: Seeder) -> bool:
        ledger = self.prepared.ledger
        return not seeder.is_running() and not ledger.unseeded() and ledger.position >= self.prepared.target

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
        """End the query after the batch in hand."""
        if self.session.is_alive():
            runner.close()
            with contextlib.suppress(Exception):
                query.stop()

    def _settle(self) -> None:
        """Leave the slot at the last recorded position, with nobody on it."""
        with connect(self.spec.dsn) as conn:
            await_release(conn, self.spec.slot, _RELEASE_S)
            advance_slot(conn, self.spec.slot, self.prepared.ledger.position)
        self.tell(Stopped(self.prepared.ledger.position))

    def _make_seeder(self, clock: _Clock) -> Seeder:
        free = max(1, self.session.slots - 1)
        return Seeder(
            self.session.spark,
            replace(self.prepared.work, destinations=self.prepared.ledger.unseeded_destinations()),
            self.prepared.ledger,
            self.spec.skips,
            self.spec.batch.seed_range_mb,
            min(free, self.spec.batch.seed_parallelism or free),
            clock.emit,
            self.tell,
        )

    def _make_runner(self, clock: _Clock) -> BatchRunner:
        return BatchRunner(
            self.prepared.work,
            self.prepared.ledger,
            self.spec.skips,
            self.spec.batch.small_changes,
            self.session.scratch / f"checkpoint-{next(_checkpoints)}",
            self.stop,
            clock.emit,
            self.tell,
        )

    def _start_query(self, runner: BatchRunner) -> Any:
        batch = self.spec.batch
        source = SourceSpec(
            CaptureSpec(
                self.spec.dsn,
                self.spec.slot,
                self.spec.publication,
                self.prepared.watched,
                piece_changes=min(_PIECE_CHANGES, batch.max_changes),
            ),
            batch.max_changes,
            batch.max_bytes,
            batch.small_changes,
            self.session.slots,
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

    def _start_heartbeat(self) -> None:
        """Run a batch of nothing now and then, the first one at once.

        Python workers die after a minute of idleness, and the next change would wait for new ones. What the
        JVM loads and compiles for a large batch is there when the first one comes.
        """
        InheritableThread(target=self._beat, name="flusso-heartbeat", daemon=True).start()

    def _beat(self) -> None:
        spark, nothing = self.session.spark, tasks.no_changes(self.prepared.work)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", LIVE_POOL)
        while True:
            with contextlib.suppress(Exception):
                start = spark.range(self.session.slots, numPartitions=self.session.slots)
                run_spread(start.mapInArrow(nothing, CHANGES_TYPE), self.prepared.work)
            if self._ended.wait(_HEARTBEAT_S):
                return
