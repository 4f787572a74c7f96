"""What a process has taken for itself while a pipeline is to run, and what it gives back at its end.

The right to write its indexes: it shows that by a beat, from the moment that they are its to write until it
ends, over every new look in between. Who would write them through another slot sees that someone does.

And a slot that it made, which holds back WAL from its first moment on. When nothing comes of the start,
because a sink refuses its index for example, nobody would ever read it: so it goes again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from flusso.capture.slot import drop_slot
from flusso.engine import work
from flusso.engine.ledger import Ledger
from flusso.engine.spec import PipelineSpec
from flusso.errors import EngineError, FlussoError, IndexTaken, SinkError, SourceError
from flusso.postgres.connect import connect

_BEAT_END_S = 5.0
_GOODBYE_S = 2.0


@dataclass(slots=True)
class Tenure:
    """A context, from before the first look until nothing is written any more."""

    spec: PipelineSpec
    has_made_slot: bool = False
    """Whether the slot was made since, and is of no use to anybody until something flows."""
    failure: FlussoError | None = None
    """Why this process must end: another start has taken what it writes."""
    _ledger: Ledger | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by a beat."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Tenure:
        self._thread = threading.Thread(target=self._run, name="flusso-beat", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_BEAT_END_S)
        if self._ledger is not None:
            self._say_goodbye(self._ledger)
            work.forget()
        if self.has_made_slot and not self._is_seeded():
            with contextlib.suppress(SourceError), connect(self.spec.dsn) as conn:
                drop_slot(conn, self.spec.slot)

    def hold(self, ledger: Ledger) -> None:
        """Take the generations of a ledger, in place of those of an earlier look."""
        with self._lock:
            self._ledger, self.failure = ledger, None
        if self._thread is not None:
            self._beat()

    def look(self) -> FlussoError | None:
        """Say whether another start has taken the indexes by now; nothing when a sink does not answer."""
        self._beat()
        return self.failure

    def flow(self) -> None:
        """Take note that the slot is read from now on: a later start goes on there."""
        self.has_made_slot = False

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Have no beat under way, so that the sinks can be closed; one that hangs is not waited for."""
        is_held = self._lock.acquire(timeout=_BEAT_END_S)
        try:
            yield
        finally:
            if is_held:
                self._lock.release()

    def _say_goodbye(self, ledger: Ledger) -> None:
        """Show that nobody writes the indexes any more; not for long, as to a server that hangs."""

        def say() -> None:
            with contextlib.suppress(SinkError):  # it is away, and what beats no more is taken for gone
                ledger.beat(0.0)

        saying = threading.Thread(target=say, daemon=True)
        saying.start()
        saying.join(_GOODBYE_S)

    def _run(self) -> None:
        while not self._ended.wait(self.spec.look_s):
            self._beat()

    def _beat(self) -> None:
        with self._lock:
            if self._ledger is None or self.failure is not None or self._ended.is_set():
                return
            try:
                self._ledger.beat(time.time())
            except IndexTaken as error:
                self.failure = error
            except SinkError:
                pass  # it is away, and whoever writes to it says so
            except Exception as error:
                self.failure = EngineError(f"there is no way to beat: {type(error).__name__}")

    def _is_seeded(self) -> bool:
        """Whether readers rely on the slot already, as without a backfill."""
        return self._ledger is not None and any(entry.state.is_seeded for entry in self._ledger.entries)
