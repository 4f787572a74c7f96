"""Emit a position in the WAL and make it the version of what is built after it.

Called by every task attempt before its first snapshot, on the primary. The position is new (no reader
of the current end of the WAL has that), flushed (an unflushed one can be handed out again, lower, after
a crash) and taken in a statement of its own, so a snapshot taken later sees everything that committed
before it.
"""

from __future__ import annotations

from flusso.lsn import Lsn, Version
from flusso.postgres.connect import Connection, translated

_FLUSH_ARGUMENT_SINCE = 170000

_EMIT = """
select lsn, ('x' || substr(pg_walfile_name(lsn), 1, 8))::bit(32)::int
from (select pg_logical_emit_message(false, 'flusso', '', true) as lsn) as emitted
"""

# Before 17 nothing flushes a message by itself but the WAL writer, up to 200 ms later. A transaction
# that has an id does so when it commits; `local` keeps a missing standby from holding it up.
_EMIT_BY_COMMIT = """
select lsn, ('x' || substr(pg_walfile_name(lsn), 1, 8))::bit(32)::int, pg_current_xact_id()
from (select pg_logical_emit_message(false, 'flusso', '') as lsn) as emitted
"""


def emit_version(conn: Connection) -> Version:
    """Emit a flushed position and return it as a document version. The connection is in autocommit."""
    with translated("cannot emit a WAL position"):
        if conn.info.server_version >= _FLUSH_ARGUMENT_SINCE:
            row = conn.execute(_EMIT).fetchone()
        else:
            with conn.transaction():
                conn.execute("set local synchronous_commit = local")
                row = conn.execute(_EMIT_BY_COMMIT).fetchone()
    assert row is not None
    return Version.of(int(row[1]), Lsn.parse(row[0]))
