"""The slots of whoever works beside the stream: shared, and fewer while a sink cannot keep up."""

from __future__ import annotations

import threading
import time

from flusso.engine.pace import Pace


class Room:
    """Slots to take and to give back, from any thread."""

    def __init__(self, slots: int) -> None:
        self._pace = Pace(slots, slots)
        self._taken = 0
        self._rests_until_s = 0.0
        self._changed = threading.Condition()

    @property
    def pace(self) -> Pace:
        """How much there is now."""
        return self._pace

    def take(self, most: int) -> int:
        """Wait for a slot, and take more of those that are free."""
        with self._changed:
            while (free := self._pace.slots - self._taken) < 1 or self._rest_s() > 0:
                self._changed.wait(self._rest_s() if free >= 1 else None)
            taken = min(most, free)
            self._taken += taken
            return taken

    def give(self, slots: int) -> None:
        """Give slots back."""
        with self._changed:
            self._taken -= slots
            self._changed.notify_all()

    def feel(self, worked_s: float, backed_off_s: float) -> None:
        """Take note of how a turn went: how long it took, and how long of it sinks could not keep up."""
        with self._changed:
            self._pace = self._pace.after(worked_s, backed_off_s)
            self._rests_until_s = time.monotonic() + self._pace.rest * worked_s
            self._changed.notify_all()

    def _rest_s(self) -> float:
        return self._rests_until_s - time.monotonic()
