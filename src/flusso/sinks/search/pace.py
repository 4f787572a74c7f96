"""How much a cluster is asked to take at a time, learnt from its answers.

One pace for each sink in a process, shared by every thread that writes to it. A cluster that pushes back gets
requests of half the size, and one at a time; each time that it has taken some of them whole, the size doubles
again, up to what the settings allow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_MIN_BYTES = 64 * 1024
_SLOWEST = 6
"""Halvings at most: beyond that, waiting helps more than smaller requests."""
_TAKEN = 4
"""Requests in a row that are taken whole before the next ones are larger."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much goes in one bulk request."""

    count: int
    bytes: int

    def halved(self, times: int) -> Limits:
        """Half as much, so many times."""
        return Limits(max(1, self.count >> times), max(_MIN_BYTES, self.bytes >> times))


class Pace:
    """What one process sends to one cluster. May be used from several threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._halvings = 0
        self._taken = 0
        self._lock = threading.Lock()
        self._alone = threading.Lock()

    @property
    def limits(self) -> Limits:
        """What fits in a request now."""
        return self._limits.halved(self._halvings)

    def slow_down(self) -> None:
        """Take note that the cluster did not take a request, or not all of it."""
        with self._lock:
            self._halvings, self._taken = min(_SLOWEST, self._halvings + 1), 0

    def speed_up(self) -> None:
        """Take note that it took one whole."""
        with self._lock:
            self._taken += 1
            if self._taken >= _TAKEN:
                self._halvings, self._taken = max(0, self._halvings - 1), 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold this while a request is under way: after a push back there is one at a time."""
        if not self._halvings:
            yield
            return
        with self._alone:
            yield
