"""How far whoever follows has come: waited for before a difference counts.

Everything up to a position is written once the slot was confirmed past it, or once the sink remembers it as
its witness, which comes a little earlier. Nobody may be following at all, or be stuck: then nothing is waited
for any longer, and the result says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from flusso.capture.slot import SlotInfo
from flusso.lsn import Lsn

_POLL_S = 0.1
_WITNESS_EVERY = 5
"""Looks at the slot for each look at the sink, which costs it more."""


class Pace(StrEnum):
    """Whether someone keeps the index in step."""

    FOLLOWED = "followed"
    UNFOLLOWED = "unfollowed"
    """Nobody reads the slot: changes since it was last read are not in the index."""
    STUCK = "stuck"
    """Someone reads the slot, but does not come on."""


@dataclass(slots=True)
class Follow:
    """Waits for whoever reads a slot. What it finds once, nobody or stuck, it does not wait for again."""

    slot: Callable[[], SlotInfo | None]
    witness: Callable[[], int]
    absent_s: float = 5.0
    """How long nobody may read the slot."""
    stuck_s: float = 120.0
    """How long a reader may stand still."""
    pace: Pace = field(default=Pace.FOLLOWED)

    def wait(self, mark: Lsn) -> Pace:
        """Wait until all up to a position is written, or it is clear that nobody will."""
        reached, moved_s, seen_s = Lsn(0), time.monotonic(), time.monotonic()
        looks = 0
        while self.pace is Pace.FOLLOWED:
            info = self.slot()
            now_s = time.monotonic()
            confirmed = (info.confirmed_flush_lsn if info is not None else None) or Lsn(0)
            if looks % _WITNESS_EVERY == 0 and confirmed < mark:
                confirmed = max(confirmed, Lsn(self.witness()))
            looks += 1
            if confirmed >= mark:
                return Pace.FOLLOWED
            if confirmed > reached:
                reached, moved_s = confirmed, now_s
            if info is not None and info.active_pid is not None:
                seen_s = now_s
            if now_s - seen_s >= self.absent_s:
                self.pace = Pace.UNFOLLOWED
            elif now_s - moved_s >= self.stuck_s:
                self.pace = Pace.STUCK
            else:
                time.sleep(_POLL_S)  # between two looks: nobody tells when a slot moves
        return self.pace
