"""A sink that is not filled from existing rows gets only what changes."""

import contextlib
import json
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.events import Following, SeedFinished
from flusso.engine.session import Session
from flusso.engine.spec import IndexSpec
from flusso.sinks.base import Request
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market, market_schema
from pipelines import Run, market_spec, run_once, sqlite_sink

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.opensearch]


def _found(spec: IndexSpec, words: str) -> dict[str, list[str]]:
    found = {}
    for sink_spec in spec.sinks:
        sink = sink_spec.open()
        try:
            found[sink_spec.name] = sorted(hit.id for hit in sink.search("users", words, 100))
        finally:
            sink.close()
    return found


def test_a_sink_without_backfill_gets_only_changes_beside_one_that_is_filled(
    database18: Database, spark_session: Session, search_sink: OpenSearchSpec, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    database18.execute("update users set name = 'same'")
    local = sqlite_sink(tmp_path)
    index = IndexSpec(
        "users", market_schema(), (local, search_sink), not_backfilled=frozenset({search_sink.name})
    )
    spec = market_spec(database18, local, indexes=(index,))
    run_once(spec, spark_session)
    assert _found(index, "same") == {local.name: sorted(map(str, range(1, 21))), search_sink.name: []}
    database18.execute("update users set email = 'new@x' where id = 7")
    run_once(spec, spark_session)
    assert _found(index, "same")[search_sink.name] == ["7"]
    with contextlib.closing(search_sink.open()) as sink:
        sink.ask("users", Request.REINDEX)
    run_once(spec, spark_session)
    assert _found(index, "same")[search_sink.name] == sorted(map(str, range(1, 21)))


def _count_raw(sink: OpenSearchSpec) -> int:
    """Count as an application does: whatever the alias shows."""
    with urllib.request.urlopen(f"{sink.urls[0]}/{sink.prefix}users/_count", timeout=60) as answer:
        return int(json.load(answer)["count"])


def test_skipping_the_backfill_publishes_an_index_that_only_changes_fill_and_no_removal_shows_in_it(
    database18: Database, spark_session: Session, search_sink: OpenSearchSpec
) -> None:
    create_market(database18, users=5)
    spec = market_spec(database18, search_sink)
    with Run(replace(spec, skips_seed=True), spark_session) as run:
        run.wait(lambda: run.of(Following), what="the stream")
        database18.execute("update users set name = 'changed' where id in (2, 3)")
        database18.execute("delete from users where id in (1, 2)")
        run.wait_confirmed(database18)
    assert not run.of(SeedFinished)
    assert _found(spec.indexes[0], "changed") == {search_sink.name: ["3"]}
    assert _count_raw(search_sink) == 1
