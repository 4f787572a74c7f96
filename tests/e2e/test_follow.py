"""Write to Postgres, wait, stop, then look: what follows from a change."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from absent_standby import hanging_commit, standby_missing
from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine import batch
from flusso.engine.events import Recovered, Stopped, Waiting
from flusso.engine.session import Session
from market import create_market
from pipelines import (
    Run,
    assert_exact,
    confirmed_lsn,
    is_free,
    market_spec,
    run_once,
    sqlite_sink,
    stored_bodies,
    stored_versions,
    waiting_for,
)
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_seeding_gives_exactly_the_documents_of_the_rows(
    database: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database)
    spec = market_spec(database, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    assert_exact(database, spec)


CHANGES = {
    "a new row": "insert into users values (1001, 'new', 'New@x.org')",
    "an update": "update users set name = 'renamed' where id = 3",
    "a deleted root": "delete from users where id = 4",
    "a soft-deleted root": "update users set deleted_at = now() where id = 5",
    "a changed key": "update users set id = 2006 where id = 6",
    "a new child": "insert into orders values (5001, 7, 12.50)",
    "a deleted child": "delete from orders where user_id = 8",
    "a moved child": "update orders set user_id = 10 where user_id = 9",
    "a child that no longer counts": "update orders set status = 'open' where user_id = 11",
    "a grandchild": "insert into items values (9001, 12, 1, 3)",
    "a deleted grandchild": "delete from items where order_id = 13",
    "a moved grandchild": "update items set order_id = 15 where order_id = 14",
    "a renamed product": "update products set name = 'better' where id = 2",
    "a renamed category": "update categories set name = 'finer' where id = 3",
    "a product of another category": "update products set category_id = 1 where id = 7",
    "a new link": "insert into user_tags values (16, 9)",
    "a removed link": "delete from user_tags where user_id = 17",
    "a moved link": "update user_tags set user_id = 19 where user_id = 18",
    "a renamed tag": "update tags set name = 'hot' where id = 2",
    "a truncated child": "truncate items",
    "a truncated junction": "truncate user_tags",
    "a truncated root": "truncate users",
}


def test_every_kind_of_change_reaches_every_document_it_touches(
    database: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database)
    spec = market_spec(database, sqlite_sink(tmp_path))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        for name, sql in CHANGES.items():
            database.execute(sql)
            run.wait_exact(database)
            try:
                assert_exact(database, spec)
            except AssertionError as error:
                raise AssertionError(f"after {name}: {error}") from None


def test_seeding_and_following_give_byte_identical_documents(
    database: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database)
    spec = market_spec(database, sqlite_sink(tmp_path))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        seeded, versions = stored_bodies(spec), stored_versions(spec)
        database.execute("update users set name = name; update orders set total = total")
        run.wait_confirmed(database)
    assert stored_bodies(spec) == seeded
    followed = stored_versions(spec)
    assert followed.keys() == versions.keys()
    assert all(followed[id_] > versions[id_] for id_ in versions)


def test_an_idle_database_still_confirms_its_last_batch(
    database: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database, users=10)
    spec = market_spec(database, sqlite_sink(tmp_path))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        database.execute("update users set name = 'last' where id = 1")
        run.wait_confirmed(database)


def test_a_commit_that_waits_for_a_missing_standby_is_told_and_remembered_until_it_is_visible(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=10)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    change = "update users set name = 'held' where id = 1"
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        writer = threading.Thread(target=database18.execute, args=(change,))
        with standby_missing(database18.dsn.text):
            writer.start()
            pid = hanging_commit(database18.dsn.text)
            (waiting,) = run.wait(lambda: run.of(Waiting), what="word of the held transaction")
            assert f"is not visible yet, held by pid {pid}" in waiting.reason
            assert waiting_for(spec) == waiting.reason
        writer.join(30)
        run.wait(lambda: run.of(Recovered), what="its end")
        run.wait_exact(database18)
        assert waiting_for(spec) == ""
    assert_exact(database18, spec)


def test_a_stop_does_not_wait_for_a_sink_that_hangs_and_nothing_is_lost(
    database18: Database, spark_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "LAST_BATCH_S", 1.0)
    create_market(database18, users=10)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        before = run.wait_confirmed(database18)
        (tmp_path / "hold").touch()
        database18.execute("update users set name = 'unwritten'")
        run.wait((tmp_path / "held").exists, what="a write that hangs")
        asked_s = time.monotonic()
        run.stop.set()
        run.wait(lambda: run.of(Stopped), what="the end")
    assert time.monotonic() - asked_s < 15
    assert [event.is_settled for event in run.of(Stopped)] == [False]
    (tmp_path / "hold").unlink()
    wait_until(lambda: is_free(database18, spec.slot), what="the slot to be free")
    assert confirmed_lsn(database18, spec.slot) >= before
    run_once(spec, spark_session)
    assert_exact(database18, spec)
