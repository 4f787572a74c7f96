"""Let readers move to a new generation, between two batches, once it lacks nothing.

A generation that is filled beside the one that readers see gets every batch from its first day on. Readers
may see it when its seed is done, nothing is owed to it, and the stream has come past the end of the seed:
before, it may lack what readers have seen elsewhere. Then the marks that removals left in it go, and readers
move in one step while no batch is in hand. What they saw before is dropped, or kept for a rollback.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from flusso.engine import work
from flusso.engine.entry import Entry
from flusso.engine.events import Listener, ReadersMoved
from flusso.engine.ledger import Ledger
from flusso.engine.outage import Outage
from flusso.engine.policy import Patience
from flusso.engine.retry import as_failure
from flusso.errors import FlussoError
from flusso.lsn import Version

_LOOK_S = 0.1


def _always(entry: Entry) -> bool:
    return True


@dataclass(slots=True)
class Switcher:
    """Looks for generations that are ready until it is closed; `failure` is what ended it."""

    ledger: Ledger
    gate: threading.Lock
    """Held by a batch while it is in hand."""
    emit: Callable[[], Version]
    tell: Listener
    patience: Patience = field(default_factory=Patience)
    is_verified: Callable[[Entry], bool] = _always
    """Asked last of all, beside the stream: whether readers may see a generation that is ready."""
    failure: FlussoError | None = None
    closed: threading.Event = field(default_factory=threading.Event)
    """Set when it looks no more."""
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look, once; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="flusso-switch", daemon=True)
            self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Look no more, and wait for the switch in hand."""
        self.closed.set()
        self.ledger.has_news.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        outage = Outage(self.patience, self.tell, self.closed)
        try:
            while not self.closed.is_set():
                self.ledger.has_news.wait(_LOOK_S)
                self.ledger.has_news.clear()
                if not self.closed.is_set():  # it may be what woke this thread
                    self._try_look(outage)
        except Exception as error:
            self.failure = as_failure(error, "the switch to a new generation")

    def _try_look(self, outage: Outage) -> None:
        try:
            self.look()
            outage.end()
        except FlussoError as error:
            outage.wait(error)

    def look(self) -> None:
        """Let readers see whatever is ready, and drop what they have left."""
        self.ledger.drop_retired()
        for entry in self.ledger.waiting():
            if self._is_ready(entry) and self.is_verified(entry):
                self._switch(entry)

    def _is_ready(self, entry: Entry) -> bool:
        if entry.state.debts:
            return False
        if not self.ledger.has_readers(entry):
            return True
        if not entry.state.ready_at:
            with self.gate:  # a batch in hand may yet show readers more than was planned since
                self.ledger.await_position(entry, self.emit().lsn)
        return self._has_passed(entry)

    def _has_passed(self, entry: Entry) -> bool:
        """Whether the stream has come past where nothing is lacking any more."""
        return bool(entry.state.ready_at) and self.ledger.position >= entry.state.ready_at

    def _switch(self, entry: Entry) -> None:
        self._clear(entry)
        with self.gate:
            has_readers = self.ledger.has_readers(entry)
            if entry.state.debts or (has_readers and not self._has_passed(entry)):
                return  # something was owed since, or paid to what readers see: it is not ready any more
            self.ledger.publish(entry)
        self.tell(ReadersMoved(entry.state.index, entry.destination.sink.name, entry.state.generation))
        self.ledger.drop_retired()

    def _clear(self, entry: Entry) -> None:
        """Leave no more marks of removals, and take out the many that there may be, beside the stream."""
        with self.gate:
            entry.end_marks()
        work.sink(entry.destination.sink).purge(entry.destination.target)
