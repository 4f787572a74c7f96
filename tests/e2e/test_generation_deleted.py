"""Someone deletes what readers see: noticed while nothing is written, and filled anew beside the stream."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.events import ReadersMoved, Recovered, Retrying
from flusso.engine.session import Session
from flusso.sinks.search.generations import Names
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.search.server import Server
from market import create_market
from pipelines import Run, assert_exact, market_spec, sqlite_sink

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.mark.opensearch
def test_an_index_deleted_from_a_search_server_is_missed_though_nothing_is_written(
    database18: Database, spark_session: Session, search_sink: OpenSearchSpec
) -> None:
    create_market(database18, users=20)
    spec = market_spec(database18, search_sink, look_s=0.3)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        (url,) = search_sink.urls
        with urllib.request.urlopen(f"{url}/_alias/{search_sink.prefix}users") as answer:
            (name,) = json.load(answer)
        urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="DELETE")).close()
        run.wait(lambda: len(run.of(ReadersMoved)) == 2, what="a new generation")
        database18.execute("update users set name = 'afterwards' where id = 3")
        run.wait_exact(database18)
    assert_exact(database18, spec)


@pytest.mark.opensearch
def test_an_alias_that_someone_removes_or_moves_is_put_right_though_nothing_is_written(
    database18: Database, spark_session: Session, search_sink: OpenSearchSpec
) -> None:
    create_market(database18, users=20)
    spec = market_spec(database18, search_sink, look_s=0.3)
    with Run(spec, spark_session) as run, contextlib.closing(search_sink.open()) as sink:
        run.wait_seeded()
        (serving,) = (state.target for state in sink.load_states().all)
        orphan = replace(serving, generation=9)
        sink.ensure(orphan, spec.indexes[0].schema)
        server, names = Server(search_sink.client(), "search", 0), Names(search_sink.prefix)
        alias = {"alias": names.readers("users")}
        removed = {"remove": alias | {"index": names.concrete(serving)}}
        for moved in ([removed], [removed, {"add": alias | {"index": names.concrete(orphan)}}]):
            server.request("POST", "/_aliases", {"actions": moved})
            assert not sink.is_read(serving)
            run.wait(lambda: sink.is_read(serving), what="readers to be led back")
        server.close()
        database18.execute("update users set name = 'afterwards' where id = 3")
        run.wait_exact(database18)
    assert len(run.of(ReadersMoved)) == 1, "nothing is filled anew for it"
    assert_exact(database18, spec)


def test_a_file_deleted_under_the_sink_is_missed_though_nothing_is_written(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    sink = sqlite_sink(tmp_path)
    spec = market_spec(database18, sink, look_s=0.3)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        for each in tmp_path.glob(f"{Path(sink.path).name}*"):
            each.unlink()
        run.wait(lambda: len(run.of(ReadersMoved)) == 2, what="a new generation")
        assert len(run.of(Retrying)) == len(run.of(Recovered)) == 1, "what is told to begin is told to end"
        database18.execute("update users set name = 'afterwards' where id = 3")
        run.wait_exact(database18)
    assert_exact(database18, spec)
