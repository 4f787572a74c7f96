"""Write to Postgres, wait, stop, then look: what follows from a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.session import Session
from market import create_market
from pipelines import Run, assert_exact, market_spec, run_once, sqlite_sink, stored_bodies

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
        seeded = stored_bodies(spec)
        database.execute("update users set name = name; update orders set total = total")
        run.wait_confirmed(database)
    assert stored_bodies(spec) == seeded


def test_an_idle_database_still_confirms_its_last_batch(
    database: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database, users=10)
    spec = market_spec(database, sqlite_sink(tmp_path))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        database.execute("update users set name = 'last' where id = 1")
        run.wait_confirmed(database)
