"""Do no harm: prove that UPDATE and DELETE stay legal before a table is published or its identity changes.

Pure. Postgres refuses writes to a published table whose identity it cannot use, or when a publication leaves
out columns of the identity or filters rows by others. It does so when the application writes, not when the
publication is made; so nobody would hear of it before the harm is done.
"""

from __future__ import annotations

from collections.abc import Iterable

from flusso.capture.leaves import GENERATED_PUBLISHABLE_SINCE, Hold, Identity, Leaf
from flusso.catalog import IdentityKind

_NOT_ORDINARY = {
    "v": "is a view: its changes are not in the WAL",
    "m": "is a materialized view: its changes are not in the WAL",
    "f": "is a foreign table: its changes are not in the WAL",
}
_NOT_PERMANENT = {
    "u": "is unlogged, so the WAL does not have its rows",
    "t": "is temporary, so the WAL does not have its rows",
}


def find_unpublishable(leaf: Leaf) -> str | None:
    """Say why Postgres publishes no such table, whatever its identity."""
    return _NOT_ORDINARY.get(leaf.kind) or _NOT_PERMANENT.get(leaf.persistence)


def find_harm(leaf: Leaf, identity: Identity, holds: Iterable[Hold], server_version: int) -> str | None:
    """Say why writes would fail if the leaf had this identity and were held so; None when they would not."""
    if identity.columns is None:
        return "has no usable replica identity: published, its updates and deletes would fail"
    for hold in holds:
        if hold.sends_writes and (why := _conflict(leaf, identity, hold, server_version)):
            return f"{why}: its updates and deletes would fail"
    return None


def _conflict(leaf: Leaf, identity: Identity, hold: Hold, server_version: int) -> str | None:
    columns = set(identity.columns or ())
    where = f'in publication "{hold.publication}"'
    if hold.columns is not None and (identity.kind is IdentityKind.FULL or not columns <= set(hold.columns)):
        return f"has a column list {where} that does not cover its replica identity"
    if hold.filtered_by is not None and not set(hold.filtered_by) <= columns:
        return f"has a row filter {where} on columns outside its replica identity"
    if server_version >= GENERATED_PUBLISHABLE_SINCE:
        hidden = sorted(column for column in columns if not is_published(leaf, column, hold))
        if hidden:
            return (
                f"has a replica identity with generated columns ({', '.join(hidden)}) not published {where}"
            )
    return None


def is_published(leaf: Leaf, column: str, hold: Hold) -> bool:
    """Say whether the values of a column are sent."""
    if hold.columns is not None:
        return column in hold.columns
    generated = leaf.columns.get(column, "")
    return generated == "" or (generated == "s" and hold.generated == "s")


def carries(leaf: Leaf, identity: Identity, hold: Hold) -> frozenset[str]:
    """Give the columns of an old row that the stream shows."""
    return frozenset(column for column in identity.columns or () if is_published(leaf, column, hold))
