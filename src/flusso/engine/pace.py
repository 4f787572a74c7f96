"""How much works beside the stream at a time, and less of it while a sink cannot keep up. Pure.

Sinks tell how long their writes had to back off (`WriteResult.backed_off_s`). When that is a good part of a
turn, the next ones get half the slots; with one left, they rest in between, longer and longer. As soon as a
turn goes through unhindered, some of it comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_HINDERED = 0.1
"""The share of a turn that its requests waited from which on there is less of them."""
_FIRST_REST, _LONGEST_REST = 0.25, 2.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast turns follow each other."""

    most: int
    """Slots that all of them together may have."""
    slots: int
    """Slots that they have now."""
    rest: float = 0.0
    """How long to rest after a turn, in parts of the time that it took."""

    def after(self, worked_s: float, backed_off_s: float) -> Pace:
        """Give the pace that follows from a turn."""
        if backed_off_s > _HINDERED * worked_s:
            return self._slower()
        return self._faster()

    def _slower(self) -> Pace:
        if self.slots > 1:
            return replace(self, slots=self.slots // 2)
        return replace(self, rest=min(_LONGEST_REST, max(_FIRST_REST, self.rest * 2)))

    def _faster(self) -> Pace:
        if self.rest:
            return replace(self, rest=self.rest / 2 if self.rest > _FIRST_REST else 0.0)
        return replace(self, slots=min(self.most, self.slots + 1))
