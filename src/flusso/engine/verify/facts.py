"""What verifying an index found and did. Values, for whoever shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from flusso.engine.blind import Blind
from flusso.engine.verify.judge import Difference, Kind
from flusso.engine.verify.pace import Pace

SHOWN = 1000
"""So many differences are kept by name; all are counted."""


@dataclass(frozen=True, slots=True)
class Verified:
    """One index in one sink, compared with its tables."""

    index: str
    sink: str
    documents: int = 0
    """Rows whose documents were compared."""
    held: int = 0
    """Documents of the sink whose rows were looked for; none in a sample."""
    is_sample: bool = False
    compares_content: bool = True
    """Whether more than ids was compared: not where an ingest pipeline makes other documents of them."""
    counts: Mapping[Kind, int] = field(default_factory=dict)
    """Differences that are there now, after a repair if there was one."""
    differences: tuple[Difference, ...] = ()
    """The first of them."""
    repaired: Mapping[Kind, int] = field(default_factory=dict)
    """Differences that are no longer there."""
    mended: tuple[Difference, ...] = ()
    """The first of those."""
    quarantined: frozenset[str] = frozenset()
    """Of the differences those that the sink has refused: they wait in its quarantine."""
    changing: int = 0
    """Documents that were written anew at every look: neither right nor wrong is proven."""
    pace: Pace = Pace.FOLLOWED
    not_exact: tuple[str, ...] = ()
    """Why it is not exact yet: documents that are still to be built anew."""
    seconds: float = 0.0

    @property
    def remaining(self) -> int:
        """Count the differences that are there now."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Verification:
    """All that was verified."""

    indexes: tuple[Verified, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    """(index, sink) of sinks that keep nothing to compare with."""
    blind: tuple[Blind, ...] = ()
    is_whole: bool = True
    """False when it was stopped before the end."""

    @property
    def agrees(self) -> bool:
        """Whether all that was asked for was compared, and nothing differs."""
        return self.is_whole and not any(one.remaining for one in self.indexes)


@dataclass(slots=True)
class Tally:
    """What is known of one sink so far."""

    counts: Counter[Kind] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    repaired: Counter[Kind] = field(default_factory=Counter)
    mended: list[Difference] = field(default_factory=list)
    held: int = 0
    changing: int = 0
    pace: Pace = Pace.FOLLOWED

    def add(self, found: Difference) -> None:
        """Take a difference that is there."""
        self.counts[found.kind] += 1
        if len(self.differences) < SHOWN:
            self.differences.append(found)

    def add_repaired(self, found: Difference) -> None:
        """Take a difference that was there."""
        self.repaired[found.kind] += 1
        if len(self.mended) < SHOWN:
            self.mended.append(found)
