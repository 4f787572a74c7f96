"""Relations that nobody knew at the start: looked at once, and never passed over when they matter.

A partitioned table is published through the tables that hold its rows, so its changes come under their names.
The capture learns these names when it starts. Postgres says nothing when a partition is made or attached, or
when another table takes the name of one that is watched; the first change of a relation that was not known is
the moment to ask what it is.

`Admission` asks in a thread of its own: the reader must go on sending status while the server takes its time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

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


class Admission:
    """Asks about relations beside the reader's loop, and wakes it with each answer."""

    def __init__(self, admit: Callable[[Sequence[int]], None], wake: Callable[[], None]) -> None:
        self._admit = admit
        self._wake = wake
        self._pending: set[tuple[int, ...]] = set()
        self._error: Exception | None = None

    def ask(self, oids: Sequence[int]) -> None:
        """Begin to ask; until it is answered nothing may be handed on."""
        asked = tuple(oids)
        self._pending.add(asked)
        threading.Thread(target=self._look, args=(asked,), name="flusso-admission", daemon=True).start()

    @property
    def is_settled(self) -> bool:
        """Whether every answer has come; raises one that says to go no further."""
        is_settled = not self._pending  # before the error: an answer leaves it first
        if self._error is not None:
            raise self._error
        return is_settled

    def _look(self, oids: tuple[int, ...]) -> None:
        try:
            self._admit(oids)
        except Exception as error:
            self._error = error
        finally:
            self._pending.discard(oids)
            self._wake()
