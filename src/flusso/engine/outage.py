"""What is away and may come back: since when, how often it was tried, and when it is tried next.

One `Outage` for each thing that goes on trying by itself: the start, the live stream with its batches, each
thread of a seed, the end. It does the waiting and the telling; how long is too long is `policy`'s to say.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flusso.engine.events import Listener, Recovered, Retrying
from flusso.engine.policy import Patience
from flusso.errors import FlussoError, SinkError, SourceError


@dataclass(slots=True)
class Outage:
    """Nothing is away until `wait` is called; it is over with `end`. May be used from several threads."""

    patience: Patience
    tell: Listener
    stop: threading.Event
    note: Callable[[str, float], None] | None = None
    """Takes down, where others can read it, what is waited for and since when; nothing at the end."""
    _attempts: int = 0
    _since: float = 0.0
    _began_s: float = 0.0
    _failed_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, error: FlussoError) -> bool:
        """Wait until it is time to try again; False if a stop is asked for meanwhile.

        Raises the error when it cannot heal or has lasted for too long.
        """
        if not error.retryable:
            raise error
        if self.stop.is_set():
            return False
        with self._lock:
            self._failed_s = time.monotonic()
            if not self._attempts:
                self._since, self._began_s = time.time(), self._failed_s
            self._attempts += 1
            if self.patience.is_exhausted(error, self._attempts, self._failed_s - self._began_s):
                raise error
            # Not all at the same moment: what comes back may have many clients.
            delay_s = self.patience.delay_s(self._attempts) * random.uniform(0.5, 1.0)
            told = Retrying(str(error), self._attempts, delay_s, self._since)
        self.tell(told)
        if self.note is not None and told.attempt == 1 and isinstance(error, SourceError | SinkError):
            self.note(str(error), told.since)
        return not self.stop.wait(delay_s)

    def begin(self, error: FlussoError) -> None:
        """Take note of a failure after which the next attempt follows at once; `end` says that it is over."""
        with self._lock:
            self._since, self._began_s = time.time(), time.monotonic()
            self._failed_s, self._attempts = self._began_s, 1
        self.tell(Retrying(str(error), 1, 0.0, self._since))

    def is_quiet(self, seconds: float) -> bool:
        """Whether something has failed, but not lately."""
        return self._attempts > 0 and time.monotonic() - self._failed_s >= seconds

    def end(self) -> None:
        """Take note that it works again; the next failure begins anew."""
        with self._lock:
            attempts, self._attempts = self._attempts, 0
        if attempts:
            self.tell(Recovered(attempts, time.monotonic() - self._began_s))
            if self.note is not None:
                self.note("", 0.0)

    @property
    def is_on(self) -> bool:
        """Whether something is away."""
        return self._attempts > 0
