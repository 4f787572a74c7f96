"""A publication's own facts: what it sends and how, who owns it, and what it names beyond what is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flusso.capture.leaves import GENERATED_PUBLISHABLE_SINCE
from flusso.catalog import TableName
from flusso.postgres.connect import Connection, translated

OPERATIONS = ("insert", "update", "delete", "truncate")

_FACTS = """
select p.oid, p.xmin::text, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate,
       p.pubviaroot, p.puballtables, coalesce(to_jsonb(p) ->> 'pubgencols', 'n'),
       pg_has_role(p.pubowner, 'usage'),
       role.name, has_database_privilege(current_database(), 'create')
from (select current_user::text as name) as role
left join pg_publication as p on p.pubname = %s
"""

_NAMED = """
select n.nspname::text, c.relname::text
from pg_publication as p
join pg_publication_rel as r on r.prpubid = p.oid
join pg_class as c on c.oid = r.prrelid
join pg_namespace as n on n.oid = c.relnamespace
where p.pubname = %s
  and to_jsonb(r) ->> 'prexcept' is distinct from 'true'
  and r.prrelid <> all(%s::oid[])
  and r.prrelid not in (
      select up.relid
      from unnest(%s::oid[]) as leaf(oid) cross join lateral pg_partition_ancestors(leaf.oid) as up(relid)
  )
order by 1, 2
"""

_SENT = """
select distinct schemaname::text, tablename::text
from pg_publication_tables
where pubname = %s
"""


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication as the server has it, or what is known of one that does not exist."""

    name: str
    exists: bool
    oid: int
    xmin: str
    unsent: tuple[str, ...]
    """The operations that it does not publish."""
    is_via_root: bool
    is_for_all: bool
    generated: str
    """`s` when it publishes, or when made anew would publish, stored generated columns."""
    is_owned: bool
    role: str
    may_create: bool
    server_version: int

    @property
    def settings_of_new(self) -> Mapping[str, str]:
        """Give the settings of one that flusso makes.

        Stored generated columns are published where the server can: an identity or a key may hold them, and
        the application's writes would fail if they were left out.
        """
        generated = {"publish_generated_columns": "stored"} if self.generated == "s" else {}
        return {"publish_via_partition_root": "false", **generated}


def read_publication(conn: Connection, name: str) -> Publication:
    """Read a publication, or the rights of the role to make one."""
    with translated(f'cannot read publication "{name}"'):
        row = conn.execute(_FACTS, (name,)).fetchone()
    assert row is not None
    oid, xmin, *sent, via_root, for_all, generated, is_owned, role, may_create = row
    exists, version = oid is not None, conn.info.server_version
    if not exists:
        generated = "s" if version >= GENERATED_PUBLISHABLE_SINCE else "n"
    unsent = (name for name, is_sent in zip(OPERATIONS, sent, strict=True) if exists and not is_sent)
    return Publication(
        name,
        exists,
        oid or 0,
        xmin or "",
        tuple(unsent),
        bool(via_root),
        bool(for_all),
        generated,
        bool(is_owned),
        role,
        may_create,
        version,
    )


def read_unneeded(
    conn: Connection, name: str, required: Sequence[TableName], leaves: Sequence[int]
) -> list[TableName]:
    """List the tables that the publication names one by one and that are neither required nor hold or lead to
    required rows."""
    with translated(f'cannot read what publication "{name}" names'):
        rows = conn.execute(_NAMED, (name, list(leaves), list(leaves))).fetchall()
    return [table for row in rows if (table := TableName(*row)) not in set(required)]


def read_sent(conn: Connection, name: str) -> list[TableName]:
    """List every table that the publication sends."""
    with translated(f'cannot read what publication "{name}" sends'):
        return sorted(TableName(*row) for row in conn.execute(_SENT, (name,)))
