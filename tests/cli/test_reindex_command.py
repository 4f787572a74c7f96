"""`reindex` and `rollback`: what is asked of whoever writes an index, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fix_postgres import Database
from flusso.cli.main import app
from flusso.errors import ConfigError, SinkRefused
from flusso.sinks.base import IndexState, Request, Sink
from flusso.sinks.sqlite import SqliteSpec

pytestmark = pytest.mark.postgres

CONFIG = """
[source]
type = "postgres"
slot = "shop_slot"

[sinks.local]
type = "sqlite"
path = "index.db"

[sinks.lines]
type = "stdout"
"""
SCHEMA = "version: 1\ntable: books\nprimary_key: id\nfields:\n  - text: title\n"
Call = Callable[..., Result]


@pytest.fixture
def call(database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database18.dsn.text)
    indexes = "".join(f'[[index]]\nname = "{name}"\nschema = "books.schema.yml"\n' for name in ("old", "new"))
    Path("flusso.toml").write_text(CONFIG + indexes)
    Path("books.schema.yml").write_text(SCHEMA)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def sink(tmp_path: Path, call: Call) -> Iterator[Sink]:
    """Both indexes are read; of the old one a generation before that is kept."""
    opened = SqliteSpec("local", tmp_path / "index.db").open()
    for state in (
        IndexState("old", "d", 1, is_seeded=True, is_kept=True),
        IndexState("old", "d", 2, is_seeded=True, serves=True),
        IndexState("new", "d", 1, is_seeded=True, serves=True),
    ):
        opened.save_state(state)
    yield opened
    opened.close()


def test_a_reindex_is_asked_of_every_sink_that_remembers(call: Call, sink: Sink) -> None:
    done = call("reindex", "old", "old")
    assert done.output == 'old in sink "local": a new generation is asked for: the next run fills it\n'
    assert sink.load_states().asked == {"old": Request.REINDEX}
    assert call("reindex", "--all").exit_code == 0
    assert sink.load_states().asked == {"old": Request.REINDEX, "new": Request.REINDEX}


def test_a_reindex_of_what_nobody_is_filling_any_more_is_asked_for(call: Call, sink: Sink) -> None:
    sink.save_state(IndexState("new", "d", 2))
    assert call("reindex", "new").output == (
        'new in sink "local": a new generation is asked for: '
        "the next run goes on with generation 2, or with another if that lost changes\n"
    )
    assert sink.load_states().asked == {"new": Request.REINDEX}


def test_a_rollback_leads_to_what_is_kept(call: Call, sink: Sink) -> None:
    done = call("rollback", "old")
    assert done.output == (
        'old in sink "local": readers go back to generation 1: the next run leads them there\n'
    )
    found = sink.load_states()
    assert (found.asked, found.back_to) == ({"old": Request.ROLLBACK}, {"old": 1})


def test_a_rollback_of_several_asks_for_none_when_one_has_no_way_back(call: Call, sink: Sink) -> None:
    error = call("rollback", "old", "new").exception
    assert isinstance(error, SinkRefused)
    assert str(error) == ('no earlier generation of index "new" is kept: set keep_generations to keep some')
    assert sink.load_states().asked == {}


def test_a_rollback_while_a_generation_is_filled_says_how_to_stop_that(call: Call, sink: Sink) -> None:
    sink.save_state(IndexState("old", "d", 3))
    error = call("rollback", "old").exception
    assert isinstance(error, SinkRefused)
    assert error.hint == "let it become whole first: flusso indexes shows how far it is"
    sink.save_state(IndexState("old", "of another schema", 3))
    error = call("rollback", "old").exception
    assert isinstance(error, SinkRefused)
    assert error.hint == "put the former schema back and it is dropped"


def test_of_an_index_that_no_sink_keeps_it_is_said_that_there_is_nothing_to_do(
    call: Call, sink: Sink
) -> None:
    with Path("flusso.toml").open("a") as config:
        config.write('[[index]]\nname = "told"\nschema = "books.schema.yml"\nsinks = ["lines"]\n')
    told = "told: none of its sinks keeps anything: every run fills it anew\n"
    assert call("reindex", "told").output == told
    error = call("rollback", "old", "told").exception
    assert isinstance(error, SinkRefused)
    assert str(error) == 'no sink of index "told" keeps anything to go back to'
    assert sink.load_states().asked == {}


@pytest.mark.parametrize("command", ["reindex", "rollback"])
def test_indexes_are_named_or_asked_for(call: Call, command: str) -> None:
    for arguments, told in ((("nobodys",), "there is no index nobodys"), ((), "no index was named")):
        error = call(command, *arguments).exception
        assert isinstance(error, ConfigError)
        assert error.message == told
        assert error.hint == "name one of old, new"
