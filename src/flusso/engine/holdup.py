"""A received transaction that stays invisible, told and taken down where others can read it.

A commit that waits for a synchronous standby is in the WAL and in no snapshot yet; it is held back, and all
behind it (`capture.fence`). The source says so in its offsets, the batches hand it on to here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flusso.capture.snapshot import find_holder
from flusso.capture.transactions import Held
from flusso.engine import work
from flusso.engine.events import Listener, Recovered, Waiting
from flusso.errors import SourceError
from flusso.postgres.connect import Dsn


@dataclass(slots=True)
class Holdup:
    """What holds the live stream back, through all its queries."""

    dsn: Dsn
    tell: Listener
    note: Callable[[str, float], None]
    held: Held | None = None

    def hear(self, held: Held | None) -> None:
        """Take what the source says of it now: a new one is told, and its end."""
        if held == self.held:
            return
        before, self.held = self.held, held
        if held is not None:
            reason = f"transaction {held.xid} has committed and is not visible yet{self._whose(held)}"
            reason += ": is a standby of synchronous_standby_names missing?"
            self.note(reason, held.since)
            self.tell(Waiting(reason))
        elif before is not None:
            self.note("", 0.0)
            self.tell(Recovered(1, time.time() - before.since))

    def _whose(self, held: Held) -> str:
        try:
            with work.looking(self.dsn) as conn:
                holder = find_holder(conn, held.xid)
        except SourceError:
            return ""
        return "" if holder is None else f", held by {holder}"
