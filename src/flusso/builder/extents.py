"""How large the tables are that hold a root's rows, and which file each of them is.

What reads by blocks begins here: the seed, and whoever pays a debt. A block means something only within one
file: VACUUM FULL, CLUSTER and an ALTER that rewrites give a table another one, with its rows elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from flusso.catalog import TableName
from flusso.postgres.connect import Connection, translated
from flusso.postgres.identifiers import quote_table

# The sizes come after the file's number: what is added in between is in the WAL, what is moved shows.
_EXTENTS = """
select n.nspname::text, c.relname::text, coalesce(pg_relation_filenode(c.oid), 0)::bigint,
  pg_relation_size(c.oid) / current_setting('block_size')::bigint, current_setting('block_size')::bigint,
  c.oid::bigint, coalesce(pg_relation_size(c.reltoastrelid), 0)
from pg_class as root
cross join lateral (
  select root.oid as relid where root.relkind <> 'p'
  union all
  select tree.relid::oid from pg_partition_tree(root.oid) as tree where root.relkind = 'p' and tree.isleaf
) as held
join pg_class as c on c.oid = held.relid
join pg_namespace as n on n.oid = c.relnamespace
where root.oid = $1::text::regclass
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """One table with rows of the root: itself, or a partition."""

    table: TableName
    filenode: int
    blocks: int
    block_bytes: int
    oid: int
    toast_bytes: int = 0
    """Of the large values that its rows have elsewhere."""

    @property
    def bytes_in_a_block(self) -> float:
        """How much there is to read for a block of it, on average, its rows' large values included."""
        return self.block_bytes + self.toast_bytes / max(1, self.blocks)


def read_extents(conn: Connection, root: TableName) -> list[Extent]:
    """List the tables that hold rows of the root, by name."""
    with translated(f"cannot read the size of {root}"):
        rows = psycopg.RawCursor(conn).execute(_EXTENTS.encode(), [quote_table(root)]).fetchall()
    found = [Extent(TableName(row[0], row[1]), *row[2:]) for row in rows if row[3] is not None]
    return sorted(found, key=lambda extent: extent.table)
