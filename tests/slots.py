"""Do to a slot what others do: drop it under its reader, move it, let the server give it up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from fix_postgres import Database
from waiting import wait_until


def drop_under_its_reader(database: Database, slot: str) -> None:
    """End the reader as often as it comes back, until the slot can be dropped."""

    def drop() -> bool:
        try:
            database.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s", slot
            )
            database.execute("select pg_drop_replication_slot(%s)", slot)
        except psycopg.errors.ObjectInUse:
            return False
        return True

    wait_until(drop, what=f"slot {slot} to be dropped")


def move(database: Database, slot: str) -> None:
    """Move a slot that nobody reads to the end of the WAL, past a change."""
    database.execute("select pg_logical_emit_message(true, 'test', 'passed over')")
    database.execute("select pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", slot)


@contextmanager
def invalidated(database: Database, slot: str) -> Iterator[None]:
    """Let the server give the slot up for want of room; there is room again at the end."""
    with psycopg.connect(database.dsn.text, autocommit=True) as admin:
        admin.execute("alter system set max_slot_wal_keep_size = '1MB'")
        admin.execute("select pg_reload_conf()")
        try:
            wait_until(lambda: _is_lost(admin, slot), what=f"slot {slot} to be given up")
            yield
        finally:
            admin.execute("alter system reset max_slot_wal_keep_size")
            admin.execute("select pg_reload_conf()")


def _is_lost(admin: psycopg.Connection[tuple[object, ...]], slot: str) -> bool:
    for _ in range(3):
        admin.execute("select pg_logical_emit_message(false, 'test', 'fill')")
        admin.execute("select pg_switch_wal()")
    admin.execute("checkpoint")
    found = admin.execute(
        "select wal_status = 'lost' from pg_replication_slots where slot_name = %s", (slot,)
    )
    row = found.fetchone()
    return row is not None and bool(row[0])
