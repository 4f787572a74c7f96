"""The publication: does it send every change of the tables that are watched, and may it be made to?

`inspect_coverage` looks and changes nothing; `ensure_coverage` creates or extends the publication where it is
allowed to, and reports otherwise. The rule is to do no harm: a table whose UPDATEs and DELETEs Postgres would
then refuse is never published, and no statement that leads there is ever advised.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flusso.capture.blockers import (
    Blocker,
    find_blockers,
    find_setting_blockers,
    hold_in,
    of_exception,
    of_parent,
)
from flusso.capture.fingerprint import Gap, Marks, mark_of, marks_of
from flusso.capture.harm import find_unpublishable
from flusso.capture.identity import IdentityNeed, find_need
from flusso.capture.leaves import Leaf, Leaves, read_leaves
from flusso.capture.locks import change_locked
from flusso.capture.publication import Publication, read_publication, read_unneeded
from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.diagnostic import Code, Diagnostic
from flusso.errors import PublicationError
from flusso.postgres.connect import Connection
from flusso.postgres.identifiers import quote, quote_table


@dataclass(frozen=True, slots=True)
class Coverage:
    """How a publication stands to the tables that it should cover."""

    publication: str
    exists: bool
    satisfied: tuple[TableName, ...]
    """Every change of these is sent."""
    missing: tuple[TableName, ...]
    """These could be added and are not there, or not with all their partitions."""
    by_partitions: tuple[TableName, ...]
    """Satisfied ones of which only the partitions are there: a new partition would not be."""
    blockers: tuple[Blocker, ...]
    """What must be mended first, by someone else."""
    barred: str | None
    """Why this role may not create or extend the publication, if it may not."""
    unneeded: tuple[TableName, ...]
    """Tables that the publication names and nobody here needs. They are left alone."""
    identities: tuple[IdentityNeed, ...]
    """What lacks to see the old place of every deleted and moved row."""
    marks: Marks
    change_sql: str | None = None
    """What creates or extends the publication."""

    @property
    def is_satisfied(self) -> bool:
        """Whether there is nothing to do."""
        return self.exists and not self.missing and not self.blockers

    @property
    def is_manageable(self) -> bool:
        """Whether `ensure_coverage` can supply what is missing."""
        return not self.blockers and self.barred is None

    @property
    def remediation_sql(self) -> tuple[str, ...]:
        """Give the statements, in order, by which an owner mends all that a statement can mend."""
        change = () if self.change_sql is None else (self.change_sql,)
        return (*(sql for blocker in self.blockers for sql in blocker.sql), *change)

    def findings(self, *, manage: bool) -> Iterator[Diagnostic]:
        """Tell all that keeps it from being satisfied, and what is merely worth knowing."""
        yield from (blocker.diagnostic() for blocker in self.blockers)
        if not self.exists or self.missing:
            if not manage:
                yield Diagnostic(Code.UNFIT_PUBLICATION, self._lack(), self.change_sql)
            elif self.barred is not None:
                yield Diagnostic(Code.UNFIT_PUBLICATION, self.barred, f"as the owner: {self.change_sql}")
        elif self.by_partitions and (not manage or self.barred is not None):
            names = ", ".join(map(str, self.by_partitions))
            message = (
                f'publication "{self.publication}" names only the partitions of {names}, not those to come'
            )
            yield Diagnostic(Code.NEW_PARTITIONS, message, self.change_sql)
        for table in self.unneeded:
            message = f'publication "{self.publication}" sends {table}, which no index needs'
            sql = f"alter publication {quote(self.publication)} drop table {quote_table(table)}"
            yield Diagnostic(Code.UNNEEDED_TABLE, message, sql)

    def _lack(self) -> str:
        what = f"does not cover {', '.join(map(str, self.missing))}" if self.exists else "does not exist"
        return f'publication "{self.publication}" {what}'


def inspect_coverage(
    conn: Connection, publication: str, required: Sequence[WatchedTable], *, manages_identity: bool = False
) -> Coverage:
    """Compare the publication with what is required of it; changes nothing.

    `manages_identity` says that identities will be set first, so one that this role can set is no blocker.
    """
    facts = read_publication(conn, publication)
    leaves = read_leaves(conn, [table.name for table in required])
    blockers = list(find_setting_blockers(conn, facts))
    satisfied, missing, by_partitions = [], [], []
    needs: list[IdentityNeed] = []
    for table in sorted(required, key=lambda one: one.name):
        own = [need for leaf in leaves.by_table.get(table.name, ()) if (need := _need(leaf, table, facts))]
        needs += own
        mended = {
            need.leaf: need.choice for need in own if manages_identity and need.is_owned and need.choice
        }
        found = list(find_blockers(table, leaves, facts, mended))
        blockers += found
        if found:
            continue
        if not facts.exists or not _is_held(table.name, leaves, publication):
            if facts.is_for_all:
                blockers.append(of_exception(table.name, publication))
            else:
                missing.append(table.name)
            continue
        satisfied.append(table.name)
        if not _is_held_above(table.name, leaves, publication):
            by_partitions.append(table.name)
    wanted = (*missing, *by_partitions)
    return Coverage(
        publication,
        facts.exists,
        tuple(satisfied),
        tuple(missing),
        tuple(by_partitions),
        tuple(blockers),
        _barred(facts, wanted, leaves),
        tuple(
            read_unneeded(
                conn, publication, [table.name for table in required], [leaf.oid for leaf in leaves]
            )
        ),
        tuple(needs),
        marks_of(publication, mark_of(facts.oid, facts.xmin) if facts.exists else None, leaves),
        _change_sql(facts, wanted),
    )


def ensure_coverage(
    conn: Connection,
    publication: str,
    required: Sequence[WatchedTable],
    *,
    manage: bool,
    known: Coverage | None = None,
    stop: threading.Event | None = None,
) -> Coverage:
    """Make the publication cover the tables, or raise what keeps it from doing so; gives how it stands after.

    `known` is a look taken a moment ago. The connection is in autocommit.
    """
    coverage = known or inspect_coverage(conn, publication, required)
    if coverage.blockers:
        raise coverage.blockers[0].error()
    if coverage.change_sql is None or (coverage.is_satisfied and not (manage and coverage.is_manageable)):
        return coverage
    finding = next(iter(coverage.findings(manage=manage)), None)
    if not coverage.is_satisfied and finding is not None and finding.code is Code.UNFIT_PUBLICATION:
        raise PublicationError(finding.message, hint=finding.hint)
    tables = [*coverage.missing, *coverage.by_partitions]
    change_locked(conn, coverage.change_sql, tables, f'change publication "{publication}"', stop=stop)
    return inspect_coverage(conn, publication, required)


def check_exists(conn: Connection, name: str, slot: str) -> None:
    """Refuse to follow a publication that is not there: Postgres 18 would only warn and send nothing."""
    if not read_publication(conn, name).exists:
        raise Gap(f'publication "{name}" does not exist', is_replaced=True).error(slot)


def read_marks(conn: Connection, publication: str, tables: Sequence[TableName]) -> Marks:
    """Read by which catalog rows the tables are published now; refuse those that others inherit from."""
    facts = read_publication(conn, publication)
    leaves = read_leaves(conn, tables)
    for table in sorted(leaves.parents):
        raise of_parent(table).error()
    return marks_of(publication, mark_of(facts.oid, facts.xmin) if facts.exists else None, leaves)


def _need(leaf: Leaf, table: WatchedTable, facts: Publication) -> IdentityNeed | None:
    if find_unpublishable(leaf) is not None:
        return None
    return find_need(leaf, table.links or table.columns, hold_in(leaf, facts), facts.server_version)


def _is_held(table: TableName, leaves: Leaves, publication: str) -> bool:
    found = leaves.by_table[table]
    if not found:
        return _is_held_above(table, leaves, publication)
    return all(any(hold.publication == publication for hold in leaf.holds) for leaf in found)


def _is_held_above(table: TableName, leaves: Leaves, publication: str) -> bool:
    """Say whether partitions to come are held as well; true of a table that has none."""
    holds = leaves.root_holds.get(table)
    return holds is None or any(hold.publication == publication for hold in holds)


def _change_sql(facts: Publication, tables: Sequence[TableName]) -> str | None:
    listed = ", ".join(quote_table(table) for table in tables)
    if facts.exists:
        return f"alter publication {quote(facts.name)} add table {listed}" if tables else None
    target = f" for table {listed}" if tables else ""
    settings = ", ".join(f"{name} = {value}" for name, value in facts.settings_of_new.items())
    return f"create publication {quote(facts.name)}{target} with ({settings})"


def _barred(facts: Publication, tables: Sequence[TableName], leaves: Leaves) -> str | None:
    """Say why the role may not create or extend the publication, or None when it may."""
    foreign = [str(table) for table in tables if table in leaves.foreign]
    needs = [f"own {', '.join(foreign)}"] if foreign else []
    if facts.exists and tables and not facts.is_owned:
        needs.append("own the publication")
    if not facts.exists and not facts.may_create:
        needs.append("have CREATE on the database")
    if not needs:
        return None
    verb = "extend" if facts.exists else "create"
    return f'role "{facts.role}" may not {verb} publication "{facts.name}": it must {" and ".join(needs)}'
