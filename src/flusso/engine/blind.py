"""Blind relations, said out loud: what keeps them exact, or which change leaves which documents stale.

`check`, `run`, `status` and `verify` all take their words from here, so a relation is called the same
everywhere. A relation is blind when the WAL does not carry the old link of a row that is deleted or moved:
the document that it was part of cannot be told from the change. Where documents keep references it is found
by them, at their price; elsewhere it goes stale. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from flusso.builder.check.lookups import rounded
from flusso.builder.plan import IndexPlan, Path
from flusso.capture.identity import IdentityNeed
from flusso.catalog import TableName
from flusso.diagnostic import Code, Diagnostic
from flusso.sinks.base import States

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
    reference: str = ""
    """The reference that documents keep instead, as a sink remembers it; empty where they do not."""
    rows: float = 0.0
    """An estimate of the references that one document has here; 0 when nothing is known."""
    all_rows: float = 0.0
    """The same of all places of a document together."""
    is_costly: bool = False
    """Whether there are so many references that the identity is the better choice, and can be had."""
    note: str = ""
    """What else there is to say."""

    @property
    def is_kept(self) -> bool:
        """Whether references keep it exact."""
        return bool(self.reference)

    @property
    def cost(self) -> str:
        """Say what the references cost, as far as statistics tell."""
        return f"about {rounded(self.rows):,} references in a document" if self.rows > 0 else ""

    @property
    def place(self) -> str:
        """Name what goes stale: the index, and the field in it."""
        return f"{self.index}.{self.field}" if self.field else f"its document in {self.index}"

    @property
    def effect(self) -> str:
        """Say which change leaves what stale, and why; or what keeps it exact."""
        return _effect(self, (self.place,))

    @property
    def remedy(self) -> str:
        """Give the SQL that ends it, or why there is none. It can be pasted as it is.

        Of what references keep exact: what they cost, with the SQL where that is too much.
        """
        sql = " ".join(f"{statement};" for statement in self.sql)
        if self.is_kept:
            of_all = f" that has {rounded(self.all_rows):,} in all" if self.all_rows > self.rows else ""
            return f"{sql} -- instead of {self.cost}{of_all}" if self.is_costly else self.cost
        if self.sql:
            return f"{sql} -- {HEALS}"
        return "; ".join((*self.reasons, HEALS))

    def finding(self) -> Diagnostic:
        """Tell it as a finding about the field."""
        code = Code.BLIND_RELATION
        if self.is_kept:
            code = Code.MANY_REFERENCES if self.is_costly else Code.KEPT_BY_REFERENCES
        return Diagnostic(code, self.effect, self.remedy or None, index=self.index, field=self.field)


@dataclass(frozen=True, slots=True)
class Seen:
    """One relation of an index whose old links the WAL carries: it is exact by itself."""

    index: str
    field: str
    table: TableName
    columns: tuple[str, ...]


def find_seen(plans: Iterable[IndexPlan], needs: Collection[IdentityNeed]) -> Iterator[Seen]:
    """List each relation whose old links the identity of its table shows."""
    for plan in plans:
        for path in plan.paths:
            if path.field and not any(_lacks(need, path) for need in needs):
                yield Seen(plan.index, path.field, path.table, path.columns)


def find_exact(plan: IndexPlan, needs: Collection[IdentityNeed]) -> frozenset[str]:
    """Name the paths, by `Path.place`, whose old links no identity leaves out."""
    return frozenset(path.place for path in plan.paths if not any(_lacks(need, path) for need in needs))


def find_blind(plans: Iterable[IndexPlan], needs: Collection[IdentityNeed]) -> Iterator[Blind]:
    """List each place whose old links the identity of a table does not show."""
    for plan in plans:
        kept = {(each.field, each.table): str(each) for each in plan.references}
        for path in plan.paths:
            lacking = [need for need in needs if _lacks(need, path)]
            if lacking:
                sql = dict.fromkeys(need.sql for need in lacking if need.sql)
                reasons = dict.fromkeys(f"{need.leaf} {need.reason}" for need in lacking if need.reason)
                yield Blind(
                    plan.index,
                    path.field,
                    path.table,
                    path.columns,
                    tuple(sql),
                    tuple(reasons),
                    kept.get((path.field, path.table), ""),
                )


def weigh(blind: Sequence[Blind], most: int) -> Iterator[Blind]:
    """Say where the identity is the better choice: for the tables with the most references in a document,
    until what is left there is no more than that many."""
    costly: set[tuple[str, TableName]] = set()
    totals: dict[str, float] = {}
    for index in {one.index for one in blind}:
        kept = [one for one in blind if one.index == index and one.is_kept]
        weights = _weights(kept)
        left = totals[index] = sum(weights.values())
        mendable = {one.table for one in kept if one.sql}
        for table in sorted(mendable, key=lambda table: (-weights[table], table)):
            if left > most:
                costly.add((index, table))
                left -= weights[table]
    for one in blind:
        is_costly = one.is_kept and bool(one.sql) and (one.index, one.table) in costly
        yield replace(one, all_rows=totals[one.index], is_costly=is_costly)


def _weights(kept: Iterable[Blind]) -> dict[TableName, float]:
    """Count the references to each table. Places with the same link share them: the largest has them all."""
    most: dict[tuple[TableName, tuple[str, ...]], float] = {}
    for one in kept:
        most[one.table, one.columns] = max(one.rows, most.get((one.table, one.columns), 0.0))
    found: dict[TableName, float] = {}
    for (table, _), rows in most.items():
        found[table] = found.get(table, 0.0) + rows
    return found


def as_served(blind: Iterable[Blind], states: Collection[States]) -> Iterator[Blind]:
    """Tell what the generations that readers see have no references for: stale until another serves."""
    for one in blind:
        serving = [state for state in (each.serving(one.index) for each in states) if state is not None]
        if one.is_kept and any(one.reference not in state.references for state in serving):
            note = "until a new generation, which keeps references, serves"
            yield replace(one, reference="", note=note)
        else:
            yield one


def sum_up(blind: Sequence[Blind]) -> Iterator[tuple[str, str]]:
    """Give what goes stale and the remedy, once for each table and link however many places it has."""
    groups: dict[tuple[TableName, tuple[str, ...], str, str], list[Blind]] = {}
    for one in blind:
        groups.setdefault((one.table, one.columns, one.remedy, one.note), []).append(one)
    for group in groups.values():
        most = max(group, key=lambda one: one.rows)
        yield _effect(most, tuple(dict.fromkeys(one.place for one in group))), most.remedy


def _effect(one: Blind, places: Sequence[str]) -> str:
    columns, where = ", ".join(one.columns), ", ".join(places)
    if one.is_kept:
        exact = f"{where} is kept exact by references to rows of {one.table}"
        return f"{exact}: the WAL does not carry their old {columns}"
    lack = f"the WAL does not carry its old {columns}"
    stale = f"a row of {one.table} that is deleted or moved leaves {where} stale"
    return f"{stale}{' ' + one.note if one.note else ''}: {lack}"


def _lacks(need: IdentityNeed, path: Path) -> bool:
    return need.table == path.table and not set(path.columns).isdisjoint(need.lacking)
