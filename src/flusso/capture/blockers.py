"""Why a table must not be published as things are, and the statements that mend it if any do.

Each statement is proposed only when the application's writes are proven to stay legal after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from flusso.capture.harm import find_harm, find_unpublishable, is_published
from flusso.capture.identity import choose_identity, identity_sql
from flusso.capture.leaves import GENERATED_PUBLISHABLE_SINCE, Hold, Identity, Leaf, Leaves, read_leaves
from flusso.capture.publication import OPERATIONS, Publication, read_sent
from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.diagnostic import Code, Diagnostic
from flusso.errors import PublicationError
from flusso.postgres.connect import Connection
from flusso.postgres.identifiers import quote, quote_table


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason not to publish."""

    table: TableName | None
    """None when it is about the publication itself."""
    reason: str
    sql: tuple[str, ...] = ()
    """What mends it, in order."""
    advice: str = ""
    """What to do where no statement does."""

    @property
    def hint(self) -> str | None:
        """Say what mends it."""
        return "; ".join(self.sql) or self.advice or None

    def diagnostic(self) -> Diagnostic:
        """Give it as a finding."""
        return Diagnostic(Code.UNFIT_PUBLICATION, self.reason, self.hint)

    def error(self) -> PublicationError:
        """Give it as the error that ends the attempt."""
        return PublicationError(self.reason, hint=self.hint)


def hold_in(leaf: Leaf, publication: Publication) -> Hold:
    """Say how a publication holds a leaf, or would hold it: what a filter or a list of a table leaves out, a
    publication of its whole schema sends all the same."""
    holds = [hold for hold in leaf.holds if hold.publication == publication.name]
    whole = [hold for hold in holds if not hold.row.startswith("r")]
    own = [hold for hold in holds if hold.is_own]
    new = Hold(publication.name, "", True, True, publication.generated)
    return next(iter((*whole, *own, *holds)), new)


def find_setting_blockers(conn: Connection, publication: Publication) -> Iterator[Blocker]:
    """Look at what the publication sends at all."""
    wanted: dict[str, str] = {}
    if publication.unsent:
        wanted["publish"] = f"'{', '.join(OPERATIONS)}'"
        reason = f'publication "{publication.name}" does not publish {", ".join(publication.unsent)}'
        yield _settings(conn, publication, reason, wanted)
    if publication.is_via_root:
        reason = (
            f'publication "{publication.name}" publishes partitions as their root, '
            "which hides a truncated partition"
        )
        yield _settings(conn, publication, reason, {"publish_via_partition_root": "false"})


def _settings(conn: Connection, publication: Publication, reason: str, wanted: Mapping[str, str]) -> Blocker:
    """Propose other settings, unless writes of another table that the publication holds would then fail."""
    for leaf in read_leaves(conn, read_sent(conn, publication.name)):
        holds = [
            replace(hold, sends_writes=True) for hold in leaf.holds if hold.publication == publication.name
        ]
        harm = find_harm(leaf, leaf.identity, holds, publication.server_version)
        if any(hold.columns or hold.filtered_by for hold in holds if not hold.is_own):
            harm = "has a filter or a column list by its partitioned table"
        if harm is not None:
            advice = f"choose another publication: this one also holds {leaf.name}, which {harm}"
            return Blocker(None, reason, advice=advice)
    values = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    return Blocker(None, reason, (f"alter publication {quote(publication.name)} set ({values})",))


def find_blockers(
    table: WatchedTable, leaves: Leaves, publication: Publication, mended: Mapping[TableName, Identity]
) -> Iterator[Blocker]:
    """Look at one table; `mended` has the identities that leaves will be given first."""
    if table.name not in leaves.by_table:
        reason = f"table {table.name} does not exist"
        yield Blocker(table.name, reason, advice="name it as the database does")
        return
    if table.name in leaves.parents:
        yield of_parent(table.name)
    for leaf in leaves.by_table[table.name]:
        blocker = _of_leaf(leaf, table, publication, mended.get(leaf.name, leaf.identity))
        if blocker is not None:
            yield blocker


def of_parent(table: TableName) -> Blocker:
    """Refuse a table that others inherit from: it is read with their rows, but they are published alone."""
    reason = (
        f"table {table} has tables that inherit from it: their rows are read with its own, "
        "but their changes would not be followed"
    )
    advice = "use declarative partitioning, or name a table without children"
    return Blocker(table, reason, advice=advice)


def of_exception(table: TableName, publication: str) -> Blocker:
    """Refuse a publication of all tables but this one: nothing can be added to it."""
    reason = f'publication "{publication}" is for all tables except {table}'
    return Blocker(table, reason, advice="choose another publication")


def _of_leaf(leaf: Leaf, table: WatchedTable, publication: Publication, identity: Identity) -> Blocker | None:
    why = find_unpublishable(leaf)
    if why is not None:
        is_mendable = leaf.kind == "r" and leaf.persistence == "u"
        sql = (f"alter table {quote_table(leaf.name)} set logged",) if is_mendable else ()
        return Blocker(leaf.name, f"table {leaf.name} {why}", sql)
    hold = hold_in(leaf, publication)
    holds = [one for one in leaf.holds if one.publication == publication.name] or [hold]
    if hold.filtered_by is not None:
        reason = (
            f'publication "{publication.name}" filters the rows of {leaf.name}, so changes would be missed'
        )
        return _anew(leaf, publication, reason)
    lacking = [column for column in table.columns if not is_published(leaf, column, hold)]
    if lacking:
        return _unpublished(leaf, publication, hold, lacking)
    harm = find_harm(leaf, identity, holds, publication.server_version)
    if harm is not None:
        return _harmed(leaf, table, publication, harm)
    return None


def _harmed(leaf: Leaf, table: WatchedTable, publication: Publication, harm: str) -> Blocker:
    """Propose another identity, or else that the leaf be held without a column list."""
    reason = f"table {leaf.name} {harm}"
    hold = hold_in(leaf, publication)
    for columns in (table.links or table.columns, ()):
        choice, _ = choose_identity(leaf, columns, hold, publication.server_version)
        if choice is not None:
            return Blocker(leaf.name, reason, (identity_sql(leaf.name, choice),))
    return _anew(leaf, publication, reason)


def _unpublished(leaf: Leaf, publication: Publication, hold: Hold, lacking: list[str]) -> Blocker:
    names = ", ".join(lacking)
    reason = f'publication "{publication.name}" does not publish {names} of {leaf.name}'
    if hold.columns is not None:
        return _anew(leaf, publication, reason, lacking)
    if publication.server_version < GENERATED_PUBLISHABLE_SINCE:
        reason = f"{names} of {leaf.name} is generated, and Postgres before 18 publishes no generated column"
        return Blocker(leaf.name, reason, advice="link by a column that is not generated")
    if any(leaf.columns.get(column) == "v" for column in lacking):
        reason = f"{names} of {leaf.name} is a virtual generated column, which is never published"
        return Blocker(leaf.name, reason, advice="link by a stored column")
    sql = f"alter publication {quote(publication.name)} set (publish_generated_columns = stored)"
    return Blocker(leaf.name, reason, (sql,))


def _anew(leaf: Leaf, publication: Publication, reason: str, lacking: list[str] | None = None) -> Blocker:
    """Propose to hold the leaf without filter and list, if that is possible and does no harm."""
    plain = Hold(publication.name, "", True, True, publication.generated)
    others = [hold for hold in leaf.holds if hold.publication != publication.name]
    harm = find_harm(leaf, leaf.identity, [plain, *others], publication.server_version)
    hidden = [column for column in lacking or () if not is_published(leaf, column, plain)]
    if not hold_in(leaf, publication).is_own:
        return Blocker(leaf.name, reason, advice="choose another publication")
    if harm is not None or hidden:
        what = harm or f"its column {hidden[0]} is generated"
        return Blocker(
            leaf.name, reason, advice=f"choose another publication: without a list or filter {what}"
        )
    name, table = quote(publication.name), quote_table(leaf.name)
    drop, add = f"alter publication {name} drop table {table}", f"alter publication {name} add table {table}"
    return Blocker(leaf.name, reason, (drop, add))
