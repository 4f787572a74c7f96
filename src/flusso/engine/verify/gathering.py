"""What a repair could not write: it goes on without what a stream would stop for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flusso.document import Refusal
from flusso.engine.quarantine import Quarantine
from flusso.engine.verify.facts import Tally
from flusso.engine.work import Destination


@dataclass(slots=True)
class Gathering(Quarantine):
    """Judges refused documents of one sink."""

    tally: Tally = field(default_factory=Tally)
    _refused: set[str] = field(default_factory=set)

    def settle(self, refusals: Sequence[Refusal], destinations: Iterable[Destination]) -> None:
        """Keep refused documents by policy, and gather those whose policy is to stop."""
        kept = [refusal for refusal in refusals if self.skips.get(refusal.index, False)]
        Quarantine.settle(self, kept, destinations)
        for refusal in refusals:
            if not self.skips.get(refusal.index, False) and refusal.id not in self._refused:
                self._refused.add(refusal.id)  # reports are settled again when that failed half-way
                self.tally.add_refusal(refusal)
