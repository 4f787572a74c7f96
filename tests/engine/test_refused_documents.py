"""Documents that cannot be built: kept aside or a reason to stop, while seeding and following. No Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fix_postgres import Database
from flusso.capture import wire
from flusso.catalog import TableName
from flusso.change import ALL
from flusso.document import DocumentId, Refusal
from flusso.engine import tasks, work
from flusso.engine.events import SeedFinished, Skipped
from flusso.engine.frames import changes_batch
from flusso.engine.outcome import settle_reports
from flusso.engine.provision import Prepared
from flusso.engine.quarantine import Quarantine
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import DocumentRefused
from flusso.lsn import Version
from flusso.ops.logs import describe
from flusso.schema.parse import parse_schema
from flusso.sinks.stdout import StdoutSpec
from pipelines import market_spec, sqlite_sink, stored_bodies
from turns_here import Seed
from verifying import fill, run_here, write_documents

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
NOTES = TableName("public", "notes")
REASON = "cannot be built: invalid text representation (SQLSTATE 22P02)"


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> Iterator[PipelineSpec]:
    database18.execute("create table users (id int primary key, name text)")
    database18.execute("create table notes (id int primary key, user_id int, worth text)")
    database18.execute("insert into users select n, 'user ' || n from generate_series(1, 300) as n")
    database18.execute("insert into notes select id, id, '5' from users")
    schema = parse_schema(SCHEMA, file="users.schema.yml")
    index = IndexSpec("users", schema, (sqlite_sink(tmp_path),), skips_refused=True)
    yield market_spec(database18, sqlite_sink(tmp_path), indexes=(index,), keeps_references=True)
    work.forget()


def spoil(database: Database, *ids: int, worth: str = "much") -> None:
    database.execute("update notes set worth = %s where id = any(%s)", worth, list(ids))


def quarantined(spec: PipelineSpec) -> dict[str, Refusal]:
    sink = spec.indexes[0].sinks[0].open()
    try:
        return {each.id: each for each in sink.quarantined("users")}
    finally:
        sink.close()


def follow(prepared: Prepared, *ids: str) -> None:
    """Write documents as the next batch would."""
    holders = prepared.quarantine.holders
    write_documents(replace(prepared, work=replace(prepared.work, quarantines=holders)), "users", *ids)


def stopping(spec: PipelineSpec) -> PipelineSpec:
    return replace(spec, indexes=(replace(spec.indexes[0], skips_refused=False),))


def test_a_seed_keeps_aside_what_cannot_be_built_and_writes_all_else(
    spec: PipelineSpec, database18: Database
) -> None:
    spoil(database18, 7, 250)
    seed = Seed(spec)
    seed.run()
    assert seed.is_finished
    found = quarantined(spec)
    assert {id_: (each.reason, each.attempts) for id_, each in found.items()} == {
        "7": (REASON, 1),
        "250": (REASON, 1),
    }
    assert all(each.at > 0 and each.version > 0 for each in found.values())
    assert len(stored_bodies(spec)) == 298


def test_a_document_that_no_sink_keeps_aside_is_told(
    spec: PipelineSpec, database18: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    spoil(database18, 7, 250)
    index = replace(spec.indexes[0], sinks=(StdoutSpec("out"), *spec.indexes[0].sinks))
    seed = Seed(replace(spec, indexes=(index,)))
    seed.run()
    skipped = sorted(seed.of(Skipped), key=lambda event: int(event.id))
    assert [describe(event) for event in skipped] == [
        f"skipped index=users id={id_} sink=out because: {REASON}" for id_ in (7, 250)
    ]
    assert len(capfd.readouterr().out.splitlines()) == 298
    assert set(quarantined(spec)) == {"7", "250"}


def test_documents_before_one_that_cannot_be_built_are_written_and_counted_once(
    spec: PipelineSpec, database18: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    # Small in the table and large as documents: one range, of which a part is written before it fails.
    database18.execute("update users set name = repeat('x', 5000)")
    spoil(database18, 250)
    stdout = replace(spec.indexes[0], sinks=(StdoutSpec("out"),))
    seed = Seed(replace(spec, indexes=(stdout,)))
    seed.run()
    ids = [json.loads(line)["id"] for line in capfd.readouterr().out.splitlines()]
    assert sorted(map(int, ids)) == [id_ for id_ in range(1, 301) if id_ != 250]
    assert [event.documents for event in seed.of(SeedFinished)] == [299]


def test_a_later_version_that_is_good_clears_the_entry_and_one_that_is_bad_counts(
    spec: PipelineSpec, database18: Database
) -> None:
    prepared = fill(spec)
    spoil(database18, 7, 8, 9)
    follow(prepared, "6", "7", "8", "9")
    assert set(quarantined(spec)) == {"7", "8", "9"}
    spoil(database18, 7, worth="6")
    database18.execute("delete from users where id = 9")
    follow(prepared, "7", "8", "9")
    assert {id_: each.attempts for id_, each in quarantined(spec).items()} == {"8": 2}
    assert len(stored_bodies(spec)) == 299


def test_entries_of_an_earlier_process_are_cleared_too(spec: PipelineSpec, database18: Database) -> None:
    spoil(database18, 7)
    fill(spec)
    work.forget()
    spoil(database18, 7, worth="6")
    again = fill(spec)
    follow(again, "7")
    assert quarantined(spec) == {}


def lose(prepared: Prepared, *notes: int) -> None:
    """Do what the batch does that has the removal of notes, by their keys alone."""
    holders, remembers = prepared.quarantine.holders, prepared.ledger.remembering()
    spec = replace(prepared.work, quarantines=holders, remembers=remembers)
    payload = wire.encode([(NOTES, "D", (str(n), None), None, 1, n, ALL) for n in notes])
    batches = tasks.process_changes(spec)(iter([changes_batch(payload)]))
    reports = [pickle.loads(report) for batch in batches for report in batch.column(0).to_pylist()]
    settle_reports(reports, spec, prepared.quarantine, lambda: Version(0))


def test_a_document_is_good_again_when_the_row_that_spoils_it_goes_and_the_log_does_not_say_where_from(
    spec: PipelineSpec, database18: Database
) -> None:
    spoil(database18, 7, 8)
    prepared = fill(spec)
    database18.execute("delete from notes where id = 7")
    lose(prepared, 7)
    assert {id_: each.attempts for id_, each in quarantined(spec).items()} == {"8": 2}
    assert len(stored_bodies(spec)) == 299


def test_such_a_row_may_go_before_the_seed_has_told_of_its_document(
    spec: PipelineSpec, database18: Database
) -> None:
    spoil(database18, 7)
    seed = Seed(spec)
    settle = Quarantine.settle

    def lose_first(quarantine: Quarantine, *given: Any) -> None:
        if given[0] and not seed.prepared.quarantine.holders:
            database18.execute("delete from notes where id = 7")
            lose(seed.prepared, 7)
        settle(quarantine, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Quarantine, "settle", lose_first)
        seed.run()
    assert quarantined(spec) == {}
    assert len(stored_bodies(spec)) == 300


def test_a_document_that_was_taken_before_its_refusal_is_told_is_not_kept_aside(
    spec: PipelineSpec, database18: Database
) -> None:
    prepared = fill(spec)
    spoil(database18, 7, 8)
    ids = [DocumentId("users", (id_,)) for id_ in "78"]
    late = run_here(tasks.write_held(prepared.work, [ids], only_gone=False), 1)
    spoil(database18, 7, worth="6")
    follow(prepared, "7")
    settle_reports(late, prepared.work, prepared.quarantine, lambda: Version(0))
    assert set(quarantined(spec)) == {"8"}


def test_with_the_policy_to_stop_the_document_is_named_and_nothing_is_kept_aside(
    spec: PipelineSpec, database18: Database
) -> None:
    prepared = fill(stopping(spec))
    spoil(database18, 7)
    with pytest.raises(DocumentRefused, match=r"users/7 \(cannot be built: invalid text") as raised:
        follow(prepared, "6", "7")
    assert (raised.value.exit_code, "much" in str(raised.value)) == (5, False)
    assert quarantined(spec) == {}


def test_a_seed_stops_by_the_same_policy(spec: PipelineSpec, database18: Database) -> None:
    spoil(database18, 7)
    with pytest.raises(DocumentRefused, match="users/7"):
        Seed(stopping(spec)).run()
