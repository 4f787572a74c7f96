from __future__ import annotations

import pytest
from streams import confirmed_lsn, current_lsn, prepare, slot_of, streaming

from fix_postgres import Database
from flusso.capture.slot import (
    SlotInfo,
    advance_slot,
    await_release,
    check_slot,
    check_witness,
    drop_slot,
    ensure_slot,
    read_slot,
    reader_of,
    set_failover,
)
from flusso.capture.slot_facts import measure_slot
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


def test_a_physical_slot_is_refused(database: Database) -> None:
    with database.connect() as conn:
        conn.execute("select pg_create_physical_replication_slot(%s)", (f"physical_{database.name}",))
        try:
            with pytest.raises(SlotPhysical, match="physical"):
                ensure_slot(conn, f"physical_{database.name}")
        finally:
            drop_slot(conn, f"physical_{database.name}")


def test_a_slot_of_another_database_is_refused(database: Database) -> None:
    with database.connect() as conn:
        ensure_slot(conn, slot_of(database.dsn))
        database.execute("select 1")
    other = Database(database.server, "postgres")
    with other.connect() as conn, pytest.raises(SlotDatabase, match=database.name):
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
        lag_bytes = measure_slot(conn, slot_of(database.dsn)).lag_bytes
        assert lag_bytes is not None
        assert lag_bytes > 10_000
        assert measure_slot(conn, "nobody_made_this").lag_bytes is None


@pytest.mark.parametrize(("status", "reason"), [("lost", None), ("reserved", "idle_timeout")])
def test_an_invalidated_slot_is_lost_with_a_remedy(status: str, reason: str | None) -> None:
    info = SlotInfo("shop", "pgoutput", "logical", "db", None, Lsn(1), Lsn(2), status, reason)
    with pytest.raises(SlotInvalidated, match="reindex"):
        check_slot(info)


def test_a_slot_of_another_plugin_is_refused() -> None:
    info = SlotInfo("shop", "test_decoding", "logical", "db", None, Lsn(1), Lsn(2), "reserved", None)
    with pytest.raises(SlotPlugin, match="test_decoding"):
        check_slot(info)


def test_a_temporary_slot_is_refused_with_the_session_that_it_ends_with(database: Database) -> None:
    with database.connect() as owner, database.connect() as conn:
        owner.execute("select pg_create_logical_replication_slot('passing', 'pgoutput', true)")
        with pytest.raises(SlotTemporary, match=f"pid {owner.info.backend_pid}"):
            ensure_slot(conn, "passing")


def test_a_slot_that_must_be_there_and_is_not_is_missing(database: Database) -> None:
    with database.connect() as conn, pytest.raises(SlotMissing, match="reindex"):
        advance_slot(conn, "nobody_made_this", Lsn(1))


def test_a_slot_ahead_of_what_was_written_is_refused() -> None:
    info = SlotInfo("shop", "pgoutput", "logical", "db", None, Lsn(1), Lsn(0x200), "reserved", None)
    check_witness(info, Lsn(0x200), "changes were written")
    with pytest.raises(SlotAdvanced, match=r"0/200.*changes were written only up to 0/1FF"):
        check_witness(info, Lsn(0x1FF), "changes were written")


def test_the_reader_of_a_slot_is_named_by_pid_application_and_address(database: Database) -> None:
    database.execute("create table users (id int primary key)")
    with streaming(prepare(database.dsn, "id")), database.connect() as conn:
        info = read_slot(conn, slot_of(database.dsn))
        assert info is not None
        assert reader_of(info) == f'pid {info.active_pid} ("flusso" at 127.0.0.1)'


def test_a_failover_slot_is_made_or_altered(database18: Database) -> None:
    name = slot_of(database18.dsn)
    with database18.connect() as conn:
        made, _ = ensure_slot(conn, name, is_failover=True)
        assert made.is_failover
        drop_slot(conn, name)
        made, _ = ensure_slot(conn, name)
        assert not made.is_failover
        set_failover(database18.dsn, name)
        altered = read_slot(conn, name)
    assert altered is not None
    assert altered.is_failover
