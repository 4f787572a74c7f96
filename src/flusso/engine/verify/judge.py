"""When a difference is one: a document as its row makes it beside what a sink holds. Pure.

The proof needs an order. A sink is read, then the document is built from a snapshot, then a position is
emitted, and whoever follows is waited for until all up to there is written; only then is the sink read
again. If it still holds what it held at first, that was built before our snapshot; and whatever our
snapshot showed beyond it had committed before the position, so it should have been written by now, with a
higher version. It never will be: a difference. What was written meanwhile proves nothing and is looked at
again. The whole argument is in docs/internals/verify.md.
"""

from __future__ import annotations

import hashlib
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
    UNBUILT = "unbuilt"
    """There is a row, and its document cannot be built: a value does not fit."""


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
    is_unbuilt: bool = False
    """Whether the document could not be built at all."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A document in a sink, known again when nobody has written it since."""

    version: int
    digest: bytes


ABSENT = Mark(-1, b"")


def seems_right(sight: Sight, *, compares_content: bool = True) -> bool:
    """Tell whether a sink holds what the row makes, at a glance that proves nothing about the contrary."""
    if sight.expected is None or sight.held is None:
        return sight.expected is None and sight.held is None
    if not compares_content or is_same(sight.expected, sight.held.body):
        return True
    return sight.mended is not None and is_same(sight.mended, sight.held.body)


def mark_of(held: Stored | None) -> Mark:
    """Give what there is to remember of a document until the next look."""
    return ABSENT if held is None else Mark(held.version, hashlib.sha256(held.body).digest())


def judge(sight: Sight, before: Mark | None) -> Difference | None:
    """Give the difference that a sight which does not seem right proves; None: only a later look can tell.

    `before` is what the sink held when it was read last, before the snapshot that this sight was built from.
    That it held nothing counts only if that look had waited too: a removal shows no version.
    """
    if sight.is_unbuilt:
        return Difference(sight.id, Kind.UNBUILT)
    if before is None or mark_of(sight.held) != before:
        return None
    if sight.held is None:
        return Difference(sight.id, Kind.MISSING)
    if sight.expected is None:
        return Difference(sight.id, Kind.EXTRA)
    return Difference(
        sight.id, Kind.DIFFERENT, differing_paths(sight.mended or sight.expected, sight.held.body)
    )
