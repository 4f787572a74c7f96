"""The replication slot: the one place where the resume position lives.

Called by whoever sets a pipeline up, stops it or shows its state, over an ordinary SQL connection in
autocommit. Reading the slot's stream is `replication`'s.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from psycopg import errors as pg

from flusso.errors import SlotBusy, SlotError, SlotLost
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, translated
from flusso.postgres.identifiers import literal

PLUGIN = "pgoutput"
_POLL_S = 0.02

_READ = """
select slot_name, coalesce(plugin, ''), slot_type, coalesce(database, ''), active_pid,
       restart_lsn::text, confirmed_flush_lsn::text, coalesce(wal_status, ''),
       to_jsonb(slots) ->> 'invalidation_reason', current_database()
from pg_replication_slots as slots
where slot_name = %s
"""
_LAG = """
select pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)
from pg_replication_slots
where slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A slot as `pg_replication_slots` shows it."""

    name: str
    plugin: str
    slot_type: str
    database: str
    active_pid: int | None
    restart_lsn: Lsn | None
    confirmed_flush_lsn: Lsn | None
    wal_status: str
    invalidation_reason: str | None
    """None too where the server (before 17) has no such column."""
    is_here: bool = True
    """Whether it belongs to the database of the connection that read it."""

    @property
    def is_lost(self) -> bool:
        """Whether WAL that it needs is gone, or the server has invalidated it."""
        return self.wal_status == "lost" or self.invalidation_reason is not None


def read_slot(conn: Connection, name: str) -> SlotInfo | None:
    """Look a slot up; None if the server has no such slot."""
    with translated(f'cannot read slot "{name}"'):
        row = conn.execute(_READ, (name,)).fetchone()
    if row is None:
        return None
    name, plugin, kind, database, pid, restart, confirmed, status, reason, here = row
    return SlotInfo(
        name,
        plugin,
        kind,
        database,
        pid,
        None if restart is None else Lsn.parse(restart),
        None if confirmed is None else Lsn.parse(confirmed),
        status,
        reason,
        is_here=database == here,
    )


def check_slot(info: SlotInfo) -> Lsn:
    """Refuse a slot that cannot be followed; give its position."""
    if info.slot_type != "logical" or info.plugin != PLUGIN:
        raise SlotError(
            f'slot "{info.name}" is {info.slot_type} with plugin "{info.plugin}", not logical with {PLUGIN}',
            hint="choose another slot name",
        )
    if not info.is_here:
        raise SlotError(
            f'slot "{info.name}" belongs to database "{info.database}"', hint="choose another slot name"
        )
    if info.is_lost or info.confirmed_flush_lsn is None:
        raise SlotLost(
            f'slot "{info.name}" is lost ({info.invalidation_reason or info.wal_status or "no position"})',
            hint=f"select pg_drop_replication_slot({literal(info.name)}), then run flusso reindex --all",
        )
    return info.confirmed_flush_lsn


def find_slot(conn: Connection, name: str) -> SlotInfo:
    """Look a slot up that must be there."""
    info = read_slot(conn, name)
    if info is None:
        raise SlotLost(f'slot "{name}" does not exist', hint="create it, then run flusso reindex --all")
    return info


def ensure_slot(conn: Connection, name: str) -> tuple[SlotInfo, bool]:
    """Create the slot if there is none and check it; the flag says whether it was created."""
    info = read_slot(conn, name)
    is_created = info is None
    if info is None:
        with translated(f'cannot create slot "{name}"'):
            conn.execute("select pg_create_logical_replication_slot(%s, %s)", (name, PLUGIN))
        info = find_slot(conn, name)
    check_slot(info)
    return info, is_created


def advance_slot(conn: Connection, name: str, lsn: Lsn) -> None:
    """Move the slot forward to `lsn`; an older position changes nothing."""
    if check_slot(find_slot(conn, name)) >= lsn:
        return
    with translated(f'cannot advance slot "{name}"'):
        try:
            conn.execute("select pg_replication_slot_advance(%s, %s::pg_lsn)", (name, str(lsn)))
        except pg.ObjectInUse as error:
            raise _busy(conn, name) from error


def drop_slot(conn: Connection, name: str) -> None:
    """Drop the slot; without one there is nothing to do."""
    with translated(f'cannot drop slot "{name}"'):
        try:
            conn.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s",
                (name,),
            )
        except pg.ObjectInUse as error:
            raise _busy(conn, name) from error


def await_release(conn: Connection, name: str, timeout_s: float) -> None:
    """Wait until no process reads the slot; `SlotBusy` if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while (info := read_slot(conn, name)) is not None and info.active_pid is not None:
        if time.monotonic() >= deadline:
            raise _busy(conn, name)
        time.sleep(_POLL_S)  # between two looks: the server tells nobody when a slot becomes free


def slot_lag_bytes(conn: Connection, name: str) -> int:
    """Measure the WAL between the slot's confirmed position and the server's current one."""
    find_slot(conn, name)
    with translated(f'cannot measure the lag of slot "{name}"'):
        row = conn.execute(_LAG, (name,)).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def _busy(conn: Connection, name: str) -> SlotBusy:
    info = read_slot(conn, name)
    pid = f"pid {info.active_pid}" if info is not None and info.active_pid else "another process"
    return SlotBusy(f'slot "{name}" is read by {pid}', hint="stop that reader, or choose another slot name")
