"""The pipeline: provision, follow for ever with the seed beside, stop in order.

`run_pipeline` is what the command line calls. It returns when it was asked to stop or, with `is_once`,
when all is seeded and caught up; it raises the typed error that ended it otherwise.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field, replace

from pyspark import InheritableThread

from flusso.capture.slot import advance_slot, await_release
from flusso.engine import tasks, work
from flusso.engine.batch import run_spread
from flusso.engine.debts import Payer
from flusso.engine.events import Listener, Stopped
from flusso.engine.follow import Follower
from flusso.engine.limits import TaskLimits, limit_tasks
from flusso.engine.lookout import Lookout
from flusso.engine.outage import Outage
from flusso.engine.policy import is_mended_by_reseed, needs_new_look
from flusso.engine.provision import Prepared, prepare
from flusso.engine.room import Room
from flusso.engine.seed import Seeder
from flusso.engine.session import LIVE_POOL, Session, open_session
from flusso.engine.source import CHANGES_TYPE
from flusso.engine.spec import PipelineSpec
from flusso.engine.switch import Switcher
from flusso.engine.tenure import Tenure
from flusso.engine.turns import Turns
from flusso.engine.verify.inspection import Inspection
from flusso.errors import FlussoError, SourceUnavailable
from flusso.lsn import Version
from flusso.postgres.connect import Connection, connect, is_dead
from flusso.postgres.version import emit_version

_HEARTBEAT_S = 40.0
_RELEASE_S = 10.0
_TURN_END_S = 5.0
_SWITCH_END_S = 60.0


def run_pipeline(
    spec: PipelineSpec, tell: Listener, stop: threading.Event, *, session: Session | None = None
) -> None:
    """Run one deployment until it is stopped, done or broken."""
    own = session is None
    try:
        with Tenure(spec) as tenure:
            prepared = _await_prepared(spec, tell, stop, tenure)
            while prepared is not None:
                session = session or open_session(spec.spark)
                if stop.is_set():  # while Spark started
                    return
                tenure.flow()
                try:
                    within = _within_limits(spec, prepared, session)
                    Pipeline(spec, within, session, tell, stop, tenure).run()
                    return
                except FlussoError as error:
                    anew, ended = _begins_again(error, spec, prepared, stop, tenure), error
                prepared = _await_prepared(spec, tell, stop, tenure, anew, ended)
    finally:
        if own and session is not None:
            session.close()


def _within_limits(spec: PipelineSpec, prepared: Prepared, session: Session) -> Prepared:
    keeps = limit_tasks(session.slots, spec.spark.max_tasks).keeps_connections
    return replace(prepared, work=replace(prepared.work, keeps_connections=keeps))


def _begins_again(
    error: FlussoError, spec: PipelineSpec, prepared: Prepared, stop: threading.Event, tenure: Tenure
) -> FlussoError | None:
    """Say why every index is filled anew, if so; raise the error if it is the end.

    Who was replaced meets it in many ways, as a generation that is gone or a slot that moved on, and ends:
    it would take everything back from the other as soon as that lets go of the slot for a moment. A reseed
    that loses its slot before it is whole does not begin again: it would go on for ever.
    """
    if stop.is_set():
        raise error
    if needs_new_look(error):
        if taken := tenure.look():
            raise taken from error
        return None
    if spec.reseeds and is_mended_by_reseed(error) and not prepared.ledger.unseeded():
        return error
    raise error


def _await_prepared(
    spec: PipelineSpec,
    tell: Listener,
    stop: threading.Event,
    tenure: Tenure | None = None,
    anew: FlussoError | None = None,
    ended: FlussoError | None = None,
) -> Prepared | None:
    """Prepare, again while the source or a sink is not up yet; None when stopped. After what has `ended` a
    pipeline it is told that this is over, too: its follower cannot say it any more."""
    outage = Outage(spec.patience, tell, stop)
    if ended is not None:
        outage.begin(ended)
    while True:
        try:
            prepared = prepare(spec, tell, stop, anew=anew, tenure=tenure)
            outage.end()
            return prepared
        except FlussoError as error:
            if not outage.wait(error):
                return None


@dataclass(slots=True)
class _Clock:
    """Emits versions for the driver, from any of its threads."""

    spec: PipelineSpec
    _conn: Connection | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def emit(self) -> Version:
        with self._lock:
            if self._conn is None or is_dead(self._conn):
                self._conn = connect(self.spec.dsn)
            return emit_version(self._conn)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()


@dataclass(slots=True)
class Pipeline:
    """The running thing: a follower, a seeder beside it, a heartbeat."""

    spec: PipelineSpec
    prepared: Prepared
    session: Session
    tell: Listener
    stop: threading.Event
    tenure: Tenure
    gave_up: bool = False
    """Whether it was stopped in the middle of a batch."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Follow, and seed and pay debts beside it, until the end."""
        clock = _Clock(self.spec)
        turns, ledger = self._make_turns(clock), self.prepared.ledger
        seeder, payer = Seeder(turns, self.prepared.work, ledger), Payer(turns, self.prepared.work, ledger)
        lookout = Lookout(self.spec, self.prepared, self.tenure)
        switcher = Switcher(ledger, turns.gate, clock.emit, self.tell, self.spec.patience)
        switcher.is_verified = Inspection(self.spec, self.prepared.work, turns, switcher.closed).is_passed
        follower = Follower(
            self.spec,
            self.prepared,
            self.session,
            seeder,
            payer,
            lookout,
            switcher,
            clock.emit,
            self.tell,
            self.stop,
        )
        try:
            self._configure()
            self._start_heartbeat()
            follower.run()
        finally:
            self._ended.set()
            self.gave_up = follower.gave_up
            lookout.close()
            switcher.close(0.0 if self.gave_up else _SWITCH_END_S)
            if self.session.is_alive() and not self.gave_up:
                seeder.close(_TURN_END_S)
                payer.close(_TURN_END_S)
                turns.end()
            clock.close()
            with self.tenure.pause():
                work.forget()
        self._settle()

    def _configure(self) -> None:
        with self.session.asking():
            self.session.spark.conf.set("spark.sql.shuffle.partitions", str(self._limits().live))

    def _limits(self) -> TaskLimits:
        return limit_tasks(self.session.slots, self.spec.spark.max_tasks)

    def _settle(self) -> None:
        """Leave the slot at the last recorded position, with nobody on it.

        A server that is away is waited for, but not by someone who was asked to stop: the slot then stays
        where it was confirmed last, and the next start writes what follows once more.
        """
        outage = Outage(self.spec.patience, self.tell, self.stop)
        position = self.prepared.ledger.position
        if self.gave_up:
            return self.tell(Stopped(position, is_settled=False))
        while True:
            try:
                with connect(self.spec.dsn) as conn:
                    await_release(conn, self.spec.slot, _RELEASE_S)
                    advance_slot(conn, self.spec.slot, position)
                return self.tell(Stopped(position))
            except SourceUnavailable as error:
                if not outage.wait(error):
                    return self.tell(Stopped(position, is_settled=False))

    def _seed_parallelism(self) -> int:
        spare = self._limits().seed
        return min(spare, self.spec.batch.seed_parallelism or spare)

    def _make_turns(self, clock: _Clock) -> Turns:
        return Turns(
            self.session.spark,
            self.prepared.quarantine,
            self.spec.sizes.seed_range_mb,
            self._seed_parallelism(),
            clock.emit,
            self.tell,
            Room(self._limits().seed),
            self.spec.patience,
        )

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
