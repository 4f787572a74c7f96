"""Blind relations, said out loud: which change leaves which documents stale, and the SQL that ends it.

`check`, `run`, `status` and `verify` all take their words from here, so a relation is called the same
everywhere. A relation is blind when the WAL does not carry the old link of a row that is deleted or moved:
the document that it was part of cannot be found. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from flusso.builder.plan import IndexPlan, Path
from flusso.capture.identity import IdentityNeed
from flusso.catalog import TableName
from flusso.diagnostic import Code, Diagnostic

HEALS = "flusso verify --repair heals what is stale already"


@dataclass(frozen=True, slots=True)
class Blind:
    """One place of an index whose documents go stale."""

    index: str
    field: str
    """Dotted name in the document, empty for the document itself."""
    table: TableName
    columns: tuple[str, ...]
    """Whose old values the WAL lacks."""
    sql: tuple[str, ...]
    """What makes it exact; empty when no statement can."""
    reasons: tuple[str, ...] = ()
    """Why none can."""

    @property
    def place(self) -> str:
        """Name what goes stale: the index, and the field in it."""
        return f"{self.index}.{self.field}" if self.field else f"its document in {self.index}"

    @property
    def effect(self) -> str:
        """Say which change leaves what stale, and why."""
        return _effect(self.table, (self.place,), self.columns)

    @property
    def remedy(self) -> str:
        """Give the SQL that ends it, or why there is none. It can be pasted as it is."""
        if self.sql:
            return " ".join(f"{statement};" for statement in self.sql) + f" -- {HEALS}"
        return "; ".join((*self.reasons, HEALS))

    def finding(self) -> Diagnostic:
        """Tell it as a finding about the field."""
        return Diagnostic(Code.BLIND_RELATION, self.effect, self.remedy, index=self.index, field=self.field)


def find_blind(plans: Iterable[IndexPlan], needs: Collection[IdentityNeed]) -> Iterator[Blind]:
    """List each place whose old links the identity of a table does not show."""
    for plan in plans:
        for path in plan.paths:
            lacking = [need for need in needs if _lacks(need, path)]
            if lacking:
                sql = dict.fromkeys(need.sql for need in lacking if need.sql)
                reasons = dict.fromkeys(f"{need.leaf} {need.reason}" for need in lacking if need.reason)
                yield Blind(plan.index, path.field, path.table, path.columns, tuple(sql), tuple(reasons))


def sum_up(blind: Sequence[Blind]) -> Iterator[tuple[str, str]]:
    """Give what goes stale and the remedy, once for each table and link however many places it has."""
    groups: dict[tuple[TableName, tuple[str, ...], str], list[str]] = {}
    for one in blind:
        groups.setdefault((one.table, one.columns, one.remedy), []).append(one.place)
    for (table, columns, remedy), places in groups.items():
        yield _effect(table, tuple(dict.fromkeys(places)), columns), remedy


def _effect(table: TableName, places: Sequence[str], columns: Sequence[str]) -> str:
    return (
        f"a row of {table} that is deleted or moved leaves {', '.join(places)} stale: "
        f"the WAL does not carry its old {', '.join(columns)}"
    )


def _lacks(need: IdentityNeed, path: Path) -> bool:
    return need.table == path.table and not set(path.columns).isdisjoint(need.lacking)
