"""A literal secret in flusso.toml is in no output of any command, whether the file is right or wrong."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from flusso.cli import main as cli

SECRETS = ("hunter2", "letmein", "sesame7", "opensaysme")
GOOD = """
[source]
type = "postgres"
give_up_after_secs = 1
connection_url = { host = "127.0.0.1", port = 1, user = "me", password = "hunter2", database = "shop" }
read_url = "postgresql://me:opensaysme@127.0.0.1:1/shop?sslmode=disable"

[sinks.search]
type = "opensearch"
url = "http://me:letmein@127.0.0.1:1"
max_retries = 0

[sinks.keyed]
type = "opensearch"
url = "http://127.0.0.1:1"
api_key = "sesame7"
max_retries = 0

[[index]]
name = "t"
schema = "t.yml"
"""
BAD = (
    GOOD.replace("?sslmode=", "?sslmod=")
    .replace('type = "postgres"', 'type = "mysql"')
    .replace("max_retries", "max_retrys")
)
BROKEN = GOOD.replace('password = "hunter2"', 'password = "hunter2').replace('"sesame7"', "sesame7")
ARGUMENTS = {
    "run": ["--once"],
    "search": ["t", "x"],
    "sample": ["t"],
    "reindex": ["--all"],
}
SKIPPED = {"demo"}
"""It has a deployment of its own."""


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """`run` takes the signals of its process: give them back."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def _commands() -> list[str]:
    group = typer.main.get_command(cli.app)
    return [name for name in group.commands if name not in SKIPPED]  # type: ignore[attr-defined]


@pytest.mark.parametrize("toml", [GOOD, BAD, BROKEN], ids=["good", "bad", "broken"])
@pytest.mark.parametrize("command", _commands())
def test_no_command_shows_a_secret(
    command: str,
    toml: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "flusso.toml").write_text(toml)
    (tmp_path / "t.yml").write_text("version: 1\ntable: t\nfields: [{text: a}]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["flusso", command, *ARGUMENTS.get(command, [])])
    with pytest.raises(SystemExit):
        cli.main()
    shown = capfd.readouterr()
    assert shown.out + shown.err
    for secret in SECRETS:
        assert secret not in shown.out + shown.err
