"""Rows of the resolution matrix: what may happen to a row at one kind of place, and what that touches.

Each function gives the cells of one row of the matrix. A place is told by SQL: which row is changed, how a
new one looks, which column leads where. The row that is changed is shown by document `own`; `other` is where
it moves to.
"""

from __future__ import annotations

from dataclasses import dataclass

from matrix import OWED, Columns


@dataclass(frozen=True, slots=True)
class Child:
    """A row that says itself which parent it belongs to: of `has_one`, `has_many`, of an aggregate."""

    table: str
    row: str
    """Which one is changed."""
    new: str
    """Another one of the same parent."""
    moved: str
    """What leads it to the other parent."""
    key: str
    """What gives it another key."""
    hidden: str = ""
    """One of the other parent's that a filter leaves out."""
    gone: str = ""
    """One of the other parent's that is deleted softly."""


def child_cells(child: Child, *, own: str = "1", other: str = "2") -> Columns:
    """Change a child in every way."""
    table, row, both = child.table, child.row, f"{own} {other}"
    found: Columns = {
        "insert": (f"insert into {table} values ({child.new})", own),
        "update, link kept": (f"update {table} set v = 9 where {row}", own),
        "link moved": (f"update {table} set {child.moved} where {row}", both),
        "key changed": (f"update {table} set {child.key} where {row}", own),
        "key changed and link moved": (f"update {table} set {child.key}, {child.moved} where {row}", both),
        "delete": (f"delete from {table} where {row}", own),
        "truncate": (f"truncate {table}", OWED),
    }
    if child.hidden:
        found |= {
            "leaves by a filter": (f"update {table} set v = -1 where {row}", own),
            "leaves by a filter and link moved": (
                f"update {table} set v = -1, {child.moved} where {row}",
                both,
            ),
            "comes by a filter": (f"update {table} set v = 1 where {child.hidden}", other),
        }
    if child.gone:
        found |= {
            "is deleted softly": (f"update {table} set gone = true where {row}", own),
            "is restored": (f"update {table} set gone = false where {child.gone}", other),
        }
    return found


@dataclass(frozen=True, slots=True)
class Referred:
    """A row that others refer to: the target of `belongs_to`, the far side of a junction."""

    table: str
    row: str
    """Which one is changed."""
    new: str
    """One that is not there, and that the other document refers to already."""
    key: str
    """What gives the row the key of the one that is not there."""
    shared: str = ""
    """One that both documents show."""
    hidden: str = ""
    """One of the other document's that a filter leaves out."""
    gone: str = ""
    """One of the other document's that is deleted softly."""


def referred_cells(
    referred: Referred, *, insert: str = "insert", own: str = "1", other: str = "2"
) -> Columns:
    """Change in every way what others refer to."""
    table, row, both = referred.table, referred.row, f"{own} {other}"
    found: Columns = {
        insert: (f"insert into {table} values ({referred.new})", other),
        "update": (f"update {table} set v = 9 where {row}", own),
        "key changed": (f"update {table} set {referred.key} where {row}", both),
        "delete": (f"delete from {table} where {row}", own),
        "truncate": (f"truncate {table}", OWED),
    }
    if referred.shared:
        found |= {
            "update of one that several show": (f"update {table} set v = 9 where {referred.shared}", both),
            "delete of one that several show": (f"delete from {table} where {referred.shared}", both),
        }
    if referred.hidden:
        found |= {
            "leaves by a filter": (f"update {table} set v = -1 where {row}", own),
            "comes by a filter": (f"update {table} set v = 1 where {referred.hidden}", other),
        }
    if referred.gone:
        found |= {
            "is deleted softly": (f"update {table} set gone = true where {row}", own),
            "is restored": (f"update {table} set gone = false where {referred.gone}", other),
        }
    return found


@dataclass(frozen=True, slots=True)
class Junction:
    """A row that links a document with what it shows."""

    table: str
    row: str
    """Which one is changed."""
    new: str
    """Another one, from the same document to what nobody shows."""
    left: str
    """What leads it to the other document."""
    right: str
    """What leads it to what nobody shows."""
    key: str = ""
    """What gives it another key, if it has one of its own."""
    hidden: str = ""
    """One of the other document's that a filter leaves out."""


def junction_cells(junction: Junction, *, own: str = "1", other: str = "2") -> Columns:
    """Change a row of a junction in every way."""
    table, row, both = junction.table, junction.row, f"{own} {other}"
    found: Columns = {
        "insert": (f"insert into {table} values ({junction.new})", own),
        "update, link kept": (f"update {table} set v = 9 where {row}", own),
        "left link moved": (f"update {table} set {junction.left} where {row}", both),
        "right link moved": (f"update {table} set {junction.right} where {row}", own),
        "both links moved": (f"update {table} set {junction.left}, {junction.right} where {row}", both),
        "delete": (f"delete from {table} where {row}", own),
        "truncate": (f"truncate {table}", OWED),
    }
    if junction.key:
        found["key changed"] = (f"update {table} set {junction.key} where {row}", own)
    if junction.hidden:
        found |= {
            "leaves by a filter": (f"update {table} set v = -1 where {row}", own),
            "comes by a filter": (f"update {table} set v = 1 where {junction.hidden}", other),
        }
    return found
