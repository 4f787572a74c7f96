"""The stage of the demo: a Postgres with the shop, a Spark, a folder with flusso.toml, and flusso on top.

Used as a context by the story. Everything slow runs in threads, so that the main thread is free for
signals and for drawing; each part registers how it is undone before it begins. So the end of the context
leaves no process, no slot and no folder, at whatever moment it comes.
"""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from flusso.cli.assemble import pipeline_spec
from flusso.config.load import load_deployment
from flusso.demo.server import EmbeddedServer, create_server
from flusso.engine.events import Event
from flusso.engine.pipeline import run_pipeline
from flusso.engine.session import Session, SparkSpec, open_session
from flusso.engine.spec import PipelineSpec
from flusso.errors import EngineError
from flusso.postgres.connect import Connection, Dsn, connect, translated

POSTGRES_MAJOR = 18
DATABASE = "shop"
SHOP = Path(__file__).with_name("shop")

_LOOK_S = 0.005
_EVENT_S = 0.1
_STOP_S = 30.0
_BATCH = """
# Small steps, so that the bar has something to show.
[batch]
seed_range_mb = 0.125
"""

T = TypeVar("T")


class Interrupted(Exception):
    """The user asked to stop; the stage is being cleared."""


class Stage:
    """All that the demo has open. `stop` is set from outside, by a signal."""

    def __init__(self, stop: threading.Event) -> None:
        self.folder = Path()
        self._stop = stop
        self._undo = ExitStack()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(thread_name_prefix="flusso-demo")
        self._pipeline: Future[None] | None = None
        self._pipeline_stop = threading.Event()

    def __enter__(self) -> Stage:
        self._undo.callback(self._pool.shutdown)
        self.folder = Path(tempfile.mkdtemp(prefix="flusso-demo-"))
        self._undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def start_spark(self) -> Future[Session]:
        """Begin to start Spark, on all cores."""
        session = self._pool.submit(open_session, SparkSpec("local[*]"))
        self._undo.callback(_undo, session, Session.close)
        return session

    def start_server(self) -> Future[EmbeddedServer]:
        """Begin to make an embedded Postgres."""
        server = self._pool.submit(create_server, POSTGRES_MAJOR)
        self._undo.callback(_undo, server, EmbeddedServer.remove)
        return server

    def load_shop(self, server: EmbeddedServer) -> Future[None]:
        """Begin to create the shop. Removing the server ends it at any moment."""
        return self._pool.submit(_load_shop, server)

    def declare(self, server: EmbeddedServer) -> PipelineSpec:
        """Write flusso.toml and its schemas, and read them as `flusso run` would."""
        for schema in SHOP.glob("*.schema.yml"):
            shutil.copy(schema, self.folder)
        self.config.write_text(_deployment(server.dsn(DATABASE)))
        # Without the environment: a DATABASE_URL of the user's must not lead the demo elsewhere.
        return pipeline_spec(load_deployment(self.config, env={}))

    @property
    def config(self) -> Path:
        """The deployment file."""
        return self.folder / "flusso.toml"

    def start_flusso(self, spec: PipelineSpec, session: Session) -> None:
        """Begin to seed and follow."""
        self._pipeline = self._pool.submit(
            run_pipeline, spec, self._events.put, self._pipeline_stop, session=session
        )
        self._undo.callback(self._end_flusso, self._pipeline)

    def wait(self, future: Future[T]) -> T:
        """Give what a thread makes, unless the user is tired of waiting."""
        while not future.done():
            self._look()
        return future.result()

    def wait_for(self, what: str, see: Callable[[], T | None], within_s: float = 60.0) -> T:
        """Give what `see` finds once it finds something; a time limit guards against waiting for ever."""
        deadline_s = time.monotonic() + within_s
        while (found := see()) is None:
            if time.monotonic() > deadline_s:
                raise EngineError(f"{what} is still not there after {within_s:.0f} s")
            self._look()
        return found

    def next_event(self) -> Event:
        """Give the next thing that flusso tells."""
        while True:
            with suppress(queue.Empty):
                return self._events.get(timeout=_EVENT_S)
            self._look()

    def forget_events(self) -> None:
        """Leave out what has been told so far."""
        with suppress(queue.Empty):
            while True:
                self._events.get_nowait()

    def _look(self) -> None:
        """Let a moment pass; raise what ends the demo."""
        if self._stop.wait(_LOOK_S):
            raise Interrupted
        if self._pipeline is not None and self._pipeline.done():
            self._pipeline.result()
            raise EngineError("flusso ended by itself")

    def _end_flusso(self, pipeline: Future[None]) -> None:
        """Stop in order, so that the slot is let go. What is then removed need not be settled."""
        self._pipeline_stop.set()
        with suppress(Exception):
            pipeline.result(timeout=_STOP_S)


def _undo(future: Future[T], close: Callable[[T], None]) -> None:
    """Close what a thread has made, or is just making; what failed has closed itself."""
    if future.cancel():
        return
    error = future.exception()
    if error is None:
        close(future.result())


def _load_shop(server: EmbeddedServer) -> None:
    with connect(Dsn(server.dsn())) as conn, translated("cannot create the shop"):
        conn.execute(f"create database {DATABASE}")
    with connect_shop(server) as conn, translated("cannot create the shop"):
        conn.execute((SHOP / "shop.sql").read_bytes())


def connect_shop(server: EmbeddedServer) -> Connection:
    """Open a connection to the shop."""
    return connect(Dsn(server.dsn(DATABASE)))


def _deployment(dsn: str) -> str:
    """Make the example of the shop one that needs no environment."""
    lines = (SHOP / "flusso.toml").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).lstrip()
    with_url = text.replace('type = "postgres"', f'type = "postgres"\nconnection_url = "{dsn}"', 1)
    return f"{with_url}\n{_BATCH}"
