"""What the engine tells the outside while it works. Values only; whoever listens decides what to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from flusso.diagnostic import Diagnostic
from flusso.lsn import Lsn
from flusso.seeding import Seeding


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something outside must happen first."""

    reason: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """The look before the start found something worth knowing that does not keep it from starting."""

    finding: Diagnostic


@dataclass(frozen=True, slots=True)
class Reseeding:
    """Changes were lost; a new generation is filled beside the one that readers see."""

    index: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReadersMoved:
    """Readers of an index see another generation of it from now on."""

    index: str
    sink: str
    generation: int


@dataclass(frozen=True, slots=True)
class IdentitySet:
    """A table was given another replica identity."""

    table: str
    sql: str


@dataclass(frozen=True, slots=True)
class Following:
    """The live stream runs, from this position."""

    slot: str
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class SeedStarted:
    """An index is being filled from its root table, or what an earlier run left of it."""

    index: str
    sinks: tuple[str, ...]
    seeding: Seeding


@dataclass(frozen=True, slots=True)
class SeedAdvanced:
    """Some more is written."""

    index: str
    sinks: tuple[str, ...]
    seeding: Seeding


@dataclass(frozen=True, slots=True)
class SeedFinished:
    """All is written; readers come to see it between two batches."""

    index: str
    sinks: tuple[str, ...]
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
    unchanged: int = 0
    """Updates that changed nothing any document is made from: known, and left out."""


@dataclass(frozen=True, slots=True)
class LookingAgain:
    """Tables are no longer as they were: the stream goes on once they are looked at again."""

    reason: str


@dataclass(frozen=True, slots=True)
class DebtFound:
    """An index is not exact yet in a sink: its documents are being built anew."""

    index: str
    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class DebtAdvanced:
    """Some of them are written."""

    index: str
    sink: str
    documents: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DebtPaid:
    """All of them are written: the index is as exact as the stream."""

    index: str
    sink: str
    documents: int
    seconds: float


@dataclass(frozen=True, slots=True)
class VerifyAdvanced:
    """Some of an index is compared: blocks of its root table, or documents that a sink holds."""

    index: str
    part: str
    """`rows`, or `held`."""
    done: int
    total: int
    documents: int
    suspects: int
    """Documents that did not agree at the first look."""
    seconds: float


@dataclass(frozen=True, slots=True)
class VerifySettled:
    """Suspects were looked at again, past the position at which they were seen."""

    index: str
    suspects: int
    differences: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Repaired:
    """Documents that differ were built anew and written, or removed."""

    index: str
    sink: str
    written: int
    removed: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A document was refused, or cannot be built, and everything stops for it."""

    index: str
    id: str
    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document was left out, by policy, of a sink that keeps nothing aside: only this tells of it."""

    index: str
    id: str
    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """Something failed that may heal, and is tried again after so many seconds."""

    error: str
    attempt: int
    delay_s: float
    since: float
    """When it failed first, in Unix time."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What failed works again."""

    attempts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything up to the position that was asked for is in every sink."""

    lsn: Lsn


@dataclass(frozen=True, slots=True)
class Stopped:
    """The stream has ended in order, and all up to this position is written and recorded."""

    lsn: Lsn
    is_settled: bool = True
    """Whether the slot stands there too; else the next start writes something once more."""


Event: TypeAlias = (
    Waiting
    | Noticed
    | Reseeding
    | ReadersMoved
    | IdentitySet
    | Following
    | SeedStarted
    | SeedAdvanced
    | SeedFinished
    | BatchWritten
    | LookingAgain
    | DebtFound
    | DebtAdvanced
    | DebtPaid
    | VerifyAdvanced
    | VerifySettled
    | Repaired
    | Refused
    | Skipped
    | Retrying
    | Recovered
    | CaughtUp
    | Stopped
)
Listener: TypeAlias = Callable[[Event], None]
