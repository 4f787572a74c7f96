"""A document's identity, a write of it, and what became of the write."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flusso.debt import Owed
from flusso.errors import FlussoError

Key = tuple[str, ...]
"""A root row's primary key, each column as Postgres prints it."""

SEPARATOR = "|"
ESCAPE = "\\"
_MARK = "~"
_HASHED = "~sha256-"
MAX_ID_BYTES = 512
MIN_HASHED_BYTES = 240
"""A key with fewer bytes in all its columns has no hashed id: escaping doubles it at most, and an index of
Postgres has 32 columns at most to join."""
_UNKNOWN = "\x00"
"""Stands first in a key of which only the id is known. No Postgres text holds this character."""


@dataclass(frozen=True, slots=True)
class DocumentId:
    """A document of an index, named by the key of its root row."""

    index: str
    key: Key


def id_text(key: Key) -> str:
    """Name a key as the index does: its columns joined so that two keys never give the same text.

    A search server takes no empty id and none over 512 bytes: an empty one is `~`, a long one `~sha256-` and
    the hash of what it would be. An id that begins with `~` by itself gets another one before it.
    """
    if key[0] == _UNKNOWN:
        return key[1]
    text = key[0] if len(key) == 1 else joined(key)
    if not text or text[0] == _MARK:
        text = _MARK + text
    if len(text) <= MAX_ID_BYTES // 4 or len(text.encode()) <= MAX_ID_BYTES:
        return text
    return _HASHED + hashlib.sha256(text.encode()).hexdigest()


def key_of(text: str, columns: int) -> Key:
    """Split an id into its key of so many columns again; `id_text` of what this gives is the same id.

    A hash does not lead back, nor does an id that somebody else made up and that no key has: such a key holds
    the id alone, and `is_id_alone` tells so.
    """
    if text.startswith(_HASHED) or _UNKNOWN in text:
        return (_UNKNOWN, text)
    key = _split(text.removeprefix(_MARK), columns)
    return key if id_text(key) == text else (_UNKNOWN, text)


def _split(text: str, columns: int) -> Key:
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


def is_id_alone(key: Key) -> bool:
    """Tell a key of which only the id is known."""
    return key[0] == _UNKNOWN


def is_hashed(key: Key) -> bool:
    """Tell a key of which only the id is known, a hash: some row may have it."""
    return key[0] == _UNKNOWN and len(key) == 2 and key[1].startswith(_HASHED)


def without_row(key: Key) -> Key:
    """Say of a key whose id alone is known that no row has it."""
    return (*key[:2], "")


def joined(key: Sequence[str]) -> str:
    """Write a key as one text: two keys of as many columns never give the same."""
    return key[0] if len(key) == 1 else SEPARATOR.join(map(_escaped, key))


def _escaped(part: str) -> str:
    return part.replace(ESCAPE, ESCAPE * 2).replace(SEPARATOR, ESCAPE + SEPARATOR)


class Write(NamedTuple):
    """One document as it is now: finished JSON text, or None when the row is gone.

    The id comes from `id_text`: one that every sink takes. A tuple, since there are many: it is made in a
    third of the time.
    """

    id: str
    version: int
    body: bytes | None
    tokens: bytes | None = None
    """What to find it by when a row that it contains goes, as a JSON array of texts; None when that is not
    known: then it is found as before."""


UNBUILT = "cannot be built"
"""How the reason of a document begins that no sink has seen: its rows cannot be made into one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that a sink will never take as it is, or that cannot be built."""

    index: str
    id: str
    version: int
    """Of the attempt: it holds the WAL position that the document was built at."""
    sink: str
    reason: str
    at: float = 0.0
    """When it was last refused, in Unix time."""
    attempts: int = 1
    """How often; kept by the sink."""


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
    backed_off_s: float = 0.0
    """How long it waited because the sink could not keep up."""


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What one task did: counts, refusals, and its failure if it had one. Travels to the driver."""

    index: str
    version: int = 0
    documents: int = 0
    """How many were built, each counted once, whatever the number of sinks."""
    written: int = 0
    removed: int = 0
    superseded: int = 0
    bytes: int = 0
    refusals: tuple[Refusal, ...] = ()
    newest_conflict: int = 0
    failure: FlussoError | None = None
    is_overflow: bool = False
    """More documents than one task should build: nothing was written, spread them instead."""
    owes: Owed | None = None
    """Which documents of the index must be built anew, and why; such a report says nothing else."""
    deferred: tuple[tuple[str, Write], ...] = field(default=())
    """(sink, write) pairs for sinks that live beside the driver."""
    backed_off_s: float = 0.0
    """How long it waited, all its requests together, because a sink could not keep up."""
