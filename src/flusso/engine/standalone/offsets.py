"""Offsets of the source on its own: what a durable checkpoint keeps between two runs.

Pure. An offset says in which of three phases the stream was. A snapshot is one batch, from `SNAPSHOT` to
`JOINED`, and `JOINED` names no position: it is wherever the slot of the snapshot begins. So a snapshot that
was cut short is taken again, with a new slot, under the same two offsets, and still joins without gap or
overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flusso.capture.transactions import Position
from flusso.errors import ConfigError
from flusso.lsn import Lsn

_NOWHERE = Position(Lsn(0))


class Phase(StrEnum):
    """What is left to read."""

    SNAPSHOT = "snapshot"
    """Everything: a snapshot first."""
    JOINED = "joined"
    """All changes since the snapshot."""
    LIVE = "live"
    """The changes after a position."""


@dataclass(frozen=True, slots=True)
class RowOffset:
    """A place in the stream of one source."""

    phase: Phase
    source: str = ""
    """The cluster and database that the position is of."""
    position: Position = _NOWHERE
    tick: int = 0
    """Counts the offsets that were issued without rows, so that each differs from the last."""

    def to_json(self) -> dict[str, Any]:
        """Write it with primitive values only, as Spark wants it."""
        if self.phase is not Phase.LIVE:
            return {"phase": self.phase.value}
        return {
            "phase": self.phase.value,
            "source": self.source,
            "lsn": str(self.position.lsn),
            "commit": str(self.position.commit),
            "ordinal": self.position.ordinal,
            "tick": self.tick,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> RowOffset:
        """Read what `to_json` wrote, in this run or an earlier one."""
        try:
            phase = Phase(fields["phase"])
            if phase is not Phase.LIVE:
                return cls(phase)
            position = Position(Lsn.parse(fields["lsn"]), Lsn.parse(fields["commit"]), int(fields["ordinal"]))
            return cls(phase, str(fields["source"]), position, int(fields["tick"]))
        except (KeyError, ValueError, TypeError, AttributeError):
            raise ConfigError(
                "the checkpoint has an offset that is not of this source", hint="begin with a new checkpoint"
            ) from None
