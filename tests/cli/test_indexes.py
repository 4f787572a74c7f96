"""`indexes` and `clean`: what the sinks hold, and what of it is of no use."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flusso.cli.main import app, main
from flusso.document import Write
from flusso.errors import SinkError
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexState, IndexTarget, Sink
from flusso.sinks.sqlite import SqliteSink, SqliteSpec

CONFIG = """
[source]
type = "postgres"
connection_url = "postgresql://nowhere/db"

[sinks.local]
type = "sqlite"
path = "index.db"

[[index]]
name = "books"
schema = "books.schema.yml"
"""
SCHEMA = "version: 1\ntable: books\nprimary_key: id\nfields:\n  - text: title\n"


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    """Generations 1 to 5 of an index: one that serves, one for each other use, and two that nobody knows."""
    monkeypatch.chdir(tmp_path)
    Path("flusso.toml").write_text(CONFIG)
    Path("books.schema.yml").write_text(SCHEMA)
    opened = SqliteSpec("local", tmp_path / "index.db").open()
    for number in range(1, 7):
        target = IndexTarget("books", "abcdefabcdef0000", number, ("title",))
        opened.ensure(target, parse_schema(SCHEMA, file="x"))
        opened.write(target, [Write("1", 5, b'{"title":"Momo"}')], refresh=True)
    opened.publish(IndexTarget("books", "abcdefabcdef0000", 2))
    for state in (
        IndexState("books", "abcdefabcdef0000", 1, is_seeded=True, is_kept=True),
        IndexState("books", "abcdefabcdef0000", 2, is_seeded=True, serves=True, stale="it lost its slot"),
        IndexState("books", "abcdefabcdef0000", 3, is_seeded=True),
        IndexState("books", "abcdefabcdef0000", 4),
        IndexState("books", "abcdefabcdef0000", 9),
    ):
        opened.save_state(state)
    yield opened
    opened.close()


def listed() -> dict[int, dict[str, object]]:
    done = CliRunner().invoke(app, ["indexes", "--format", "json"])
    return {each["generation"]: each for each in json.loads(done.output)["generations"]}


def test_every_generation_is_listed_with_what_it_is_for(sink: Sink) -> None:
    found = listed()
    assert {number: each["state"] for number, each in found.items()} == {
        1: "kept",
        2: "frozen",
        3: "waiting",
        4: "filling",
        5: "orphan",
        6: "orphan",
        9: "gone",
    }
    assert found[3] == {
        "index": "books",
        "sink": "local",
        "generation": 3,
        "state": "waiting",
        "documents": 1,
        "bytes": len(b'{"title":"Momo"}'),
        "digest": "abcdefabcdef",
        "reason": None,
        "error": None,
    }


def test_a_generation_that_someone_took_the_readers_from_is_not_said_to_serve(sink: Sink) -> None:
    sink.save_state(IndexState("books", "abcdefabcdef0000", 2, is_seeded=True, serves=True))
    assert listed()[2]["state"] == "serving"
    sink.publish(IndexTarget("books", "abcdefabcdef0000", 6))
    assert listed()[2]["state"] == "unread"


def test_the_table_says_why_a_generation_is_written_no_more(sink: Sink) -> None:
    assert "is written no more: it lost its slot" in " ".join(
        CliRunner().invoke(app, ["indexes"]).output.split()
    )


def test_a_sink_that_is_away_hides_no_other(sink: Sink) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        away = f"""[sinks.away]\ntype = "opensearch"\nurl = "http://127.0.0.1:{probe.getsockname()[1]}"\n"""
        Path("flusso.toml").write_text(f"{CONFIG}{away}max_retries = 0\n")
        done = CliRunner().invoke(app, ["indexes", "--format", "json"])
        printed = CliRunner().invoke(app, ["indexes"]).output
    assert done.exit_code == SinkError.exit_code
    assert {each["sink"] for each in json.loads(done.output)["generations"]} == {"local"}
    assert "is not reachable" in json.loads(done.output)["errors"]["away"]
    assert 'sink "away" is not reachable' in " ".join(printed.split())


def test_a_generation_that_goes_while_it_is_listed_hides_no_other(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = SqliteSink.count

    def count_after_a_drop(opened: SqliteSink, target: IndexTarget) -> int:
        if target.generation == 5:
            sink.drop(target)
        return count(opened, target)

    monkeypatch.setattr(SqliteSink, "count", count_after_a_drop)
    assert (listed()[5]["documents"], listed()[3]["documents"]) == (None, 1)


def test_clean_drops_what_nobody_knows_and_nothing_else(sink: Sink) -> None:
    done = CliRunner().invoke(app, ["clean", "--yes"])
    assert "generation 5 is dropped" in done.output
    assert sorted(listed()) == [1, 2, 3, 4, 9]
    assert CliRunner().invoke(app, ["clean"]).output == "there is nothing to drop\n"


def test_clean_asks_first(
    sink: Sink, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["flusso", "clean"])
    monkeypatch.setattr("flusso.cli.confirm._is_terminal", lambda: False)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "books generation 5, books generation 6" in capsys.readouterr().err
    assert 5 in listed()
