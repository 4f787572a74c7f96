"""Run pipelines in tests: in a thread on the shared Spark session, and look at what they did."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fix_postgres import Database
from flusso.capture.slot import read_slot
from flusso.debt import Debt
from flusso.engine.events import Event, ReadersMoved
from flusso.engine.ledger import Ledger
from flusso.engine.pipeline import run_pipeline
from flusso.engine.session import Session, SparkSpec
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.lsn import Lsn
from flusso.postgres.connect import Dsn
from flusso.sinks.base import IndexTarget, Sink, SinkSpec, Stored
from flusso.sinks.sqlite import SqliteSpec
from market import expected_documents, market_schema, parse_document
from sizes import SIZES
from waiting import wait_until


def market_spec(database: Database, sink: SinkSpec, **changes: Any) -> PipelineSpec:
    """The market's index, from this database into this sink."""
    fields: dict[str, Any] = {
        "dsn": database.dsn,
        "slot": f"slot_{database.name}",
        "publication": "flusso",
        "indexes": (IndexSpec("users", market_schema(), (sink,)),),
        "spark": SparkSpec("local[2]"),
        "batch": BatchSpec(seed_range_mb=0.1, confirm_after_s=0.1, tick_s=0.3),
    }
    return PipelineSpec(**(fields | changes))


def sqlite_sink(folder: Path) -> SqliteSpec:
    return SqliteSpec("local", str(folder / "index.db"))


class Run:
    """A pipeline that follows in the background while the block runs; it is stopped in order at the end."""

    def __init__(
        self,
        spec: PipelineSpec,
        session: Session,
        tell: Callable[[Event], None] | None = None,
        *,
        stop: threading.Event | None = None,
    ) -> None:
        self.spec = spec
        self.events: list[Event] = []
        self.error: BaseException | None = None
        self.stop = stop or threading.Event()
        self._session = session
        self._tell = tell
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Run:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the pipeline did not stop"
        if kind is None and self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            run_pipeline(self.spec, self._hear, self.stop, session=self._session)
        except BaseException as error:
            self.error = error

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        if self._tell is not None:
            self._tell(event)

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def wait(self, condition: Callable[[], Any], *, what: str, timeout_s: float = SIZES.patience_s) -> Any:
        """Wait for a condition, but not for one that a dead pipeline can no longer meet."""

        def look() -> Any:
            if self.error is not None:
                raise self.error
            return condition()

        return wait_until(look, what=what, timeout_s=timeout_s)

    def wait_seeded(self, timeout_s: float = SIZES.patience_s) -> None:
        """Wait until readers see the index."""
        self.wait(lambda: self.of(ReadersMoved), what="the seed", timeout_s=timeout_s)

    def wait_confirmed(
        self, database: Database, lsn: Lsn | None = None, timeout_s: float = SIZES.patience_s
    ) -> Lsn:
        """Wait until the slot has been confirmed past a position, the present one by default."""
        target = lsn or current_lsn(database)
        self.wait(
            lambda: confirmed_lsn(database, self.spec.slot) >= target,
            what=f"the slot to reach {target}",
            timeout_s=timeout_s,
        )
        return target

    def wait_exact(self, database: Database, timeout_s: float = SIZES.patience_s) -> None:
        """Wait until all that was written so far is confirmed, and nothing is owed for it any more."""
        self.wait_confirmed(database, timeout_s=timeout_s)
        self.wait(lambda: not owed(self.spec), what="the debts to be paid", timeout_s=timeout_s)


def publish_seeded(ledger: Ledger, *indexes: str) -> None:
    """Take indexes for seeded and let readers see them, as a pipeline does once they are whole."""
    for index in indexes:
        ledger.finish_seed(ledger.of(index))
    for entry in ledger.waiting():
        ledger.publish(entry)
    ledger.drop_retired()


def owed(spec: PipelineSpec) -> tuple[Debt, ...]:
    """What the sink of the first index still owes."""
    sink = spec.indexes[0].sinks[0].open()
    try:
        state = sink.load_states().shown(spec.indexes[0].name)
        return state.debts if state is not None else ()
    finally:
        sink.close()


def waiting_for(spec: PipelineSpec) -> str:
    """What the sink of the first index remembers of a wait."""
    sink = spec.indexes[0].sinks[0].open()
    try:
        state = sink.load_states().newest(spec.indexes[0].name)
        return state.waiting_for if state is not None else ""
    finally:
        sink.close()


def run_once(spec: PipelineSpec, session: Session) -> list[Event]:
    """Seed, catch up, end."""
    events: list[Event] = []
    run_pipeline(replace(spec, is_once=True), events.append, threading.Event(), session=session)
    return events


def drive(database: Database, spec: PipelineSpec, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the market's pipeline in a process of its own, to its end or its death."""
    return run_script("drive.py", database.dsn.text, spec.slot, str(folder))


class _Named:
    """What `market_spec` needs to know of a database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = Dsn(dsn)
        self.name = ""


def named_database(dsn: str) -> Database:
    """Stand for a database in a process that only has its connection string."""
    return _Named(dsn)  # type: ignore[return-value]


def run_script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of e2e/ to its end or its death."""
    tests = Path(__file__).parent
    return subprocess.run(
        [sys.executable, tests / "e2e" / name, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=SIZES.patience_s,
    )


def is_free(database: Database, slot: str) -> bool:
    """Whether nobody reads the slot."""
    found = database.execute("select active_pid is null from pg_replication_slots where slot_name = %s", slot)
    return bool(found[0][0])


def current_lsn(database: Database) -> Lsn:
    return Lsn.parse(str(database.execute("select pg_current_wal_flush_lsn()")[0][0]))


def confirmed_lsn(database: Database, slot: str) -> Lsn:
    with database.connect() as conn:
        info = read_slot(conn, slot)
    assert info is not None
    return info.confirmed_flush_lsn or Lsn(0)


def published(sink: Sink, index: str = "users") -> IndexTarget:
    state = sink.load_states().serving(index)
    assert state is not None, f"no generation of {index} is published"
    return state.target


def stored_bodies(spec: PipelineSpec, index: str = "users") -> dict[str, bytes]:
    """Every document of the index as its sink holds it."""
    return {id_: stored.body for id_, stored in _stored(spec, index).items()}


def stored_versions(spec: PipelineSpec, index: str = "users") -> dict[str, int]:
    """The version of every document of the index."""
    return {id_: stored.version for id_, stored in _stored(spec, index).items()}


def _stored(spec: PipelineSpec, index: str) -> Mapping[str, Stored]:
    sink = spec.indexes[0].sinks[0].open()
    try:
        target = published(sink, index)
        return sink.read(target, list(sink.ids(target)))
    finally:
        sink.close()


def assert_exact(database: Database, spec: PipelineSpec) -> None:
    """Each document equals what the rows say now; none is missing, none too many."""
    stored = {id_: parse_document(body) for id_, body in stored_bodies(spec).items()}
    expected = expected_documents(database)
    assert sorted(stored) == sorted(expected)
    wrong = [id_ for id_ in expected if stored[id_] != expected[id_]]
    assert not wrong, f"{len(wrong)} wrong, first: {stored[wrong[0]]} instead of {expected[wrong[0]]}"
