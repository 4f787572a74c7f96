"""What verifying an index found and did. Values, for whoever shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flusso.document import Refusal
from flusso.engine.blind import Blind
from flusso.engine.verify.judge import Difference, Kind
from flusso.engine.verify.pace import Pace
from flusso.errors import DocumentRefused, FlussoError

SHOWN = 1000
"""So many differences are kept by name; all are counted."""
_REFUSED_SHOWN = 5


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
    refused: int = 0
    """Documents that a repair could not write, where the policy is to stop."""
    refusals: tuple[str, ...] = ()
    """The first of them, with the reasons."""
    changing: int = 0
    """Documents that were written anew at every look: neither right nor wrong is proven."""
    unproven: int = 0
    """Documents that do not agree, and that whoever follows may have yet to write."""
    pace: Pace = Pace.FOLLOWED
    not_exact: tuple[str, ...] = ()
    """Why it is not exact yet: documents that are still to be built anew."""
    seconds: float = 0.0
    is_whole: bool = True
    """False when it was not compared to its end: `Verification` says why."""

    @property
    def remaining(self) -> int:
        """Count the differences that are there now."""
        return sum(self.counts.values())

    @property
    def agrees(self) -> bool:
        """Whether all of it was compared, nothing differs, and nothing that seems to is left unproven."""
        return self.is_whole and not self.remaining and not self.unproven


@dataclass(frozen=True, slots=True)
class Uncompared:
    """An index in a sink that could not be compared, or not to its end."""

    index: str
    sink: str
    error: FlussoError


@dataclass(frozen=True, slots=True)
class Verification:
    """All that was verified."""

    indexes: tuple[Verified, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    """(index, sink) of sinks that keep nothing to compare with."""
    blind: tuple[Blind, ...] = ()
    is_whole: bool = True
    """False when it was stopped before the end."""
    uncompared: tuple[Uncompared, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether all that was asked for was compared, and nothing differs."""
        return self.is_whole and not self.uncompared and all(one.agrees for one in self.indexes)

    @property
    def refused(self) -> DocumentRefused | None:
        """Give the error of a repair that had to leave documents out."""
        count = sum(one.refused for one in self.indexes)
        if not count:
            return None
        shown = [f"{one.index}/{text}" for one in self.indexes for text in one.refusals][:_REFUSED_SHOWN]
        more = f" and {count - len(shown)} more" if count > len(shown) else ""
        return DocumentRefused(
            f"{count} document(s) were refused and not repaired: {', '.join(shown)}{more}",
            hint='mend the data or the schema, or set on_error = "skip" to quarantine such documents',
        )


@dataclass(slots=True)
class Tally:
    """What is known of one sink so far."""

    counts: Counter[Kind] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    quarantined: int = 0
    """Of all differences those that wait in the quarantine."""
    shown_quarantined: set[str] = field(default_factory=set)
    """Of the differences that are kept those that wait in the quarantine."""
    others: list[str] = field(default_factory=list)
    """Ids of the first differences that are in no quarantine."""
    repaired: Counter[Kind] = field(default_factory=Counter)
    mended: list[Difference] = field(default_factory=list)
    refused: int = 0
    refusals: list[str] = field(default_factory=list)
    held: int = 0
    changing: int = 0
    unproven: int = 0
    pace: Pace = Pace.FOLLOWED
    reasons: dict[str, None] = field(default_factory=dict)
    """Why documents are owed that were not waited for."""
    _carried: frozenset[str] = frozenset()
    _fresh: Tally | None = None
    """What was added since `begin`, except of those that are carried."""

    def begin(self, carried: Iterable[str]) -> None:
        """Let `undo` take back what is added from here on, except of these ids."""
        self._carried, self._fresh = frozenset(carried), Tally()

    def undo(self) -> None:
        """Take it back; what is repaired stays so."""
        fresh = self._fresh or Tally()
        ids = {one.id for one in fresh.differences}
        self.counts -= fresh.counts
        self.differences = [one for one in self.differences if one.id not in ids]
        self.quarantined -= fresh.quarantined
        self.shown_quarantined -= ids
        self.others = [id_ for id_ in self.others if id_ not in fresh.others]
        self.changing -= fresh.changing
        self.unproven -= fresh.unproven

    def add_untold(self, changing: Sequence[str], unproven: Sequence[str]) -> None:
        """Take ids of which nothing is proven."""
        self.changing += len(changing)
        self.unproven += len(unproven)
        if self._fresh is not None:
            self._fresh.changing += sum(id_ not in self._carried for id_ in changing)
            self._fresh.unproven += sum(id_ not in self._carried for id_ in unproven)

    def add(self, found: Difference, *, is_quarantined: bool = False) -> None:
        """Take a difference that is there."""
        if self._fresh is not None and found.id not in self._carried:
            self._fresh.add(found, is_quarantined=is_quarantined)
        self.counts[found.kind] += 1
        self.quarantined += is_quarantined
        if not is_quarantined and len(self.others) < SHOWN:
            self.others.append(found.id)
        if len(self.differences) < SHOWN:
            self.differences.append(found)
            if is_quarantined:
                self.shown_quarantined.add(found.id)

    def add_repaired(self, found: Difference) -> None:
        """Take a difference that was there."""
        self.repaired[found.kind] += 1
        if len(self.mended) < SHOWN:
            self.mended.append(found)

    def add_refusal(self, refusal: Refusal) -> None:
        """Take a document that a repair could not write."""
        self.refused += 1
        if len(self.refusals) < _REFUSED_SHOWN:
            self.refusals.append(f"{refusal.id} ({refusal.reason})")
