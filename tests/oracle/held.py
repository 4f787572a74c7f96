"""Commits that are in the WAL and that nobody sees yet: they wait for a standby that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from fix_postgres import Database
from waiting import wait_until

_HANGING = "select 1 from pg_stat_activity where wait_event = 'SyncRep'"
_SENT = """
select 1
from pg_stat_replication
join pg_replication_slots on active_pid = pid
where slot_name = %s and sent_lsn >= %s::pg_lsn
"""


@contextmanager
def holding_commits(database: Database) -> Iterator[None]:
    """Let every commit of the server wait for a standby that is not there, until the block ends."""
    _require_standby(database, "absent")
    try:
        yield
    finally:
        _require_standby(database, "")


def _require_standby(database: Database, name: str) -> None:
    with psycopg.connect(database.dsn.text, autocommit=True) as conn:
        conn.execute(f"alter system set synchronous_standby_names = '{name}'")
        conn.execute("select pg_reload_conf()")

    def is_in_force() -> bool:
        return database.execute("show synchronous_standby_names") == [(name,)]

    wait_until(is_in_force, what="the setting to be in force")


def await_sent(database: Database, slot: str, is_over: Callable[[], bool]) -> bool:
    """Wait until a commit hangs and the reader of the slot has been sent it; False if it is over before."""
    wait_until(lambda: is_over() or database.execute(_HANGING), what="the hanging commit")
    if is_over():
        return False
    target = database.execute("select pg_current_wal_flush_lsn()::text")[0][0]
    wait_until(lambda: database.execute(_SENT, slot, target), what="the commit to be sent")
    return True
