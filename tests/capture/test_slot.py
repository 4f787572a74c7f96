from __future__ import annotations

import pytest
from streams import confirmed_lsn, current_lsn, prepare, slot_of, streaming

from fix_postgres import Database
from flusso.capture.slot import (
    SlotInfo,
    advance_slot,
    await_release,
    check_slot,
    drop_slot,
    ensure_slot,
    read_slot,
    slot_lag_bytes,
)
from flusso.errors import SlotBusy, SlotError, SlotLost
from flusso.lsn import Lsn

pytestmark = pytest.mark.postgres


def test_a_slot_is_created_once(database: Database) -> None:
    with database.connect() as conn:
        made, is_created = ensure_slot(conn, slot_of(database.dsn))
        again, is_created_again = ensure_slot(conn, slot_of(database.dsn))
    assert (is_created, is_created_again) == (True, False)
    assert (made.plugin, made.slot_type, made.database) == ("pgoutput", "logical", database.name)
    assert made == again


def test_a_slot_that_is_not_there_reads_as_none(database: Database) -> None:
    with database.connect() as conn:
        assert read_slot(conn, "nobody_made_this") is None


def test_a_slot_of_another_plugin_is_refused(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("select pg_create_physical_replication_slot(%s)", (f"physical_{database.name}",))
        try:
            with pytest.raises(SlotError, match="physical"):
                ensure_slot(conn, f"physical_{database.name}")
        finally:
            drop_slot(conn, f"physical_{database.name}")


def test_a_slot_of_another_database_is_refused(database: Database) -> None:
    with database.connect() as conn:
        ensure_slot(conn, slot_of(database.dsn))
        database.execute("select 1")
    other = Database(database.server, "postgres")
    with other.connect() as conn, pytest.raises(SlotError, match=database.name):
        ensure_slot(conn, slot_of(database.dsn))


def test_advancing_moves_forward(database: Database) -> None:
    with database.connect() as conn:
        ensure_slot(conn, slot_of(database.dsn))
        database.execute("create table t (id int)")
        target = current_lsn(database.dsn)
        advance_slot(conn, slot_of(database.dsn), target)
    assert confirmed_lsn(database.dsn) == target


def test_advancing_to_an_older_position_changes_nothing(database: Database) -> None:
    with database.connect() as conn:
        info, _ = ensure_slot(conn, slot_of(database.dsn))
        advance_slot(conn, slot_of(database.dsn), Lsn(1))
    assert confirmed_lsn(database.dsn) == info.confirmed_flush_lsn


def test_a_slot_with_a_reader_can_be_neither_advanced_nor_dropped(database: Database) -> None:
    database.execute("create table users (id int primary key)")
    with streaming(prepare(database.dsn, "id")), database.connect() as conn:
        database.execute("insert into users values (1)")
        with pytest.raises(SlotBusy, match="pid"):
            advance_slot(conn, slot_of(database.dsn), current_lsn(database.dsn))
        with pytest.raises(SlotBusy, match="pid"):
            drop_slot(conn, slot_of(database.dsn))
        with pytest.raises(SlotBusy, match="pid"):
            await_release(conn, slot_of(database.dsn), 0.05)


def test_dropping_is_repeatable(database: Database) -> None:
    with database.connect() as conn:
        ensure_slot(conn, slot_of(database.dsn))
        drop_slot(conn, slot_of(database.dsn))
        drop_slot(conn, slot_of(database.dsn))
        assert read_slot(conn, slot_of(database.dsn)) is None


def test_the_lag_is_the_wal_after_the_confirmed_position(database: Database) -> None:
    with database.connect() as conn:
        ensure_slot(conn, slot_of(database.dsn))
        database.execute("create table t as select n from generate_series(1, 1000) as n")
        assert slot_lag_bytes(conn, slot_of(database.dsn)) > 10_000
        with pytest.raises(SlotLost):
            slot_lag_bytes(conn, "nobody_made_this")


@pytest.mark.parametrize(("status", "reason"), [("lost", None), ("reserved", "idle_timeout")])
def test_an_invalidated_slot_is_lost_with_a_remedy(status: str, reason: str | None) -> None:
    info = SlotInfo("shop", "pgoutput", "logical", "db", None, Lsn(1), Lsn(2), status, reason)
    with pytest.raises(SlotLost, match="reindex"):
        check_slot(info)
