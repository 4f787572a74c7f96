"""Write, then confirm: what is confirmed is durable, whatever fails in between."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine.events import BatchWritten, Retrying
from flusso.engine.session import Session
from flusso.engine.spec import BatchSpec
from flusso.lsn import Lsn
from market import create_market
from pipelines import (
    Run,
    assert_exact,
    confirmed_lsn,
    current_lsn,
    drive,
    is_free,
    market_spec,
    run_once,
    sqlite_sink,
    stored_bodies,
)
from sizes import SIZES
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_a_position_is_confirmed_only_after_its_documents_are_written(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        run.wait_confirmed(database18)
        (tmp_path / "closed").touch()
        before = current_lsn(database18)
        database18.execute("update users set name = 'held back' where id = 1")
        run.wait(lambda: len(run.of(Retrying)) >= 3, what="the sink to be tried three times")
        assert confirmed_lsn(database18, spec.slot) <= before
        assert b"held back" not in stored_bodies(spec)["1"]
        (tmp_path / "closed").unlink()
        run.wait_confirmed(database18)
        assert b"held back" in stored_bodies(spec)["1"]


class NoticedEvent(threading.Event):
    """Knows whether whoever looks has seen it set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_noticed = threading.Event()

    def is_set(self) -> bool:
        if super().is_set():
            self.is_noticed.set()
        return super().is_set()


def test_a_stop_waits_for_the_batch_in_hand_and_confirms_it(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    stop = NoticedEvent()
    with Run(spec, spark_session, stop=stop) as run:
        run.wait_seeded()
        run.wait_confirmed(database18)
        (tmp_path / "hold").touch()
        database18.execute("update users set name = 'last words' where id = 1")
        after = current_lsn(database18)
        run.wait((tmp_path / "held").exists, what="the batch to be in hand")
        stop.set()
        assert stop.is_noticed.wait(SIZES.patience_s)
        (tmp_path / "hold").unlink()
    assert b"last words" in stored_bodies(spec)["1"]
    assert confirmed_lsn(database18, spec.slot) >= after


def test_a_transaction_in_many_batches_is_never_confirmed_in_part(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    """Before its commit any position may be confirmed: the transaction then comes again as a whole."""
    create_market(database18, users=1000)
    batch = BatchSpec(max_changes=50, confirm_after_s=0.1, tick_s=0.3)
    spec = market_spec(database18, sqlite_sink(tmp_path), batch=batch)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        run.wait_confirmed(database18)
        before = len(run.of(BatchWritten))
        with psycopg.connect(database18.dsn.text) as conn:
            conn.execute("update users set name = 'all of them'")
            row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None
            inside = Lsn.parse(row[0])
        after = current_lsn(database18)
        assert inside < after

        def is_confirmed() -> bool:
            confirmed = confirmed_lsn(database18, spec.slot)
            written = sum(event.changes for event in run.of(BatchWritten)[before:])
            assert confirmed <= inside or written == 1000
            return confirmed >= after

        run.wait(is_confirmed, what="the transaction to be confirmed")
        batches = [event for event in run.of(BatchWritten)[before:] if event.changes]
        assert len(batches) >= 20
    assert_exact(database18, spec)


def test_a_batch_that_is_applied_twice_leaves_the_same_index(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        run.wait_confirmed(database18)
        (tmp_path / "writes").unlink()
        (tmp_path / "fail-on-record").touch()
        database18.execute("update users set name = 'twice' where id = 1; delete from users where id = 2")
        run.wait_confirmed(database18)
    assert (tmp_path / "writes").read_text().split().count("1") == 2
    assert_exact(database18, spec)


@pytest.mark.sized
def test_changes_made_while_seeding_are_in_the_index_at_the_end(
    database: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database, users=SIZES.seed_users)
    spec = market_spec(database, sqlite_sink(tmp_path))
    done = threading.Event()
    writer = threading.Thread(target=_write_without_pause, args=(database, done), daemon=True)
    with Run(spec, spark_session) as run:
        writer.start()
        try:
            run.wait_seeded(SIZES.patience_s)
        finally:
            done.set()
            writer.join()
        run.wait_confirmed(database, timeout_s=SIZES.patience_s)
    assert_exact(database, spec)


def test_a_process_killed_between_write_and_confirm_loses_nothing(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=50)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    run_once(spec, spark_session)
    before = confirmed_lsn(database18, spec.slot)
    database18.execute(
        "update users set name = 'survives' where id < 10; delete from users where id = 11;"
        "insert into orders values (7001, 12, 5)"
    )
    (tmp_path / "writes").unlink()
    (tmp_path / "kill-on-record").touch()
    killed = drive(database18, spec, tmp_path)
    assert killed.returncode == -9, killed.stderr
    assert confirmed_lsn(database18, spec.slot) == before
    wait_until(lambda: is_free(database18, spec.slot), what="the orphans to let go of the slot")
    run_once(spec, spark_session)
    assert_exact(database18, spec)


def _write_without_pause(database: Database, done: threading.Event) -> None:
    """Insert, update, move and delete until told to stop."""
    number = 0
    with psycopg.connect(database.dsn.text, autocommit=True) as conn:
        while not done.is_set():
            number += 1
            user = 1 + (number * 7919) % SIZES.seed_users
            conn.execute("insert into users values (%s, 'fresh', 'f@x')", (1_000_000 + number,))
            conn.execute("update users set name = %s where id = %s", (f"touched {number}", user))
            conn.execute("update orders set user_id = %s where id = %s", (user, 1 + number % 100))
            conn.execute("delete from users where id = %s", (1 + (number * 104729) % SIZES.seed_users,))
            conn.execute("delete from users where id = %s", (1_000_000 + number // 2,))
