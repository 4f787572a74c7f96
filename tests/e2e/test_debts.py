"""Debts end to end: owed before they are confirmed, paid beside the stream, resumed, and paid once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.debt import Debt, Scope
from flusso.engine import debts
from flusso.engine.events import DebtAdvanced, DebtPaid, Event
from flusso.engine.session import Session
from flusso.engine.spec import PipelineSpec
from market import create_market
from pipelines import (
    Run,
    assert_exact,
    drive,
    is_free,
    market_spec,
    owed,
    published,
    run_once,
    sqlite_sink,
    stored_bodies,
)
from sizes import IS_FULL, SIZES
from waiting import wait_until
from workers import peak_of_python_workers

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


_WORKER_BYTES = 500_000_000


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    return market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))


def test_a_range_that_was_in_flight_during_a_truncate_leaves_nothing_behind(
    database18: Database, spec: PipelineSpec, spark_session: Session, tmp_path: Path
) -> None:
    # So few that each range is one chunk: when it is written its transaction is over, and TRUNCATE can pass.
    create_market(database18, users=20)
    (tmp_path / "hold").touch()
    with Run(spec, spark_session) as run:
        run.wait((tmp_path / "held").exists, what="a range that is about to be written")
        database18.execute("truncate users")
        run.wait_confirmed(database18)
        assert [debt.scope for debt in owed(spec)] == [Scope.GONE]
        (tmp_path / "hold").unlink()
        run.wait_seeded()
        run.wait_exact(database18)
    assert stored_bodies(spec) == {}


def test_a_debt_is_paid_from_where_it_was_left_while_changes_go_on(
    database18: Database,
    spec: PipelineSpec,
    spark_session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(debts, "_IDS_IN_A_SHARE", 2)
    monkeypatch.setattr(debts, "_TELL_S", 0.0)
    create_market(database18)
    run_once(spec, spark_session)
    written = tmp_path / "writes"
    written.unlink()
    with Run(spec, spark_session) as run:
        database18.execute("truncate orders")
        run.wait(lambda: run.of(DebtAdvanced), what="some of the debt to be paid")
        database18.execute("update users set name = 'meanwhile' where id = 7")
        run.wait(lambda: b"meanwhile" in stored_bodies(spec)["7"], what="a change beside the debt")
        run.stop.set()
    (debt,) = owed(spec)
    before = [id_ for id_ in written.read_text().split() if id_ != "7"]
    assert debt.cursor.after
    written.unlink()
    monkeypatch.undo()
    run_once(spec, spark_session)
    after = [id_ for id_ in written.read_text().split() if id_ != "7"]
    assert len(after) > 100
    assert sorted(before + after) == sorted(str(n) for n in range(1, 201) if n != 7)
    assert owed(spec) == ()
    assert_exact(database18, spec)


@pytest.mark.sized
def test_a_row_that_very_many_documents_show_is_owed_and_paid_though_its_payer_is_killed(
    database18: Database,
    spec: PipelineSpec,
    spark_session: Session,
    tmp_path: Path,
    figure: Callable[[str, str], None],
) -> None:
    create_market(database18, users=SIZES.fan_out_users)
    database18.execute(
        "insert into tags values (99, 'wide');insert into user_tags select id, 99 from users where id % 3 > 0"
    )
    run_once(spec, spark_session)
    written = tmp_path / "writes"
    written.unlink()
    database18.execute("update tags set name = 'wider' where id = 99")
    (tmp_path / "kill-on-record").touch()
    killed = drive(database18, spec, tmp_path)
    assert killed.returncode == -9, killed.stderr
    # Two paths lead to a tag: as one of a user's tags, and as one of their ids.
    found = [(debt.scope, debt.reach and debt.reach.keys) for debt in owed(spec)]
    assert found == [(Scope.REACHED, (("99",),))] * 2
    assert set(written.read_text().split()) < wide(database18)

    wait_until(lambda: is_free(database18, spec.slot), what="the orphans to let go of the slot")
    with Run(spec, spark_session) as run:
        database18.execute("update users set name = 'meanwhile' where id = 7")
        run.wait(lambda: b"meanwhile" in body_of(spec, "7"), what="a change beside the debt")
        run.wait_exact(database18)
        peak = peak_of_python_workers(spark_session)
    paid = run.of(DebtPaid)
    figure(
        f"one row that {len(wide(database18)):,} documents show by two paths, its payer killed once",
        f"paid in {' + '.join(f'{event.seconds:.0f}' for event in paid)} s, "
        f"{sum(event.documents for event in paid):,} documents, Python worker {peak / 1e6:.0f} MB at most",
    )
    assert peak < _WORKER_BYTES
    assert set(written.read_text().split()) == wide(database18) | {"7"}
    assert b"wider" in body_of(spec, str(SIZES.fan_out_users - 1))
    if not IS_FULL:  # so many documents are more than a test can hold
        assert_exact(database18, spec)


def body_of(spec: PipelineSpec, id_: str) -> bytes:
    sink = spec.indexes[0].sinks[0].open()
    try:
        return sink.read(published(sink), [id_])[id_].body
    finally:
        sink.close()


def wide(database: Database) -> set[str]:
    return {str(id_) for (id_,) in database.execute("select user_id from user_tags where tag_id = 99")}


def test_a_debt_for_the_whole_index_mends_whatever_is_wrong_with_it(
    database18: Database, spec: PipelineSpec, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18)
    run_once(spec, spark_session)
    sink = sqlite_sink(tmp_path).open()
    sink._conn.execute("delete from documents where id in ('3', '4')")  # type: ignore[attr-defined]
    sink._conn.execute("""update documents set body = '{"id":5}' where id = '5'""")  # type: ignore[attr-defined]
    sink._conn.execute("update documents set id = '5000' where id = '6'")  # type: ignore[attr-defined]
    state = sink.load_states().serving("users")
    assert state is not None
    sink.save_state(replace(state, debts=(Debt(Scope.WHOLE, ("it was damaged",), state.witness),)))
    sink.close()
    told: list[Event] = run_once(spec, spark_session)
    assert [event.reason for event in told if isinstance(event, debts.DebtFound)] == ["it was damaged"]
    assert_exact(database18, spec)
