"""Exact with Postgres as it comes: default replica identities, nothing altered, the whole pipeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine.events import DebtPaid, Event
from flusso.engine.session import Session
from flusso.engine.spec import PipelineSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import Run, assert_exact, market_spec, run_once, sqlite_sink

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

AS_IT_COMES = "alter table orders replica identity default; alter table items replica identity default"
LEAVING = (
    "delete from orders where id in (3, 7)",
    "update orders set user_id = user_id + 1 where id between 10 and 20",
    "update items set order_id = order_id + 5, quantity = 9 where id % 7 = 0",
    "delete from items where order_id = 30; delete from orders where id = 30",
    "update orders set id = 1000, user_id = 4 where id = 31",
    "update orders set user_id = 1 where id = 40; update orders set user_id = 2 where id = 40",
)


def generation(spec: PipelineSpec) -> int:
    """Which generation readers see."""
    sink = spec.indexes[0].sinks[0].open()
    try:
        serving = sink.load_states().serving("users")
        return 0 if serving is None else serving.generation
    finally:
        sink.close()


def test_what_leaves_while_ranges_are_held_back_and_after_is_found(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    database18.execute(AS_IT_COMES)
    sink = FaultySpec(sqlite_sink(tmp_path), str(tmp_path))
    spec = market_spec(database18, sink, keeps_references=True, look_s=0.5)
    (tmp_path / "hold").touch()
    with Run(spec, spark_session) as run:
        _lose_some(database18, run, tmp_path)
        assert_exact(database18, spec)  # before anything else builds the same documents
        for sql in LEAVING:
            database18.execute(sql)
        run.wait_exact(database18)
        assert_exact(database18, spec)
        _change_identities(database18, run, spec)
    assert_exact(database18, spec)


def test_more_rows_than_are_remembered_leave_nothing_stale(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    database18.execute(AS_IT_COMES)
    sink = FaultySpec(sqlite_sink(tmp_path), str(tmp_path))
    spec = market_spec(database18, sink, keeps_references=True)
    few = replace(spec, batch=replace(spec.batch, max_due=1))
    (tmp_path / "hold").touch()
    heard: list[Event] = []
    with Run(few, spark_session, heard.append) as run:
        _lose_some(database18, run, tmp_path)
    assert_exact(database18, spec)
    assert [event.documents for event in heard if isinstance(event, DebtPaid)] == [20]


def _lose_some(database: Database, run: Run, folder: Path) -> None:
    """Nothing is found for these, so nothing is written for them: the range overtakes the look-up."""
    run.wait((folder / "held").exists, what="a range that is about to be written")
    database.execute("delete from orders where id in (1, 2); delete from items where id in (50, 51)")
    run.wait_confirmed(database)
    (folder / "hold").unlink()
    run.wait_seeded()
    run.wait_exact(database)


def _change_identities(database: Database, run: Run, spec: PipelineSpec) -> None:
    """By hand, while it runs: the generation keeps its references when they are no longer needed, and gets
    another one beside it when more are."""
    database.execute("alter table orders replica identity full")
    database.execute("update orders set user_id = 6 where id = 41; delete from orders where id = 42")
    run.wait_exact(database)
    assert_exact(database, spec)
    assert generation(spec) == 1
    database.execute("alter table orders replica identity default")
    database.execute("update orders set user_id = 7 where id = 41; delete from orders where id = 43")
    run.wait_exact(database)
    assert_exact(database, spec)
    assert generation(spec) == 1


@pytest.mark.opensearch
def test_an_identity_that_shows_less_begins_a_new_generation(
    database18: Database, search_sink: OpenSearchSpec, spark_session: Session
) -> None:
    """What readers see has no references for it, and cannot be followed: another generation is filled."""
    create_market(database18, users=20)
    database18.execute("alter table items replica identity default")
    spec = market_spec(database18, search_sink, keeps_references=True, look_s=0.5)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        database18.execute("delete from items where order_id = 5; update orders set user_id = 3 where id = 6")
        run.wait_exact(database18)
        assert_exact(database18, spec)
        database18.execute("alter table orders replica identity default")
        run.wait(lambda: _write_on(database18, spec, until=2), what="the next generation")
        for sql in LEAVING:
            database18.execute(sql)
        run.wait_exact(database18)
    assert_exact(database18, spec)


@pytest.mark.parametrize(
    ("identities", "how"),
    [
        pytest.param(("default", "full"), {"keeps_references": True}, id="set back by hand"),
        pytest.param(("default",), {"manages_identity": True}, id="set back by flusso"),
    ],
)
def test_an_identity_that_hid_what_rows_left_while_nobody_looked_leaves_nothing_stale(
    database18: Database,
    spark_session: Session,
    tmp_path: Path,
    identities: tuple[str, ...],
    how: dict[str, bool],
) -> None:
    """The catalog is as it was; only the log knows."""
    create_market(database18, users=20)
    spec = market_spec(database18, sqlite_sink(tmp_path), **how)
    run_once(spec, spark_session)
    for identity in identities:
        database18.execute(f"alter table orders replica identity {identity}")
        database18.execute("delete from orders where id = 3; update orders set user_id = 5 where id = 4")
    run_once(spec, spark_session)
    assert_exact(database18, spec)
    assert generation(spec) == 1


def _write_on(database: Database, spec: PipelineSpec, *, until: int) -> bool:
    """Lose and move a few children at each look, from before anybody has noticed until readers have moved."""
    database.execute(
        "with chosen as (select min(id) as id from orders where id > 41 and user_id < 20)"
        " update orders set user_id = 20 from chosen where orders.id = chosen.id;"
        "delete from orders where id = (select max(id) from orders where id > 41 and user_id < 20)"
    )
    return generation(spec) == until


def test_what_leaves_before_the_next_generation_is_written_is_found_when_it_serves(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    """Its ranges are read and held back: neither generation can tell what the rows leave, until it serves."""
    create_market(database18, users=20)
    database18.execute("alter table items replica identity default")
    sink = FaultySpec(sqlite_sink(tmp_path), str(tmp_path))
    spec = market_spec(database18, sink, keeps_references=True, look_s=0.5)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        run.wait_exact(database18)
        (tmp_path / "hold").write_text("2")  # of the first, what this hides is owed: its turns hold no slot
        database18.execute("alter table orders replica identity default")
        database18.execute("delete from orders where id = 41")
        run.wait((tmp_path / "held").exists, what="a range that is about to be written")
        database18.execute("delete from orders where id <= 20")  # one of each user, whichever are held back
        run.wait_confirmed(database18)
        database18.execute("update orders set user_id = 9 where id in (24, 25)")
        (tmp_path / "hold").unlink()
        run.wait(lambda: generation(spec) == 2, what="the next generation")
        run.wait_exact(database18)
        assert_exact(database18, spec)
    assert_exact(database18, spec)
