"""Partitions that came after the start: found by their first change, and never passed over in silence.

A partitioned table is published through the tables that hold its rows, so its changes come under their names.
The capture learns these names when it starts. Postgres says nothing when a partition is made or attached; the
first change of a relation that nobody watches is the moment to ask whose it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.errors import SourceRefused
from flusso.postgres.connect import Dsn, connect, translated

# The first row of the tree is the relation itself.
_ANCESTORS = """
select n.nspname::text, c.relname::text
from pg_partition_ancestors(%s::oid) with ordinality as tree(relid, n_th)
join pg_class as c on c.oid = tree.relid
join pg_namespace as n on n.oid = c.relnamespace
order by tree.n_th
"""


def check_strangers(dsn: Dsn, tables: Sequence[WatchedTable], oids: Sequence[int]) -> None:
    """Refuse to go on when one of the relations is a partition of a table that is watched."""
    watched = {table.name for table in tables if table.partitions is not None}
    if not watched:
        return
    with connect(dsn) as conn, translated("cannot read whose partition a relation is"):
        for oid in oids:
            names = [TableName(*row) for row in conn.execute(_ANCESTORS, (oid,))]
            for root in names[1:]:
                if root in watched:
                    raise SourceRefused(
                        f"{names[0]} became a partition of {root} after the start",
                        hint="start flusso again, and reindex if the partition had rows when it was attached",
                    )
