"""When documents become searchable: at once after a quiet time, and never more often than a sink bears.

A refresh costs a search server tens of milliseconds and makes small segments, so a stream of small batches
must not ask for one each time. A batch that comes after a pause is refreshed with its own write; one that
comes sooner is refreshed by a thread as soon as the pause of its sink is over. Driver only.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from flusso.engine.work import Destination
from flusso.errors import FlussoError
from flusso.sinks.base import Sink, SinkSpec

_LONG_AGO_S = -1e9
_END_S = 5.0
_BEHIND_S = 1.0
"""While the stream is behind, searchability is worth less than speed: so often at most."""


@dataclass(slots=True)
class Refresher:
    """Knows when each generation was refreshed last, and which have something to show since."""

    _done_s: dict[Destination, float] = field(default_factory=dict)
    _due_s: dict[Destination, float] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _is_closed: bool = False

    def choose(self, destinations: Iterable[Destination], *, is_behind: bool) -> frozenset[Destination]:
        """Give those that a batch refreshes with its own writes."""
        now_s = time.monotonic()
        with self._changed:
            return frozenset(
                each for each in destinations if (at_s := self._next(each, is_behind)) and at_s <= now_s
            )

    def note(
        self, written: Iterable[Destination], refreshed: frozenset[Destination], *, is_behind: bool
    ) -> None:
        """Take note of what a batch has written, and what of it it has refreshed; the rest becomes due."""
        now_s = time.monotonic()
        with self._changed:
            for destination in refreshed:
                self._done_s[destination] = now_s
                self._due_s.pop(destination, None)
            for destination in written:
                at_s = self._next(destination, is_behind)
                if destination not in refreshed and at_s is not None:
                    self._due_s.setdefault(destination, at_s)
            if self._due_s and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="flusso-refresh", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Refresh what is due, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_END_S)

    def _next(self, destination: Destination, is_behind: bool) -> float | None:
        """When a generation may be refreshed again; None if it never is."""
        pause_s = destination.sink.capabilities.refresh_pause_s
        if pause_s is None:
            return None
        return self._done_s.get(destination, _LONG_AGO_S) + max(pause_s, _BEHIND_S if is_behind else 0.0)

    def _work(self) -> None:
        with contextlib.ExitStack() as stack:
            sinks: dict[SinkSpec, Sink] = {}
            while due := self._await_due():
                for destination in due:
                    # Only searchability is late: the next write, or the server itself, makes up for it.
                    with contextlib.suppress(FlussoError):
                        if destination.sink not in sinks:
                            sinks[destination.sink] = destination.sink.open()
                            stack.callback(sinks[destination.sink].close)
                        sinks[destination.sink].refresh(destination.target)

    def _await_due(self) -> list[Destination]:
        """Wait until something is due and take it; nothing at the end."""
        with self._changed:
            while True:
                now_s = time.monotonic()
                due = [each for each, at_s in self._due_s.items() if at_s <= now_s or self._is_closed]
                for destination in due:
                    self._done_s[destination] = now_s
                    del self._due_s[destination]
                if due or self._is_closed:
                    return due
                next_s = min(self._due_s.values(), default=None)
                self._changed.wait(None if next_s is None else next_s - now_s)
