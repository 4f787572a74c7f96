"""`flusso slot`: what it shows, and that it loses nothing unasked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from commands import Deployment
from fix_postgres import Database
from flusso.capture.replication import open_replication
from flusso.cli.main import app
from flusso.engine.provision import prepare
from flusso.errors import ConfigError, SlotAdvanced, SlotBusy, SlotMissing, SlotPhysical
from market import create_market
from pipelines import confirmed_lsn, current_lsn, market_spec, publish_seeded, sqlite_sink
from slots import invalidated, move

pytestmark = pytest.mark.postgres

Call = Callable[..., Result]


@pytest.fixture
def call(database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `flusso slot …` in the folder of a deployment."""
    create_market(database18, users=3)
    deployment = Deployment(tmp_path, database18)
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "FLUSSO_SLOT"):
        monkeypatch.setenv(name, deployment.env[name])
    return lambda *words, **more: CliRunner().invoke(app, ["slot", *words], **more)


def seed(database: Database, folder: Path) -> str:
    spec = market_spec(database, sqlite_sink(folder))
    prepared = prepare(spec, lambda event: None, threading.Event())
    assert prepared is not None
    publish_seeded(prepared.ledger, "users")
    return spec.slot


def check() -> str:
    return CliRunner().invoke(app, ["check"]).stdout


def status() -> str:
    done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == 0, done.exception
    return done.stdout


def shown(call: Call) -> dict[str, object]:
    found: dict[str, object] = json.loads(call("show", "--format", "json").stdout)
    return found


def test_a_slot_that_is_not_there_yet_is_no_problem(call: Call) -> None:
    done = call("show")
    assert (done.exit_code, done.stdout.strip()[-18:]) == (0, "does not exist yet")


def test_show_gives_every_fact(call: Call, database18: Database, tmp_path: Path) -> None:
    slot = seed(database18, tmp_path)
    facts = shown(call)
    assert facts | {
        "exists": True, "type": "logical", "plugin": "pgoutput", "database": database18.name, "reader": None,
        "is_temporary": False, "is_failover": False, "is_synced": False, "wal_status": "reserved",
        "confirmed": str(confirmed_lsn(database18, slot)), "problems": [], "invalidation_reason": None,
    } == facts  # fmt: skip
    assert isinstance(facts["lag_bytes"], int)
    assert isinstance(facts["retained_bytes"], int)
    assert facts["inactive_since"]
    assert [(one["index"], one["sink"]) for one in facts["indexes"]] == [("users", "local")]  # type: ignore[attr-defined]
    text = call("show").stdout
    for word in ("logical, pgoutput", "nobody since", "bytes", "reserved", "timeline 1", "of users in local"):
        assert word in text


def test_show_says_what_is_wrong_and_what_to_do(call: Call, database18: Database, tmp_path: Path) -> None:
    slot = seed(database18, tmp_path)
    move(database18, slot)
    done = call("show")
    assert done.exit_code == 1
    assert "SlotAdvanced" in done.stdout
    assert "help: run flusso reindex" in done.stdout
    with invalidated(database18, slot):
        (problem,) = shown(call)["problems"]  # type: ignore[misc]
        assert problem["error"] == "SlotInvalidated"
        assert "lost-slot" in check()
        assert "WAL lost" in status()
        assert "is lost (" in status()
        assert call("drop", "--yes").exit_code == 0
    (problem,) = shown(call)["problems"]  # type: ignore[misc]
    assert problem["error"] == SlotMissing.__name__


def test_create_makes_the_publication_first(call: Call, database18: Database) -> None:
    done = call("create")
    assert (done.exit_code, done.stdout.startswith("slot ")) == (0, True)
    rows = database18.execute("select pubname from pg_publication")
    assert rows == [("flusso",)]
    assert "is there" in call("create").stdout
    assert shown(call)["exists"]


def test_create_without_the_right_to_make_the_publication_makes_no_slot(
    call: Call, database18: Database, tmp_path: Path
) -> None:
    config = tmp_path / "flusso.toml"
    unmanaged = '"postgres"\nmanage_publication = false\n'
    config.write_text(config.read_text().replace('"postgres"\n', unmanaged, 1))
    done = call("create")
    assert done.exit_code != 0
    assert "publication" in str(done.exception)
    assert not shown(call)["exists"]


def test_what_loses_data_is_not_done_where_nobody_can_be_asked(
    call: Call, database18: Database, tmp_path: Path
) -> None:
    slot = seed(database18, tmp_path)
    before = confirmed_lsn(database18, slot)
    for words in (["advance"], ["drop"]):
        done = call(*words)
        assert isinstance(done.exception, ConfigError)
        assert "--yes" in str(done.exception)
        assert "users will miss" in done.stderr
    assert confirmed_lsn(database18, slot) == before


def test_advance_moves_forward_only_and_the_loss_is_known_afterwards(
    call: Call, database18: Database, tmp_path: Path
) -> None:
    slot = seed(database18, tmp_path)
    start = confirmed_lsn(database18, slot)
    assert "nothing to do" in call("advance", "--to", "0/1").stdout
    assert isinstance(call("advance", "--to", "FFFF/0", "--yes").exception, ConfigError)
    assert isinstance(call("advance", "--to", "nowhere", "--yes").exception, ConfigError)
    database18.execute("update users set name = 'passed over'")
    target = current_lsn(database18)
    assert call("advance", "--to", str(target), "--yes").exit_code == 0
    assert start < confirmed_lsn(database18, slot) == target
    (problem,) = shown(call)["problems"]  # type: ignore[misc]
    assert problem["error"] == SlotAdvanced.__name__


def test_a_slot_of_another_kind_is_not_dropped(call: Call, database18: Database) -> None:
    slot = f"slot_{database18.name}"
    database18.execute("select pg_create_physical_replication_slot(%s)", slot)
    try:
        assert isinstance(call("drop", "--yes").exception, SlotPhysical)
        assert "unfit-slot" in check()
        assert "is physical, not logical" in status()
    finally:
        database18.execute("select pg_drop_replication_slot(%s)", slot)
    assert "nothing to do" in call("drop", "--yes").stdout


def test_a_slot_that_is_read_is_neither_moved_nor_dropped(
    call: Call, database18: Database, tmp_path: Path
) -> None:
    slot = seed(database18, tmp_path)
    database18.execute("update users set name = 'unread'")
    replication = open_replication(database18.dsn, slot, "flusso", patience_s=5)
    with contextlib.closing(replication):
        for words in (["advance", "--yes"], ["drop", "--yes"]):
            done = call(*words)
            assert isinstance(done.exception, SlotBusy)
            assert '("flusso" at 127.0.0.1)' in str(done.exception)
        assert shown(call)["reader"]


def test_on_a_terminal_it_asks_and_takes_no_for_an_answer(
    call: Call, database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(database18, tmp_path)
    monkeypatch.setattr("flusso.cli.confirm._is_terminal", lambda: True)
    assert call("drop", input="n\n").exit_code == 1
    assert shown(call)["exists"]
    assert call("drop", input="y\n").exit_code == 0
    assert not shown(call)["exists"]
