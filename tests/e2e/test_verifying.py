"""`flusso verify` beside a live pipeline: no false alarm, what is planted is found, a repair does no harm."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from commands import Deployment
from fix_postgres import Database
from flusso.cli import verify as command
from flusso.cli.main import app
from flusso.engine.events import Event, ReadersMoved, Repaired, SeedAdvanced
from flusso.engine.session import Session
from flusso.engine.spec import PipelineSpec
from flusso.engine.verify import run as running
from flusso.engine.verify.pace import Pace
from flusso.engine.verify.run import run_verify
from flusso.errors import IndexUnready
from flusso.sinks.stdout import StdoutSpec
from market import create_market
from pipelines import Run, assert_exact, market_spec, run_once, sqlite_sink
from verifying import found

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
Verify = Callable[..., Result]


@pytest.fixture
def verify(
    database18: Database, tmp_path: Path, spark_session: Session, monkeypatch: pytest.MonkeyPatch
) -> Verify:
    """The command, on the session that all tests share."""
    deployment = Deployment(tmp_path, database18)
    monkeypatch.setattr(running, "open_session", lambda spec: spark_session)
    monkeypatch.setattr(Session, "close", lambda self: None)
    monkeypatch.setattr(command, "stop_on_signal", threading.Event)

    def call(*arguments: str) -> Result:
        path = str(deployment.folder / "flusso.toml")
        return CliRunner().invoke(app, ["verify", "-c", path, *arguments], env=dict(deployment.env))

    return call


@contextmanager
def writing(database: Database) -> Iterator[None]:
    """Change rows of the first 151 users all the time, in several ways, until the block ends."""
    is_over = threading.Event()

    def write() -> None:
        for number in range(10_000_000):
            if is_over.is_set():
                return
            user = 1 + number * 7 % 150
            database.execute(
                f"""
                update users set name = 'name {number}' where id = {user};
                update orders set user_id = 1 + (user_id + 3) % 150, total = total + 1 where id = {user};
                delete from users where id = {1 + user % 50};
                insert into users values ({1 + user % 50}, 'again {number}', 'x') on conflict do nothing;
                insert into users values ({1000 + number}, 'new', 'y')
                """
            )
            database.execute(f"delete from users where id = {1000 + number - 5}")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_beside_a_writer_and_the_live_pipeline_only_what_is_planted_is_a_difference(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    stop = threading.Event()

    def look(**options: Any) -> Any:
        (one,) = run_verify(spec, events.append, stop, session=spark_session, **options).indexes
        return one

    events: list[Any] = []
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        with writing(database18):
            clean = look()
            assert found(clean) == {}
            assert clean.pace is Pace.FOLLOWED
            assert clean.documents >= 150
            _plant(tmp_path)
            assert found(look()) == {"180": "missing", "190": "different", "9999999": "extra"}
            mended = look(repairs=True)
            assert (found(mended), sum(mended.repaired.values())) == ({}, 3)
            assert found(look(sample=50)) == {}
        database18.execute("truncate items")  # its position is confirmed when all documents are owed
        owed = look()
        assert (found(owed), owed.unproven, owed.pace) == ({}, 0, Pace.FOLLOWED)
        run.wait_exact(database18)
        assert_exact(database18, spec)


@pytest.mark.parametrize("verifies", [True, False])
def test_what_differs_is_repaired_before_readers_see_it_where_that_is_wanted(
    database18: Database, tmp_path: Path, spark_session: Session, verifies: bool
) -> None:
    create_market(database18)
    spec = _verifying(market_spec(database18, sqlite_sink(tmp_path)), verifies)
    index = replace(spec.indexes[0], sinks=(*spec.indexes[0].sinks, StdoutSpec("lines")))
    spec = replace(spec, indexes=(index,))  # one sink that holds nothing to compare beside it
    with Run(spec, spark_session, _when_written(lambda: _plant(tmp_path))) as run:
        run.wait(lambda: len(run.of(ReadersMoved)) == 2, what="readers of both sinks to move")
        kinds = _kinds(run)
    (one,) = run_verify(spec, run.events.append, threading.Event(), session=spark_session).indexes
    if verifies:
        assert (kinds, found(one)) == ([Repaired, ReadersMoved], {})
    else:
        wrong = {"180": "missing", "190": "different", "9999999": "extra"}
        assert (kinds, found(one)) == ([ReadersMoved], wrong)


def test_what_no_repair_mends_keeps_readers_from_a_generation(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=20)
    spec = _verifying(market_spec(database18, sqlite_sink(tmp_path)), True)
    spoil = "update documents set body = '{}' where id = '7'"

    def plant() -> None:
        _in_file(tmp_path, spoil, f"create trigger spoil after update on documents begin {spoil}; end")

    with (
        pytest.raises(IndexUnready, match=r"differs from its tables in 1 documents \(7\)"),
        Run(spec, spark_session, _when_written(plant)) as run,
    ):
        run.wait(lambda: run.of(ReadersMoved), what="readers to move")
    assert run.of(ReadersMoved) == []


def _kinds(run: Run) -> list[type[Event]]:
    """What happened to the file, in order."""
    told = (event for event in run.events if isinstance(event, Repaired | ReadersMoved))
    return [type(event) for event in told if event.sink == "local"]


def _verifying(spec: PipelineSpec, verifies: bool) -> PipelineSpec:
    return replace(spec, indexes=tuple(replace(index, verifies=verifies) for index in spec.indexes))


def _when_written(act: Callable[[], None]) -> Callable[[Event], None]:
    """Act when all documents of a small index are written, and before anybody knows that it is whole."""

    def tell(event: Event) -> None:
        if isinstance(event, SeedAdvanced) and event.seeding.done == event.seeding.blocks:
            act()

    return tell


def _plant(folder: Path) -> None:
    """Do what no change will ever mend: to rows that the writer leaves alone."""
    _in_file(
        folder,
        "update documents set body = '{}' where id = '190'",
        "update documents set id = '9999999' where id = '180'",
    )


def _in_file(folder: Path, *statements: str) -> None:
    sink = sqlite_sink(folder).open()
    for statement in statements:
        sink._conn.execute(statement)  # type: ignore[attr-defined]
    sink.close()


def test_what_a_blind_relation_left_stale_is_named_and_healed(
    database18: Database, tmp_path: Path, spark_session: Session, verify: Verify
) -> None:
    create_market(database18, users=30)
    database18.execute("alter table orders replica identity default")
    spec = market_spec(database18, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    before = verify("--format", "json")
    assert (before.exit_code, json.loads(before.stdout)["agrees"]) == (0, True)
    database18.execute("delete from orders where id = 5")
    run_once(spec, spark_session)

    stale = verify("--format", "json")
    assert stale.exit_code == 1
    facts = json.loads(stale.stdout)
    (index,) = facts["indexes"]
    assert [(one["id"], one["kind"]) for one in index["differences"]] == [("6", "different")]
    assert "$.orders" in index["differences"][0]["paths"]
    assert {"users.orders" in one["effect"] for one in facts["blind"]} == {True, False}
    shown = verify()
    assert shown.exit_code == 1
    assert "different 6 at $.orderCount" in shown.stdout
    assert "blind: a row of public.orders that is deleted or moved leaves users.orderCount" in shown.stdout
    assert 'alter table "public"."orders" replica identity full;' in shown.stdout

    repaired = verify("--repair")
    assert repaired.exit_code == 0
    assert "1 different repaired" in repaired.stdout
    assert verify("--sample", "1000").exit_code == 0
    assert verify().exit_code == 0
    assert_exact(database18, spec)


def test_the_command_in_a_process_of_its_own_ends_with_1_on_differences(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=30)
    run_once(market_spec(database18, sqlite_sink(tmp_path)), spark_session)
    sink = sqlite_sink(tmp_path).open()
    sink._conn.execute("delete from documents where id = '3'")  # type: ignore[attr-defined]
    sink.close()
    done = Deployment(tmp_path, database18).call("verify", "users")
    assert done.returncode == 1, done.stderr
    assert "missing 3\n" in done.stdout
    assert "nobody follows" in done.stdout
    assert "verify advanced index=users part=rows" in done.stderr
