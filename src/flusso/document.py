"""A document's identity, a write of it, and what became of the write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flusso.errors import FlussoError

Key = tuple[str, ...]
"""A root row's primary key, each column as Postgres prints it."""

SEPARATOR = "|"
ESCAPE = "\\"


@dataclass(frozen=True, slots=True)
class DocumentId:
    """A document of an index, named by the key of its root row."""

    index: str
    key: Key


def id_text(key: Sequence[str]) -> str:
    """Join a key into the `_id` that the index knows; two keys never give the same text."""
    if len(key) == 1:
        return key[0]
    return SEPARATOR.join(
        part.replace(ESCAPE, ESCAPE * 2).replace(SEPARATOR, ESCAPE + SEPARATOR) for part in key
    )


def key_of(text: str, columns: int) -> Key:
    """Split an `_id` into its key again: the inverse of `id_text` for a key of so many columns."""
    if columns == 1:
        return (text,)
    parts = [""]
    rest = iter(text)
    for char in rest:
        if char == SEPARATOR:
            parts.append("")
        else:
            parts[-1] += next(rest, "") if char == ESCAPE else char
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Write:
    """One document as it is now: finished JSON text, or None when the row is gone."""

    id: str
    version: int
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that a sink will never take as it is."""

    index: str
    id: str
    version: int
    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What one sink did with one batch of writes."""

    written: int = 0
    removed: int = 0
    superseded: int = 0
    """Refused because a newer version is there already: as good as written."""
    refusals: tuple[Refusal, ...] = ()
    newest_conflict: int = 0
    """The highest current version met among the superseded."""


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What one task did: counts, refusals, and its failure if it had one. Travels to the driver."""

    index: str
    version: int = 0
    written: int = 0
    removed: int = 0
    superseded: int = 0
    bytes: int = 0
    refusals: tuple[Refusal, ...] = ()
    newest_conflict: int = 0
    failure: FlussoError | None = None
    is_overflow: bool = False
    """More documents than one task should build: nothing was written, spread them instead."""
    deferred: tuple[tuple[str, Write], ...] = field(default=())
    """(sink, write) pairs for sinks that live beside the driver."""
