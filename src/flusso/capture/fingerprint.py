"""Whether a publication has held a table all the time since it was last looked at.

A publication that is dropped and made again, or a table that is taken out and added again, looks the same
afterwards; the changes made in between were never sent. (Before Postgres 18 decoding fails on them, since 18
it only warns.) But the rows of the catalog are others then. Their oids and xmins are kept in the sink's state
for each index and compared at every start and while running. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flusso.capture.leaves import Leaves
from flusso.catalog import TableName
from flusso.errors import CoverageGap, PublicationYounger


@dataclass(frozen=True, slots=True)
class Gap:
    """Why changes may not have been sent."""

    reason: str
    is_replaced: bool = False
    """Whether the publication itself is another one than it was: the slot cannot go on from before it."""

    def error(self, slot: str, index: str = "") -> CoverageGap:
        """Give it as the typed error with its remedy; without an index it is about all of them."""
        what = f'{self.reason}: changes of index "{index}" may be lost' if index else self.reason
        if self.is_replaced:
            return PublicationYounger(
                f'{what}, and slot "{slot}" is older than the publication '
                "(before Postgres 18 decoding fails for ever, since 18 it drops changes)",
                hint='run flusso slot drop and flusso reindex --all, or set source.on_slot_lost = "reseed"',
            )
        reindex = f"run flusso reindex {index}" if index else "run flusso reindex --all"
        return CoverageGap(what, hint=f'{reindex}, or set source.on_slot_lost = "reseed"')


@dataclass(frozen=True, slots=True)
class Marks:
    """The catalog rows by which a publication holds some tables, as short texts."""

    publication: str
    """Its name."""
    mark: str | None
    """Its own row; None when there is no such publication."""
    held: Mapping[TableName, Mapping[TableName, frozenset[str]]] = field(default_factory=dict)
    """By table and leaf the rows that hold it."""

    def fingerprint(self, tables: Collection[TableName]) -> str:
        """Write down the rows that concern these tables."""
        rows = {row for table in tables for leaf in self.held.get(table, {}).values() for row in leaf}
        return " ".join(sorted({self.mark or "", *rows} - {""}))

    def find_gap(self, fingerprint: str, tables: Collection[TableName]) -> Gap | None:
        """Say why changes of these tables may not have been sent since the fingerprint was taken.

        A table may have been added in a second way, or a partition have come: what counts is that each leaf
        is still held by a row that was there. An empty fingerprint, of an older release, proves nothing.
        """
        name = f'publication "{self.publication}"'
        if self.mark is None:
            return Gap(f"{name} does not exist", is_replaced=True)
        known = frozenset(fingerprint.split())
        if known and self.mark not in known:
            is_altered = any(row.startswith(self.mark.partition(".")[0] + ".") for row in known)
            if is_altered:
                return Gap(f"{name} was altered since")
            return Gap(f"{name} was dropped and made again", is_replaced=True)
        for table in sorted(tables):
            for leaf, rows in sorted(self.held.get(table, {}).items()):
                if not rows:
                    return Gap(f"{name} does not hold {leaf}")
                if known and not rows & known:
                    return Gap(f"{leaf} was added to {name} since, perhaps after it was taken out")
        return None


def mark_of(oid: int, xmin: str) -> str:
    """Write the row of a publication down."""
    return f"p{oid}.{xmin}"


def marks_of(publication: str, mark: str | None, leaves: Leaves) -> Marks:
    """Pick from what was read of tables the rows of one publication."""
    held = {
        table: {
            leaf.name: frozenset(hold.row for hold in leaf.holds if hold.publication == publication)
            for leaf in found
        }
        for table, found in leaves.by_table.items()
    }
    return Marks(publication, mark, held)
