"""What a human wants to know of a slot beyond its state: how far behind it is and what it costs the server.

For the commands that show and check it. Reads, never changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from flusso.capture.slot import check_slot, read_slot
from flusso.diagnostic import Code, Diagnostic
from flusso.errors import SlotError, SlotLost
from flusso.postgres.connect import Connection, translated

_MEASURE = """
select pg_wal_lsn_diff(wal.lsn, confirmed_flush_lsn)::bigint,
       extract(epoch from reader.flush_lag)::float,
       pg_wal_lsn_diff(wal.lsn, restart_lsn)::bigint,
       safe_wal_size,
       coalesce((to_jsonb(slots) ->> 'synced')::bool, false),
       to_jsonb(slots) ->> 'inactive_since'
from pg_replication_slots as slots
cross join lateral (
    select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn
) as wal
left join pg_stat_replication as reader on reader.pid = active_pid
where slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class SlotMeasure:
    """How far behind a slot is, and what it holds back. None is: not known."""

    lag_bytes: int | None = None
    """WAL after the confirmed position."""
    lag_s: float | None = None
    """How long ago what its reader confirmed last was written; known while it is read and lags."""
    retained_bytes: int | None = None
    """WAL that the server keeps for it."""
    safe_wal_size: int | None = None
    """What may still be written before the server gives it up; None without `max_slot_wal_keep_size`."""
    is_synced: bool = False
    """Whether it came here as the copy of a primary's slot."""
    inactive_since: str | None = None
    """Since when nobody reads it; None before 17."""


def measure_slot(conn: Connection, name: str) -> SlotMeasure:
    """Measure a slot; of one that is not there nothing is known."""
    with translated(f'cannot measure slot "{name}"'):
        row = conn.execute(_MEASURE, (name,)).fetchone()
    return SlotMeasure() if row is None else SlotMeasure(*row)


def inspect_slot(conn: Connection, name: str, *, reseeds: bool) -> list[Diagnostic]:
    """Find a slot that cannot be followed. One that is not there yet, or that a reseed replaces, is fine."""
    info = read_slot(conn, name)
    try:
        if info is not None:
            check_slot(info)
    except SlotLost as error:
        return [] if reseeds else [Diagnostic(Code.LOST_SLOT, error.message, error.hint)]
    except SlotError as error:
        return [Diagnostic(Code.UNFIT_SLOT, error.message, error.hint)]
    return []
