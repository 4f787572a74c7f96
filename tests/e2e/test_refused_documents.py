"""Documents that a sink refuses or that cannot be built: kept aside or a reason to stop, and clear later."""

from __future__ import annotations

from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.document import Refusal
from flusso.engine.session import Session
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import DocumentRefused
from flusso.schema.parse import parse_schema
from pipelines import Run, confirmed_lsn, market_spec, run_once, sqlite_sink, stored_bodies

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

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


def _spec(database: Database, folder: Path, *, skips: bool) -> PipelineSpec:
    database.execute("create table users (id int primary key, name text)")
    database.execute("create table notes (id int primary key, user_id int, worth text)")
    database.execute("alter table notes replica identity full")
    database.execute("insert into users select n, 'user ' || n from generate_series(1, 300) as n")
    database.execute("insert into notes select id, id, '5' from users")
    database.execute("update notes set worth = 'much' where id in (7, 250)")
    schema = parse_schema(SCHEMA, file="users.schema.yml")
    index = IndexSpec("users", schema, (sqlite_sink(folder),), skips_refused=skips)
    return market_spec(database, sqlite_sink(folder), indexes=(index,))


def _quarantined(spec: PipelineSpec) -> list[Refusal]:
    sink = spec.indexes[0].sinks[0].open()
    try:
        return list(sink.quarantined("users"))
    finally:
        sink.close()


def test_documents_that_cannot_be_built_wait_aside_and_come_in_once_they_can(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    spec = _spec(database18, tmp_path, skips=True)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        assert [each.id for each in _quarantined(spec)] == ["250", "7"]
        assert len(stored_bodies(spec)) == 298
        database18.execute("update notes set worth = 'little' where id in (8, 250)")
        run.wait_confirmed(database18)
        found = {each.id: each for each in _quarantined(spec)}
        assert {id_: each.attempts for id_, each in found.items()} == {"250": 2, "7": 1, "8": 1}
        assert found["8"].reason == "cannot be built: invalid text representation (SQLSTATE 22P02)"
        assert found["8"].at > 0
        database18.execute("update notes set worth = '9' where id in (7, 8)")
        database18.execute("delete from users where id = 250")
        run.wait_confirmed(database18)
    assert (_quarantined(spec), len(stored_bodies(spec))) == ([], 299)


def test_a_document_that_cannot_be_built_stops_before_anything_is_confirmed(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    spec = _spec(database18, tmp_path, skips=False)
    database18.execute("update notes set worth = '5'")
    run_once(spec, spark_session)
    before = confirmed_lsn(database18, spec.slot)
    database18.execute("update notes set worth = 'much' where id = 7")
    with pytest.raises(DocumentRefused, match=r"users/7 \(cannot be built: invalid text") as raised:
        run_once(spec, spark_session)
    assert (raised.value.exit_code, "much" in str(raised.value)) == (5, False)
    assert confirmed_lsn(database18, spec.slot) == before
    assert _quarantined(spec) == []
