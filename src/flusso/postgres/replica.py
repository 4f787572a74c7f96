"""Read from a replica what was versioned on the primary: which server it is, and how far it has come.

A task emits its version on the primary and reads here, so the order that versions give must hold on another
server. It does, by one wait before the first snapshot: until this connection's own server has replayed the
version's position.

- *A commit that the stream has handed on is seen.* It was visible on the primary before (the fence), so its
  commit record lies below every position emitted since. A replica replays in the order of the WAL, and
  shows a commit as soon as its record is replayed. Having replayed the version, it shows the commit.
- *What a snapshot misses gets a higher version.* A snapshot that misses transaction T was taken before T's
  record was replayed, but after its own version was: so that version lies below T's commit record, and the
  version of the build made for T, emitted after T was visible on the primary, above it.

Asynchronous commits change nothing: the version is flushed, and with it all before it.
"""

from __future__ import annotations

import time

from flusso.errors import ReplicaBehind, SourceRefused
from flusso.lsn import Lsn, Version
from flusso.postgres.connect import Connection, Dsn, translated
from flusso.postgres.introspect import read_source_identity

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.1

# The functions for one kind of server raise on the other.
_POSITION = """
select pg_is_in_recovery(),
  case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end::text,
  case when pg_is_in_recovery() then null
    else ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int end,
  pg_is_in_recovery() and pg_get_wal_replay_pause_state() <> 'not paused'
"""


def check_replica(primary: Connection, replica: Connection, dsn: Dsn) -> None:
    """Refuse a server to read from that is not of the primary's cluster, or another database of it."""
    ours, theirs = read_source_identity(primary), read_source_identity(replica)
    if ours.database != theirs.database:
        raise SourceRefused(
            f'read_url leads to database "{theirs.database}", the source is "{ours.database}"',
            hint="name the same database in both",
        )
    if ours.system_identifier != theirs.system_identifier:
        raise SourceRefused(
            f"{dsn.describe()} (read_url) is not a replica of the source: its system identifier is "
            f"{theirs.system_identifier}, the source's {ours.system_identifier}",
            hint="name a physical replica of the source as read_url, or leave it out",
        )


def await_replayed(conn: Connection, version: Version, *, timeout_s: float) -> None:
    """Wait until the server of this connection shows everything up to a version; the next snapshot sees it.

    The connection is in autocommit. Raises `ReplicaBehind` (retryable) when that takes too long, and
    `SourceRefused` for a server that left recovery on another timeline. The primary itself shows it at once.
    """
    deadline_s = time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        with translated("cannot read the position of the replica"):
            row = conn.execute(_POSITION).fetchone()
        assert row is not None
        is_replica, position, timeline, is_paused = row
        if not is_replica and timeline != version.timeline:
            raise SourceRefused(
                f"the server of read_url was promoted to timeline {timeline}, the source is on "
                f"{version.timeline}",
                hint="name a replica of the source as read_url, or leave it out",
            )
        if position is not None and Lsn.parse(position) >= version.lsn:
            return
        if time.monotonic() >= deadline_s:
            raise ReplicaBehind(
                f"the replica of read_url has replayed the WAL up to {position}, short of {version.lsn}",
                hint="select pg_wal_replay_resume() there" if is_paused else "wait, or look at its lag",
            )
        time.sleep(pause_s)  # between two looks: before Postgres 19 a server cannot be asked to wait
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
