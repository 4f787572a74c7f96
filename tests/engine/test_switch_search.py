"""A reindex in a real search server: removals while a generation is filled. Real Postgres, no Spark."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator

import pytest
from test_two_generations import AHEAD, start, switcher

from fix_postgres import Database
from flusso.document import Write
from flusso.engine import work
from flusso.sinks.base import Request
from flusso.sinks.search.generations import Names
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import market_spec, publish_seeded

pytestmark = [pytest.mark.postgres, pytest.mark.opensearch]
USER = b'{"id":1}'


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    work.forget()


def ask(sink: OpenSearchSpec, method: str, path: str) -> int:
    request = urllib.request.Request(f"{sink.urls[0]}/{path}", method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer).get("count", 0))


def test_a_removal_during_a_reindex_keeps_older_documents_out_and_no_reader_sees_it(
    database18: Database, search_sink: OpenSearchSpec
) -> None:
    create_market(database18, users=3)
    spec = market_spec(database18, search_sink)
    publish_seeded(start(spec).ledger, "users")
    with contextlib.closing(search_sink.open()) as sink:
        sink.ask("users", Request.REINDEX)
        ledger = start(spec).ledger
        (filled,) = ledger.to_seed()
        target = filled.destination.target
        sink.write(target, [Write("1", 7, None), Write("2", 7, None)], refresh=True)
        for step in ("_close", "_open?wait_for_active_shards=1"):  # the server forgets what was removed
            ask(search_sink, "POST", f"{Names(search_sink.prefix).concrete(target)}/{step}")
        assert sink.write(target, [Write("1", 6, USER)], refresh=True).superseded == 1
        ledger.finish_seed([filled])
        ledger.position = AHEAD.lsn
        switcher(ledger).look()
        assert [entry.state.generation for entry in ledger.entries] == [2]
        assert ask(search_sink, "GET", f"{search_sink.prefix}users/_count") == 0
        (serving,) = ledger.serving()
        sink.write(serving.target, [Write("3", 8, None)], refresh=True)
        assert ask(search_sink, "GET", f"{search_sink.prefix}users/_count") == 0
