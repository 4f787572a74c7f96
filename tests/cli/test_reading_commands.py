"""Commands that only look: they make nothing, and do not call an index empty that was never filled."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commands import Deployment
from fix_postgres import Database
from flusso.capture.replication import open_replication
from flusso.cli.main import app
from flusso.engine.provision import prepare
from flusso.errors import IndexUnready
from market import create_market
from pipelines import market_spec, publish_seeded, sqlite_sink

pytestmark = pytest.mark.postgres


@pytest.fixture
def folder(database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a deployment, which is the working folder."""
    create_market(database18, users=3)
    deployment = Deployment(tmp_path, database18)
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "FLUSSO_SLOT"):
        monkeypatch.setenv(name, deployment.env[name])
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "status",
        "check",
        "slot show",
        "slot drop --yes",
        "verify",
        "verify --repair",
        "search users anna",
        "indexes",
        "clean --yes",
        "rollback users",
        "quarantine list",
        "quarantine show users 1",
        "quarantine retry users 1",
        "quarantine drop users --all",
    ],
)
def test_a_command_that_only_looks_or_finds_nothing_to_do_makes_no_file(folder: Path, words: str) -> None:
    CliRunner().invoke(app, words.split())
    assert not (folder / "index.db").exists()


def test_a_search_of_an_index_that_was_never_filled_or_is_not_whole_is_an_error(
    folder: Path, database18: Database
) -> None:
    never = CliRunner().invoke(app, ["search", "users", "anna"])
    assert isinstance(never.exception, IndexUnready)
    assert "was never filled" in str(never.exception)
    assert "run flusso run first" in str(never.exception)
    prepared = prepare(market_spec(database18, sqlite_sink(folder)), lambda event: None, threading.Event())
    assert prepared is not None
    begun = CliRunner().invoke(app, ["search", "users", "anna"])
    assert "is still being filled" in str(begun.exception)
    publish_seeded(prepared.ledger, "users")
    served = CliRunner().invoke(app, ["search", "users", "anna"])
    assert (served.exit_code, served.stdout) == (0, "0 hit(s)\n")


def test_the_status_of_a_seed_says_whether_somebody_goes_on_with_it(
    folder: Path, database18: Database
) -> None:
    spec = market_spec(database18, sqlite_sink(folder))
    assert prepare(spec, lambda event: None, threading.Event()) is not None
    stopped = CliRunner().invoke(app, ["status"]).stdout
    reader = open_replication(database18.dsn, spec.slot, spec.publication, patience_s=5)
    with contextlib.closing(reader):
        followed = CliRunner().invoke(app, ["status"]).stdout
    assert ("is filled in part" in stopped, "is being filled" in stopped) == (True, False)
    assert ("is filled in part" in followed, "is being filled" in followed) == (False, True)
