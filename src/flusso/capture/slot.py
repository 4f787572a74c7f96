"""The replication slot: the one place where the resume position lives.

Called by whoever sets a pipeline up, stops it or shows its state, over an ordinary SQL connection in
autocommit. Reading the slot's stream is `replication`'s.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from psycopg import errors as pg

from flusso.errors import (
    SlotAdvanced,
    SlotBusy,
    SlotDatabase,
    SlotInvalidated,
    SlotMissing,
    SlotPhysical,
    SlotPlugin,
    SlotTemporary,
)
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, Dsn, connect_replication, translated
from flusso.postgres.identifiers import quote

PLUGIN = "pgoutput"
_POLL_S = 0.02
_never = threading.Event()

_READ = """
select slot_name, coalesce(plugin, ''), slot_type, coalesce(slots.database, ''), active_pid,
       restart_lsn::text, confirmed_flush_lsn::text, coalesce(wal_status, ''),
       coalesce(to_jsonb(slots) ->> 'invalidation_reason',
                case when (to_jsonb(slots) ->> 'conflicting')::bool then 'conflict with recovery' end),
       slots.database = current_database(), temporary,
       coalesce((to_jsonb(slots) ->> 'failover')::bool, false),
       coalesce(reader.application_name, ''), coalesce(host(reader.client_addr), '')
from pg_replication_slots as slots
left join pg_stat_activity as reader on reader.pid = active_pid
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
    is_temporary: bool = False
    is_failover: bool = False
    """Whether standbys keep a copy of it; always false before 17."""
    application: str = ""
    """What the process that reads it calls itself."""
    address: str = ""
    """Where that process is; empty for a local socket, and for a role that may not see it."""

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
    name, plugin, kind, database, pid, restart, confirmed, status, reason, *rest = row
    is_here, is_temporary, is_failover, application, address = rest
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
        bool(is_here),
        is_temporary,
        is_failover,
        application,
        address,
    )


def check_slot(info: SlotInfo) -> Lsn:
    """Refuse a slot that cannot be followed; give its position."""
    other = "choose another name with source.slot"
    if info.slot_type != "logical":
        raise SlotPhysical(f'slot "{info.name}" is {info.slot_type}, not logical', hint=other)
    if info.plugin != PLUGIN:
        raise SlotPlugin(f'slot "{info.name}" decodes with "{info.plugin}", not with {PLUGIN}', hint=other)
    if not info.is_here:
        raise SlotDatabase(f'slot "{info.name}" belongs to database "{info.database}"', hint=other)
    if info.is_temporary:
        raise SlotTemporary(
            f'slot "{info.name}" is temporary: it ends with the session of {reader_of(info)}', hint=other
        )
    if info.is_lost or info.confirmed_flush_lsn is None:
        reason = info.invalidation_reason or info.wal_status or "it has no position"
        raise SlotInvalidated(
            f'slot "{info.name}" is lost ({reason}), and the changes since it was last read with it',
            hint='run flusso slot drop and flusso reindex --all, or set source.on_slot_lost = "reseed"',
        )
    return info.confirmed_flush_lsn


def check_witness(info: SlotInfo, witness: Lsn, what: str) -> None:
    """Refuse a slot that is further than what was written: `what` names that."""
    if (info.confirmed_flush_lsn or Lsn(0)) > witness:
        raise SlotAdvanced(
            f'slot "{info.name}" is at {info.confirmed_flush_lsn}, but {what} only up to {witness}: someone '
            "moved or made anew the slot, or the index was left out meanwhile",
            hint='run flusso reindex --all, or set source.on_slot_lost = "reseed"',
        )


def find_slot(conn: Connection, name: str) -> SlotInfo:
    """Look a slot up that must be there."""
    info = read_slot(conn, name)
    if info is None:
        raise SlotMissing(
            f'slot "{name}" does not exist, and the changes since it was last read are lost',
            hint='run flusso reindex --all, or set source.on_slot_lost = "reseed"',
        )
    return info


def ensure_slot(conn: Connection, name: str, *, is_failover: bool = False) -> tuple[SlotInfo, bool]:
    """Create the slot if there is none and check it; the flag says whether it was created.

    `is_failover` counts at its creation, and needs Postgres 17.
    """
    info = read_slot(conn, name)
    is_created = info is None
    if info is None:
        with translated(f'cannot create slot "{name}"'):
            more = ", failover => true" if is_failover else ""
            conn.execute(f"select pg_create_logical_replication_slot(%s, %s{more})", (name, PLUGIN))
        info = find_slot(conn, name)
    check_slot(info)
    return info, is_created


def set_failover(dsn: Dsn, name: str) -> None:
    """Let standbys keep a copy of a slot that nobody reads. Postgres 17 or newer."""
    conn = connect_replication(dsn)
    with conn, translated(f'cannot make slot "{name}" a failover slot'):
        conn.execute(f"ALTER_REPLICATION_SLOT {quote(name)} (FAILOVER true)".encode())


def advance_slot(conn: Connection, name: str, lsn: Lsn) -> None:
    """Move the slot forward to `lsn`; an older position changes nothing."""
    if check_slot(find_slot(conn, name)) >= lsn:
        return
    with translated(f'cannot advance slot "{name}"'):
        try:
            conn.execute("select pg_replication_slot_advance(%s, %s::pg_lsn)", (name, str(lsn)))
        except pg.ObjectInUse as error:
            raise busy(conn, name) from error


def drop_slot(conn: Connection, name: str) -> None:
    """Drop the slot; without one there is nothing to do."""
    with translated(f'cannot drop slot "{name}"'):
        try:
            conn.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s",
                (name,),
            )
        except pg.ObjectInUse as error:
            raise busy(conn, name) from error


def await_release(conn: Connection, name: str, timeout_s: float, stop: threading.Event | None = None) -> None:
    """Wait until no process reads the slot; `SlotBusy` if that takes too long. `stop` ends the wait early."""
    deadline = time.monotonic() + timeout_s
    while (info := read_slot(conn, name)) is not None and info.active_pid is not None:
        if time.monotonic() >= deadline:
            raise busy(conn, name)
        # Between two looks: the server tells nobody when a slot becomes free.
        if (stop or _never).wait(_POLL_S):
            return


def reader_of(info: SlotInfo) -> str:
    """Name the process that reads a slot: pid, what it calls itself, where it is."""
    if info.active_pid is None:
        return "another process"
    about = [
        f'"{info.application}"' if info.application else "",
        f"at {info.address}" if info.address else "",
    ]
    known = " ".join(part for part in about if part)
    return f"pid {info.active_pid}" + (f" ({known})" if known else "")


def busy(conn: Connection, name: str) -> SlotBusy:
    """Make the error for a slot that has a reader: it names the reader, if that is still there."""
    info = read_slot(conn, name)
    reader = "another process" if info is None else reader_of(info)
    return SlotBusy(
        f'slot "{name}" is read by {reader}', hint="stop that reader, or choose another slot name"
    )
