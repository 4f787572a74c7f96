"""When a difference is one: a document as its row makes it beside what a sink holds. Pure.

The proof needs an order. A document is built from a snapshot; then a position is emitted, and whoever follows
is waited for until all up to there is written; only then is the sink read. Whatever the snapshot showed had
committed before that position, so it is in the sink by now. If what the sink holds is not what was built,
then either something was built since (its version is higher than ours, so look again) or nobody will ever
write it: a difference. A removed document has no version to see, so that one is missing counts only when it
is missing twice in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flusso.engine.verify.compare import differing_paths, is_same
from flusso.sinks.base import Stored


class Kind(StrEnum):
    """How a document differs."""

    MISSING = "missing"
    """There is a row, and no document."""
    EXTRA = "extra"
    """There is a document, and no row: none at all, or one that filters or soft_delete leave out."""
    DIFFERENT = "different"
    """There are both, and they do not say the same."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A document that is not as its row says."""

    id: str
    kind: Kind
    paths: tuple[str, ...] = ()
    """Where a different one differs; never a value."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One document as it was seen at one look."""

    id: str
    expected: bytes | None
    """What its row makes; None without one."""
    held: Stored | None
    mended: bytes | None = None
    """What the sink would hold in place of `expected`, if it cannot take that as it is."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a look: its place among the versions."""

    version: int
    """Emitted before the documents were built."""
    latest: int
    """Emitted after the sink was read: no document can have a higher one."""


def seems_right(sight: Sight, *, compares_content: bool = True) -> bool:
    """Tell whether a sink holds what the row makes, at a glance that proves nothing about the contrary."""
    if sight.expected is None or sight.held is None:
        return sight.expected is None and sight.held is None
    if not compares_content or is_same(sight.expected, sight.held.body):
        return True
    return sight.mended is not None and is_same(sight.mended, sight.held.body)


def judge(sight: Sight, look: Look, *, was_missing: bool) -> Difference | None:
    """Give the difference that a sight which does not seem right proves; None: only a later look can tell."""
    held = sight.held
    if held is None:
        return Difference(sight.id, Kind.MISSING) if was_missing else None
    if look.version < held.version <= look.latest:
        return None
    if sight.expected is None:
        return Difference(sight.id, Kind.EXTRA)
    return Difference(sight.id, Kind.DIFFERENT, differing_paths(sight.mended or sight.expected, held.body))
