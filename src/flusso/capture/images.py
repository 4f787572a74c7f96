"""The rows of a change as the log has them: where their watched columns are, and what of them has changed.

Pure, and the hottest code of the capture. A row is read in place, column by column; what does not fit is a
`ValueError`, and whoever called has the message decoded in full to say what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from flusso.capture.pgoutput import Relation
from flusso.catalog import TableName
from flusso.change import UNCHANGED, Values, WatchedTable

INSERT, UPDATE, DELETE = b"IUD"
NEW, KEY, OLD = b"NKO"
_TEXT, _NULL, _TOAST = b"tnu"
PAD = b"\0\0\0\0"
"""Lets the head of a last column without a length be read like any other."""
_read_width = Struct(">H").unpack_from
_read_head = Struct(">BI").unpack_from


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the watched columns of a relation are: per column its place in the row, or -1 to skip."""

    number: int
    table: TableName
    width: int
    count: int
    """Watched columns; 0 when the relation lacks one of them, and its rows cannot be told apart."""
    places: tuple[int, ...]
    key_places: tuple[int, ...]
    """The same for an old tuple that carries the identity alone: all else in it is unknown."""
    last_places: tuple[int, ...]
    """The same for the last tuple of a message: nobody needs to know where it ends, so not even the lengths
    of the columns after the last watched one are read."""
    is_blind: bool
    """Whether its old rows lack link columns. The relation message tells it as it was when the rows were
    written, whatever the catalog says by now."""
    compared: tuple[int, ...]
    """For each column of the relation, up to the last one read, the bit that tells its change, 0 for one that
    is not read. Empty when that cannot be told: a column that is read may be missing in it."""


def find_compared(table: WatchedTable, relation: Relation) -> tuple[int, ...]:
    """Say which columns of a relation to compare; none unless it has all that is read."""
    names = [column.name for column in relation.columns]
    if not set(table.read) <= set(names):
        return ()
    known = table.bits()
    bits = [known.get(name, 0) for name in names]
    return tuple(bits[: max((at + 1 for at, bit in enumerate(bits) if bit), default=0)])


def compare(data: bytes, old: int, new: int, compared: tuple[int, ...]) -> int:
    """Compare two tuples byte by byte; give the bits of the columns that are not the same."""
    changed = 0
    for bit in compared:
        kind, length = _read_head(data, old)
        old_end = old + (5 + length if kind == _TEXT else 1)
        kind, length = _read_head(data, new)
        new_end = new + (5 + length if kind == _TEXT else 1)
        # What is left out because it is large and was not touched is as it was.
        if bit and kind != _TOAST and data[old:old_end] != data[new:new_end]:
            changed |= bit
        old, new = old_end, new_end
    return changed


def read_images(
    kind: int, mark: int, data: bytes, at: int, plan: Plan
) -> tuple[Values, Values | None, int, int]:
    """Read a padded change that carries an old tuple: both, their size, and where the new one begins.

    It raises if it is none.
    """
    if kind == INSERT or (mark != KEY and mark != OLD):
        raise ValueError
    old, at, size = read_tuple(data, at, plan.count, plan.key_places if mark == KEY else plan.places)
    new: Values | None = None
    new_at = at + 3
    if kind == UPDATE:
        if data[at] != NEW or _read_width(data, at + 1)[0] != plan.width:
            raise ValueError
        new, at, new_size = read_tuple(data, new_at, plan.count, plan.last_places)
        size += new_size
    if at != len(data) - 4 and not (new is not None and is_cut(plan, at, data)):
        raise ValueError
    return old, new, size, new_at


def show_identity(plan: Plan, new: Values) -> Values:
    """Give the old row of an update that came without one: its identity, which is as it was, and no more."""
    shown: list[str | None] = [None] * plan.count
    for place in plan.key_places:
        if place >= 0:
            shown[place] = new[place]
    return tuple(shown)


def is_cut(plan: Plan, end: int, data: bytes) -> bool:
    """Whether reading ended within the message because nothing after it is watched."""
    return len(plan.last_places) < plan.width and end < len(data) - len(PAD)


def read_tuple(data: bytes, at: int, count: int, places: tuple[int, ...]) -> tuple[Values, int, int]:
    """Read the wanted columns of the tuple at `at`; give them, where it ends, and their size."""
    values: list[str | None] = [None] * count
    size = 0
    for place in places:
        kind, length = _read_head(data, at)
        if kind == _TEXT:
            at += 5
            end = at + length
            if place >= 0:
                values[place] = text = data[at:end].decode()
                if text == UNCHANGED:
                    raise ValueError
                size += length
            at = end
        elif kind == _NULL:
            at += 1
        elif kind == _TOAST:
            at += 1
            if place >= 0:
                values[place] = UNCHANGED
        else:
            raise ValueError
    return tuple(values), at, size
