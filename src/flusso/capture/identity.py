"""Which replica identity a table needs, and how it gets it.

An UPDATE or DELETE shows of the old row what the identity holds. Where that lacks a link column, the document
that a deleted or moved row leaves cannot be found: the relation is blind. `choose_identity` is pure and finds
the smallest one that shows the links and does no harm in any publication; `set_identities` sets it, locked.

The lock excludes every writer of the table until the change has committed. So all that comes after in the WAL
carries the new identity, and all that came before is visible to whoever reads afterwards: no further wait is
needed. What was deleted or moved before, while the relation was blind, stays stale until a reindex.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from flusso.capture.harm import carries, find_harm
from flusso.capture.leaves import Hold, Identity, Leaf
from flusso.capture.locks import change_locked
from flusso.catalog import IdentityKind, TableName
from flusso.postgres.connect import Connection
from flusso.postgres.identifiers import quote, quote_table


@dataclass(frozen=True, slots=True)
class IdentityNeed:
    """A leaf whose identity does not show its link columns, or is none at all."""

    table: TableName
    """The declared table."""
    leaf: TableName
    lacking: tuple[str, ...]
    """The link columns that old rows do not show."""
    is_owned: bool
    """Whether flusso may set it."""
    is_usable: bool
    """Whether the present identity lets the table be published as it is."""
    choice: Identity | None
    """The smallest one that would do; None when there is none."""
    reason: str = ""
    """Why there is none."""

    @property
    def is_mendable(self) -> bool:
        """Whether the role can set it."""
        return self.is_owned and self.choice is not None

    @property
    def sql(self) -> str | None:
        """Give the statement that sets it, if there is one."""
        return None if self.choice is None else identity_sql(self.leaf, self.choice)


def identity_sql(table: TableName, identity: Identity) -> str:
    """Write the statement that gives a table this identity."""
    match identity.kind:
        case IdentityKind.INDEX:
            what = f"using index {quote(identity.index)}"
        case IdentityKind.FULL:
            what = "full"
        case IdentityKind.DEFAULT:
            what = "default"
        case IdentityKind.NOTHING:
            what = "nothing"
    return f"alter table {quote_table(table)} replica identity {what}"


def find_need(leaf: Leaf, links: Collection[str], hold: Hold, server_version: int) -> IdentityNeed | None:
    """Say what a leaf that is held so lacks to show its links; None when it shows them."""
    shown = carries(leaf, leaf.identity, hold)
    lacking = tuple(column for column in links if column not in shown)
    is_usable = leaf.identity.columns is not None
    if is_usable and not lacking:
        return None
    choice, reason = choose_identity(leaf, links, hold, server_version)
    return IdentityNeed(leaf.root, leaf.name, lacking, leaf.is_owned, is_usable, choice, reason)


def choose_identity(
    leaf: Leaf, links: Collection[str], hold: Hold, server_version: int
) -> tuple[Identity | None, str]:
    """Find the smallest identity that shows the links and harms no writes; None comes with the reason.

    Every publication that has the leaf counts, not only ours: their column lists and filters bind it as well.
    """
    holds = (*(one for one in leaf.holds if one.publication != hold.publication), hold)
    full = Identity(IdentityKind.FULL, tuple(leaf.columns))
    by_key = sorted(leaf.choices, key=lambda one: one.kind is not IdentityKind.DEFAULT)
    reason = ""
    for identity in (*by_key, full):
        if not set(links) <= carries(leaf, identity, hold):
            continue
        harm = find_harm(leaf, identity, holds, server_version)
        if harm is None:
            return identity, ""
        reason = harm
    return (
        None,
        reason or "has no identity that shows them: they are generated columns that are not published",
    )


def set_identities(
    conn: Connection,
    needs: Sequence[IdentityNeed],
    stop: threading.Event | None = None,
    on_set: Callable[[IdentityNeed], None] | None = None,
) -> None:
    """Set every identity that can be set by this role. The connection is in autocommit.

    Each is a transaction of its own, under a lock that is tried for again and again, never long at a time.
    """
    for need in needs:
        sql = need.sql
        if sql is None or not need.is_owned:
            continue
        if stop is not None and stop.is_set():
            return
        change_locked(conn, sql, [need.leaf], f"set the replica identity of {need.leaf}", stop=stop)
        if on_set is not None:
            on_set(need)
