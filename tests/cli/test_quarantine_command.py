"""`flusso quarantine`: what is listed, what is tried again, and what is forgotten."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from commands import Deployment
from fix_postgres import Database
from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.main import app
from flusso.document import Refusal, Write, WriteResult
from flusso.engine.provision import prepare
from flusso.errors import ConfigError, DocumentMissing
from flusso.lsn import Lsn, Version
from flusso.sinks.base import IndexTarget, Sink
from flusso.sinks.sqlite import SqliteSink
from pipelines import publish_seeded

pytestmark = pytest.mark.postgres

SCHEMA = """
version: 1
table: users
fields:
  - text: name
  - has_many: notes
    table: notes
    foreign_key: user_id
    filters: [{raw: "worth::int > 0"}]
    fields: [{keyword: worth}]
"""
VERSION = int(Version.of(1, Lsn.parse("0/10")))
FIRST = Refusal("users", "1", VERSION, "local", "mapper_parsing_exception (field name)", 1700000000.0)
SECOND = Refusal("users", "2", VERSION, "local", "cannot be built: division by zero", 1700000060.0)


class Bed:
    """A deployment that was prepared, with two refused documents."""

    def __init__(self, folder: Path, database: Database) -> None:
        database.execute("create table users (id int primary key, name text)")
        database.execute("create table notes (id int primary key, user_id int, worth text)")
        database.execute("insert into users values (1, 'Ada'), (2, 'Bea'), (3, 'Cyd')")
        database.execute("insert into notes values (1, 1, '5'), (2, 2, 'much')")
        Deployment(folder, database, schemas={"users": SCHEMA})

    def prepare(self) -> None:
        spec = pipeline_spec(load(Path("flusso.toml")))
        prepared = prepare(spec, lambda event: None, threading.Event())
        assert prepared is not None
        publish_seeded(prepared.ledger, "users")
        self.with_sink(lambda sink: sink.quarantine([FIRST, SECOND]))

    def with_sink(self, act: Callable[[Sink], Any]) -> Any:
        sink = pipeline_spec(load(Path("flusso.toml"))).indexes[0].sinks[0].open()
        try:
            return act(sink)
        finally:
            sink.close()

    def call(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["quarantine", *words])

    def facts(self, *words: str) -> Any:
        return json.loads(self.call(*words, "--format", "json").stdout)

    def held(self) -> dict[str, int]:
        """By id how often each document in quarantine was refused."""
        return {each["id"]: each["attempts"] for each in self.facts("list")}

    def found(self, words: str) -> list[str]:
        return self.with_sink(lambda sink: [hit.id for hit in sink.search("users", words, 10)])  # type: ignore[no-any-return]


@pytest.fixture
def bed(database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database18.dsn.text)
    monkeypatch.setenv("FLUSSO_SLOT", f"slot_{database18.name}")
    made = Bed(tmp_path, database18)
    made.prepare()
    return made


def test_the_list_has_every_fact_the_latest_first(bed: Bed) -> None:
    assert bed.facts("list", "users") == bed.facts("list")
    assert [each["id"] for each in bed.facts("list")] == ["2", "1"]
    assert bed.facts("list")[1] == {
        "index": "users",
        "id": "1",
        "sink": "local",
        "reason": "mapper_parsing_exception (field name)",
        "position": "0/10",
        "refused_at": "2023-11-14T22:13:20Z",
        "attempts": 1,
    }
    text = bed.call("list").stdout
    assert "2 document(s) in quarantine" in text


def test_show_tells_one_document_alone(bed: Bed) -> None:
    assert [each["reason"] for each in bed.facts("show", "users", "2")] == [SECOND.reason]
    assert "division by zero" in bed.call("show", "users", "2").stdout


def test_retry_writes_what_is_good_now_and_keeps_the_rest_with_one_attempt_more(
    bed: Bed, database18: Database
) -> None:
    done = bed.call("retry", "users", "--all")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "1 document(s) taken, 1 refused again")
    assert "much" not in done.stdout
    assert bed.held() == {"2": 2}
    assert (bed.found("ada"), bed.found("bea")) == (["1"], [])
    database18.execute("update notes set worth = '9' where id = 2")
    assert bed.facts("retry", "users", "2") == {"taken": 1, "refused": []}
    assert (bed.held(), bed.found("bea")) == ({}, ["2"])


def test_retry_of_a_row_that_is_gone_removes_the_document(bed: Bed, database18: Database) -> None:
    database18.execute("delete from users where id = 2")
    assert bed.facts("retry", "users", "2")["taken"] == 1
    assert bed.held() == {"1": 1}


def test_retry_keeps_no_row_that_went_before_its_write(
    bed: Bed, database18: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running flusso looked the row up meanwhile, and did not find the document."""
    write, to_do = SqliteSink.write, ["delete from notes where id = 1"]

    def late(sink: SqliteSink, *given: Any, **named: Any) -> WriteResult:
        if to_do:
            database18.execute(to_do.pop())
        return write(sink, *given, **named)

    monkeypatch.setattr(SqliteSink, "write", late)
    assert bed.facts("retry", "users", "1")["taken"] == 1
    (hit,) = bed.with_sink(lambda sink: sink.search("users", "ada", 10))
    assert json.loads(hit.body)["notes"] == []


def test_retry_leaves_no_removal_in_a_generation_that_readers_may_see_any_moment(
    bed: Bed, database18: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.with_sink(
        lambda sink: [sink.save_state(replace(one, serves=False)) for one in sink.load_states().all]
    )
    written: list[Write] = []
    write = SqliteSink.write

    def noted(sink: SqliteSink, target: IndexTarget, writes: Sequence[Write], **named: Any) -> WriteResult:
        written.extend(writes)
        return write(sink, target, writes, **named)

    monkeypatch.setattr(SqliteSink, "write", noted)
    database18.execute("delete from users where id = 2")
    assert bed.call("retry", "users", "--all").exit_code == 0
    assert ([each.id for each in written], bed.held()) == (["1"], {})


def test_drop_forgets_only_what_is_named(bed: Bed) -> None:
    assert bed.call("drop", "users", "1").stdout == "1 document(s) forgotten\n"
    assert bed.held() == {"2": 1}
    assert bed.facts("drop", "users", "--all") == {"dropped": 1}
    assert bed.held() == {}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["show", "users", "3"], DocumentMissing),
        (["retry", "users", "1", "3"], DocumentMissing),
        (["retry", "users"], ConfigError),
        (["drop", "users", "1", "--all"], ConfigError),
        (["list", "absent"], ConfigError),
    ],
)
def test_what_is_not_there_is_said_and_nothing_is_done(
    bed: Bed, words: list[str], error: type[Exception]
) -> None:
    assert isinstance(bed.call(*words).exception, error)
    assert bed.held() == {"1": 1, "2": 1}
