"""Relations that nobody knew at the start: looked at once, and never passed over when they matter.

A partitioned table is published through the tables that hold its rows, so its changes come under their names.
The capture learns these names when it starts. Postgres says nothing when a partition is made or attached, or
when another table takes the name of one that is watched; the first change of a relation that was not known is
the moment to ask what it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.errors import CatalogOutdated
from flusso.postgres.connect import Dsn, connect, translated

_HINT = "begin again from the slot: who starts anew learns of it"
_WHOSE = """
select n.nspname::text, c.relname::text, c.oid
from (
  select %(oid)s::oid as relid
  union
  select relid::oid from pg_partition_ancestors(%(oid)s::oid)
) as tree
join pg_class as c on c.oid = tree.relid
join pg_namespace as n on n.oid = c.relnamespace
"""


def check_strangers(dsn: Dsn, tables: Sequence[WatchedTable], oids: Sequence[int]) -> None:
    """Go no further when one of the relations is, or belongs to, a table that is watched."""
    watched = {table.name: table for table in tables}
    with connect(dsn) as conn, translated("cannot read what a relation is"):
        for oid in oids:
            for schema, name, found in conn.execute(_WHOSE, {"oid": oid}).fetchall():
                table = watched.get(TableName(schema, name))
                if table is not None and found != oid:
                    raise CatalogOutdated(f"a partition came to {table.name}", hint=_HINT)
                if table is not None and table.oid not in (0, oid):
                    raise CatalogOutdated(f"{table.name} is another table now", hint=_HINT)
