"""A server that wants a synchronous standby which is not there: commits hang, sent and not visible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from waiting import wait_until


@contextmanager
def standby_missing(dsn: str) -> Iterator[None]:
    """Let every commit on the server hang while the block runs."""
    try:
        _require_standby(dsn, "absent")
        yield
    finally:
        _require_standby(dsn, "")


def _require_standby(dsn: str, name: str) -> None:
    def run(sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(dsn, autocommit=True) as conn:
            cursor = conn.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    run(f"alter system set synchronous_standby_names = '{name}'")
    run("select pg_reload_conf()")
    wait_until(lambda: run("show synchronous_standby_names") == [(name,)], what="the setting to be in force")


def hanging_commit(dsn: str) -> int:
    """Wait until a commit hangs in this database, and give its pid."""
    sql = "select pid from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database()"

    def find() -> list[tuple[int]]:
        with psycopg.connect(dsn, autocommit=True) as conn:
            return conn.execute(sql).fetchall()

    ((pid,),) = wait_until(find, what="the hanging commit")
    return pid
