"""Offsets: how a position in the WAL travels through Spark as JSON.

Pure. The source issues them, Spark logs them before each batch, the driver reads that log to learn where
a batch ends. They are never a resume position: the log is scratch, the slot is the truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flusso.capture.transactions import Held, Position
from flusso.errors import EngineError
from flusso.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Offset:
    """A position, and what the driver wants to know of the batch that ends there."""

    position: Position
    changes: int = 0
    """Changes handed on since the source started."""
    tick: int = 0
    """Counts the offsets that were issued without changes, so that each differs from the last."""
    is_behind: bool = False
    """Whether more was waiting when this offset was issued."""
    unchanged: int = 0
    """Updates left out since the source started: they changed nothing that documents are made from."""
    held: Held | None = None
    """What holds the stream back."""

    def to_json(self) -> dict[str, Any]:
        """Write it with primitive values only, as Spark wants it."""
        return {
            "lsn": str(self.position.lsn),
            "commit": str(self.position.commit),
            "ordinal": self.position.ordinal,
            "changes": self.changes,
            "tick": self.tick,
            "is_behind": self.is_behind,
            "unchanged": self.unchanged,
            "held": None if self.held is None else [self.held.xid, self.held.since],
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Offset:
        """Read what `to_json` wrote."""
        position = Position(Lsn.parse(fields["lsn"]), Lsn.parse(fields["commit"]), int(fields["ordinal"]))
        return cls(
            position,
            int(fields["changes"]),
            int(fields["tick"]),
            bool(fields["is_behind"]),
            int(fields["unchanged"]),
            None if fields["held"] is None else Held(*fields["held"]),
        )


def parse_offset_log(text: str) -> Offset:
    """Read one entry of Spark's offset log: a version, the batch's metadata, one offset a source."""
    lines = text.splitlines()
    if len(lines) != 3 or not lines[0].startswith("v"):
        raise EngineError("the offset log of the running query is not as expected")
    return Offset.from_json(json.loads(lines[2]))
