"""The key of the root gets another type: what readers see stays, and the reindex that is advised works."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.session import Session
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import CatalogChanged
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexState, Request
from pipelines import market_spec, run_once, sqlite_sink, stored_bodies

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

TABLES = """
create table people (id int primary key, name text);
insert into people select n, 'person ' || n from generate_series(1, 20) as n;
"""
SCHEMA = "version: 1\ntable: people\nfields: [{ text: name }]\n"
OTHER_KEY = "alter table people alter id type uuid using lpad(id::text, 32, '0')::uuid"


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    database18.execute(TABLES)
    sink = sqlite_sink(tmp_path)
    index = IndexSpec("people", parse_schema(SCHEMA, file="people.schema.yml"), (sink,))
    return replace(market_spec(database18, sink), indexes=(index,))


def states(spec: PipelineSpec) -> tuple[IndexState, ...]:
    with contextlib.closing(spec.indexes[0].sinks[0].open()) as sink:
        return sink.load_states().of("people")


def test_the_reindex_that_another_key_asks_for_fills_an_index_with_the_new_ids(
    database18: Database, spec: PipelineSpec, spark_session: Session
) -> None:
    run_once(spec, spark_session)
    database18.execute("insert into people values (21, 'not indexed yet'); delete from people where id = 7")
    database18.execute(OTHER_KEY)
    with pytest.raises(CatalogChanged, match="run flusso reindex people"):
        run_once(spec, spark_session)
    assert [(state.generation, state.stale) for state in states(spec)] == [(1, "")]
    assert len(stored_bodies(spec, "people")) == 20
    with contextlib.closing(spec.indexes[0].sinks[0].open()) as sink:
        sink.ask("people", Request.REINDEX)
    run_once(spec, spark_session)
    assert [state.generation for state in states(spec)] == [2]
    ids = {str(id_) for (id_,) in database18.execute("select id from people")}
    assert set(stored_bodies(spec, "people")) == ids
    assert len(ids) == 20


def test_another_key_while_an_index_is_filled_for_the_first_time_begins_it_again(
    database18: Database, spec: PipelineSpec, spark_session: Session
) -> None:
    run_once(spec, spark_session)
    with contextlib.closing(spec.indexes[0].sinks[0].open()) as sink:
        (state,) = sink.load_states().of("people")
        sink._conn.execute("delete from published")  # type: ignore[attr-defined]
        sink.save_state(replace(state, serves=False, is_seeded=False))
    database18.execute(OTHER_KEY)
    run_once(spec, spark_session)
    assert [state.generation for state in states(spec)] == [2]
    assert len(stored_bodies(spec, "people")) == 20
