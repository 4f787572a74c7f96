"""A change of one watched row, as thin as resolving needs it.

Capture makes changes from the WAL; resolve turns them into document ids. A change carries only the
watched columns of its table (key and link columns), as Postgres prints them, old and new.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flusso.catalog import TableName
from flusso.lsn import Lsn

UNCHANGED: Final = "\x00"
"""Stands for a large value that the UPDATE did not touch and the WAL does not repeat. No Postgres text
holds this character."""

ALL: Final = -1
"""In place of the columns that an update changed: any of them may have been."""

Values = tuple[str | None, ...]
"""The watched columns of one row, in the order of `WatchedTable.columns`."""


class Operation(StrEnum):
    """What happened to the row."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    UNREAD = "x"
    """Some rows changed while the table lacked a watched column, by that name: which ones cannot be told."""


_LAST_BIT = 61


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table that capture follows, with the columns that it extracts."""

    name: TableName
    columns: tuple[str, ...]
    partitions: tuple[TableName, ...] | None = None
    """Of a partitioned table those that hold its rows: a change of theirs is one of its own."""
    links: tuple[str, ...] = ()
    """Of the columns those that lead to documents: what an old row must show."""
    oid: int = 0
    """By which its changes are known even under another name; 0 when it is not known."""
    read: tuple[str, ...] = ()
    """Every column that documents are made from: an update that changes none of them is left out. Without
    any, none is."""

    def bits(self) -> dict[str, int]:
        """Give each column read the bit by which a change tells that it changed; the last ones share one."""
        return {name: 1 << min(place, _LAST_BIT) for place, name in enumerate(self.read)}


@dataclass(frozen=True, slots=True)
class Change:
    """One row's change.

    `old` is there when the replica identity gives an old row, and always when the change is blind; columns
    outside the identity are None in it, which is *unknown*, not null. `new` is there for inserts and updates.
    A truncate has neither, nor has what could not be read.
    """

    table: TableName
    operation: Operation
    old: Values | None
    new: Values | None
    commit_lsn: Lsn
    ordinal: int
    """Raw messages of the transaction up to and including this one."""
    is_blind: bool = False
    """Whether it is an update or a delete whose old row, as it was written to the WAL, lacks link columns."""
    changed: int = ALL
    """Of an update whose whole old row is known: the bits of the columns read that are others now."""
