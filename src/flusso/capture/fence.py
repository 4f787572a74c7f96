"""The visibility fence: which received transactions a new snapshot can see.

A commit can arrive over the WAL before it is visible to SQL; building a document for it then would read
the old row. The reader holds a transaction back until a snapshot taken here sees it. The question is
sent without waiting for its answer, so the reader keeps its one poll loop.
"""

from __future__ import annotations

import psycopg
from psycopg import pq

from flusso.capture.snapshot import Snapshot, parse_snapshot
from flusso.errors import SourceUnavailable
from flusso.postgres.connect import Connection, translate

_QUESTION = b"select pg_current_snapshot()::text"


class Fence:
    """Asks the primary for snapshots, one at a time. Not thread-safe; owns its connection."""

    def __init__(self, conn: Connection) -> None:
        self._pgconn = conn.pgconn
        self._conn = conn
        self._pgconn.nonblocking = 1
        self.is_asking = False

    def fileno(self) -> int:
        """The socket, for polling."""
        return self._pgconn.socket

    def ask(self) -> None:
        """Send the question; the socket becomes readable with its answer."""
        try:
            self._pgconn.send_query(_QUESTION)
            self._pgconn.flush()
        except psycopg.Error as error:
            raise translate(error, "cannot read the current snapshot") from error
        self.is_asking = True

    def answer(self) -> Snapshot | None:
        """Give the snapshot once it has arrived whole, else None."""
        try:
            self._pgconn.consume_input()
            if self._pgconn.is_busy():
                return None
            result = self._pgconn.get_result()
            while self._pgconn.get_result() is not None:
                pass
        except psycopg.Error as error:
            raise translate(error, "cannot read the current snapshot") from error
        self.is_asking = False
        if result is None or result.status != pq.ExecStatus.TUPLES_OK:
            raise SourceUnavailable("cannot read the current snapshot: the server gave none")
        return parse_snapshot((result.get_value(0, 0) or b"").decode())

    def close(self) -> None:
        """Close the connection."""
        self._conn.close()
