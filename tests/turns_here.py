"""Turns without Spark: each runs in the thread that asks for it, as a task would on an executor."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine import work
from flusso.engine.events import Event, SeedFinished
from flusso.engine.provision import Prepared, prepare
from flusso.engine.room import Room
from flusso.engine.seed import Seeder
from flusso.engine.spec import BatchSpec, PipelineSpec
from flusso.engine.tasks import Batches
from flusso.engine.turns import Turns
from flusso.postgres.connect import connect
from flusso.postgres.version import emit_version
from pipelines import market_spec, publish_seeded, sqlite_sink
from waiting import wait_until

ONE_BLOCK = BatchSpec(seed_range_mb=8192 / 1024 / 1024)


def spec_of_small_ranges(database: Database, folder: Path, **changes: object) -> PipelineSpec:
    """The market, in ranges of one block, into a sink that lists what is written."""
    sink = FaultySpec(sqlite_sink(folder), str(folder))
    return market_spec(database, sink, **({"batch": ONE_BLOCK} | changes))


class TurnsHere(Turns):
    """Runs tasks one after the other, and pickles what they give as Spark would."""

    def start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def plan(self, task: Callable[[Batches], Batches], count: int) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            numbers = pa.record_batch([list(range(count))], names=["id"])
            batches = task(iter([numbers]))
            return [pickle.loads(each) for batch in batches for each in batch.column(0).to_pylist()]

        return run


class Seed:
    """A seed in this process, by one thread: what a process keeps open is for one task at a time."""

    def __init__(
        self,
        spec: PipelineSpec,
        tell: Callable[[Event], None] | None = None,
        *,
        turns: type[Turns] = TurnsHere,
        slots: int = 1,
        parallelism: int = 1,
        ahead: int = 0,
    ) -> None:
        self.events: list[Event] = []
        self._tell = tell
        prepared = prepare(spec, self._hear, threading.Event())
        assert prepared is not None
        self.prepared: Prepared = prepared
        self._clock = connect(spec.dsn)
        self._lock = threading.Lock()
        room = Room(slots)
        here = turns(
            None,  # type: ignore[arg-type]
            prepared.quarantine, spec.batch.seed_range_mb, parallelism, self._emit, self._hear, room,
            spec.patience,
        )  # fmt: skip
        self.seeder = Seeder(here, replace(prepared.work, lanes=1), prepared.ledger, ahead=ahead)

    def _emit(self) -> Any:
        with self._lock:
            return emit_version(self._clock)

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        if self._tell is not None:
            self._tell(event)

    def run(self) -> list[Event]:
        """Seed to the end, or until someone stops it; readers then see what is whole."""
        try:
            self.seeder.start()
            wait_until(lambda: not self.seeder.is_running(), what="the end of the seed")
            if self.seeder.failure is not None:
                raise self.seeder.failure
            publish_seeded(self.prepared.ledger)  # as the stream does between two batches
            return self.events
        finally:
            self.seeder.close(60)
            self._clock.close()
            work.forget()

    def stop(self) -> None:
        """Begin no more turns; for listeners."""
        self.seeder._is_closed.set()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def is_finished(self) -> bool:
        return bool(self.of(SeedFinished))
