"""`reindex` of what a reindex is under way for: real Postgres and SQLite, the preparation without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commands import Deployment
from fix_postgres import Database
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.main import app
from flusso.engine import work
from flusso.engine.provision import Prepared, prepare
from flusso.errors import SlotMissing
from market import create_market
from pipelines import publish_seeded

pytestmark = pytest.mark.postgres
Start = Callable[[], Prepared]


@pytest.fixture
def start(database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """What a run does before anything flows. Readers see generation 1, a reindex has begun generation 2."""
    create_market(database18, users=3)
    deployment = Deployment(tmp_path, database18)
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "FLUSSO_SLOT"):
        monkeypatch.setenv(name, deployment.env[name])

    def again() -> Prepared:
        spec = pipeline_spec(load(Path("flusso.toml"), slot=deployment.slot))
        prepared = prepare(spec, lambda event: None, threading.Event())
        assert prepared is not None
        work.forget()
        return prepared

    publish_seeded(again().ledger, "users")
    reindex()
    assert written(again()) == [1, 2]
    return again


def reindex() -> str:
    done = CliRunner().invoke(app, ["reindex", "users"])
    assert done.exit_code == 0, done.output
    return done.output


def written(prepared: Prepared) -> list[int]:
    return [entry.state.generation for entry in prepared.ledger.entries]


def test_a_reindex_that_lost_its_slot_half_way_is_begun_again_by_another(
    database18: Database, start: Start
) -> None:
    database18.execute("select pg_drop_replication_slot(%s)", f"slot_{database18.name}")
    with pytest.raises(SlotMissing, match="run flusso reindex users"):
        start()
    reindex()
    assert written(start()) == [3]


def test_a_reindex_that_nothing_happened_to_goes_on_when_it_is_asked_for_again(start: Start) -> None:
    reindex()
    assert written(start()) == [1, 2]


def test_a_reindex_of_what_a_running_flusso_fills_asks_for_nothing_more(
    database18: Database, start: Start
) -> None:
    prepared = start()
    capture = CaptureSpec(database18.dsn, f"slot_{database18.name}", "flusso", prepared.watched)
    stream = CaptureStream(capture)
    stream.start()
    try:
        assert reindex() == 'users in sink "local": generation 2 is being filled already\n'
    finally:
        stream.stop()


def test_a_reindex_of_what_is_whole_and_has_no_readers_yet_begins_another_in_its_place(start: Start) -> None:
    """As when it differs from its tables, and `verify_before_switch` keeps readers where they are."""
    ledger = start().ledger
    ledger.finish_seed(ledger.to_seed())
    work.forget()
    assert reindex() == 'users in sink "local": a new generation is asked for: the next run fills it\n'
    prepared = start()
    assert written(prepared) == [1, 3]
    assert [entry.state.generation for entry in prepared.ledger.to_seed()] == [3]
