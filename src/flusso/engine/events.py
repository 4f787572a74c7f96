"""What the engine tells the outside while it works. Values only; whoever listens decides what to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from flusso.diagnostic import Diagnostic
from flusso.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something outside must happen first."""

    reason: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """The look before the start found something worth knowing that does not keep it from starting."""

    finding: Diagnostic


@dataclass(frozen=True, slots=True)
class Following:
    """The live stream runs, from this position."""

    slot: str
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class SeedStarted:
    """An index is being filled from its root table."""

    index: str
    ranges: int


@dataclass(frozen=True, slots=True)
class SeedAdvanced:
    """One more range is written."""

    index: str
    done: int
    ranges: int
    documents: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SeedFinished:
    """All ranges are written; readers see the index."""

    index: str
    documents: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchWritten:
    """A batch of changes is in every sink."""

    changes: int
    written: int
    removed: int
    superseded: int
    refused: int
    seconds: float
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class Retrying:
    """Something failed that may heal."""

    error: str
    attempt: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything up to the position that was asked for is in every sink."""

    lsn: Lsn


@dataclass(frozen=True, slots=True)
class Stopped:
    """The stream has ended in order and the slot stands at this position."""

    lsn: Lsn


Event: TypeAlias = (
    Waiting
    | Noticed
    | Following
    | SeedStarted
    | SeedAdvanced
    | SeedFinished
    | BatchWritten
    | Retrying
    | CaughtUp
    | Stopped
)
Listener: TypeAlias = Callable[[Event], None]
