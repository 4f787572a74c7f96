"""Statements that need a lock on the application's tables: tried again and again, never for long at a time.

Whoever waits for a strong lock holds up all that come after, so each try is short and followed by a longer
pause. When time is up, the error says who is in the way.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

import psycopg
from psycopg import errors as pg

from flusso.catalog import TableName
from flusso.errors import PublicationError, TableLocked
from flusso.postgres.connect import Connection, translate
from flusso.postgres.identifiers import quote_table

LOCK_TIMEOUT_S = 1.0
PATIENCE_S = 30.0
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 5.0
_never = threading.Event()

# A prepared transaction holds locks without a backend.
_HOLDERS = """
select distinct coalesce('pid ' || l.pid, 'prepared transaction "' || x.gid || '"')
from pg_locks as l
left join pg_prepared_xacts as x
    on l.pid is null and l.virtualtransaction = '-1/' || x.transaction::text
where l.locktype = 'relation'
  and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and l.relation = any(%s::regclass[]::oid[])
  and l.pid is distinct from pg_backend_pid()
order by 1
"""


def change_locked(
    conn: Connection,
    sql: str,
    tables: Sequence[TableName],
    doing: str,
    *,
    stop: threading.Event | None = None,
) -> None:
    """Run one statement in a transaction of its own. The connection is in autocommit.

    Raises `TableLocked` when a lock is not to be had in time, `PublicationError` when the server refuses.
    """
    deadline = time.monotonic() + PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            with conn.transaction():
                conn.execute(f"set local lock_timeout = {int(LOCK_TIMEOUT_S * 1000)}".encode())
                conn.execute(sql.encode())
            return
        except pg.LockNotAvailable as error:
            holders = find_lock_holders(conn, tables)
            if time.monotonic() + pause_s > deadline or (stop or _never).wait(
                pause_s * random.uniform(0.5, 1.0)
            ):
                raise TableLocked(
                    f"cannot {doing}: {', '.join(holders) or 'another transaction'} holds a lock on "
                    f"{', '.join(map(str, tables))}",
                    hint="end that transaction, or try again",
                ) from error
        except psycopg.OperationalError as error:
            raise translate(error, f"cannot {doing}") from error
        except psycopg.Error as error:
            detail = error.diag.message_primary or "no detail"
            raise PublicationError(f"cannot {doing}: {detail}", hint=f"as the owner: {sql}") from error
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def find_lock_holders(conn: Connection, tables: Sequence[TableName]) -> tuple[str, ...]:
    """Name the backends and prepared transactions that hold locks on the tables."""
    try:
        rows = conn.execute(_HOLDERS, ([quote_table(table) for table in tables],)).fetchall()
    except psycopg.Error as error:
        raise translate(error, "cannot read who holds locks") from error
    return tuple(row[0] for row in rows)
