"""Marks of removals go before readers come, whatever goes wrong meanwhile: on real search servers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from flusso.document import Write
from flusso.errors import SinkUnavailable
from flusso.sinks.base import Sink
from flusso.sinks.search import server as server_module
from search_place import SCHEMA, TARGET, Place
from search_proxy import Asked, Forward, Given, SearchProxy, half_busy

pytestmark = pytest.mark.opensearch

FILLED = replace(TARGET, keeps_removals=True)
REMOVALS = [Write(str(n), 5, None) for n in range(40)]
ENOUGH = 50
"""Requests after which the server takes them: who never waits or gives up would not end."""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_FIRST_WAIT_S", 0.01)


@pytest.fixture
def sink(place: Place, proxy: SearchProxy) -> Iterator[Sink]:
    """A sink with a generation that is being filled, and has marks."""
    opened = place.spec(proxy.url, max_retries=2).open()
    opened.ensure(FILLED, SCHEMA)
    opened.write(FILLED, REMOVALS, refresh=False)
    yield opened
    opened.close()


def marks(place: Place) -> int:
    """Count the marks that a search sees."""
    concrete = f"/@books_{'a' * 12}_1"
    place.ask("POST", f"{concrete}/_refresh")
    return int(place.ask("GET", f"{concrete}/_count")["count"])


def test_a_server_that_takes_no_removal_is_given_up_after_the_retries(
    place: Place, proxy: SearchProxy, sink: Sink
) -> None:
    bulks = itertools.count(1)

    def full(asked: Asked, forward: Forward) -> Given:
        if not asked.is_bulk or next(bulks) > ENOUGH:
            return forward(asked)
        error = {"type": "rejected_execution_exception", "reason": "full"}
        items = [{"delete": {"status": 429, "error": error}} for _ in asked.lines]
        headers = {"Content-Type": "application/json", "X-Elastic-Product": "Elasticsearch"}
        return Given(200, json.dumps({"errors": True, "items": items}).encode(), headers)

    proxy.rule = full
    with pytest.raises(SinkUnavailable, match='takes no more of index "books" now'):
        sink.purge(TARGET)
    assert next(bulks) == 4


def test_removals_that_are_not_taken_at_once_are_sent_again(
    place: Place, proxy: SearchProxy, sink: Sink
) -> None:
    proxy.rule = lambda asked, forward: half_busy(asked, forward) if asked.is_bulk else forward(asked)
    sink.purge(TARGET)
    assert marks(place) == 0


def test_a_mark_that_became_a_document_meanwhile_is_left_alone(
    place: Place, proxy: SearchProxy, sink: Sink
) -> None:
    newer = Write("7", 6, b'{"title":"newer"}')

    def overtaken(asked: Asked, forward: Forward) -> Given:
        if asked.is_bulk:
            other = place.spec().open()
            other.write(FILLED, [newer], refresh=False)
            other.close()
        return forward(asked)

    proxy.rule = overtaken
    sink.purge(TARGET)
    assert (marks(place), sink.read(TARGET, ["7"])["7"].body) == (1, newer.body)


@pytest.mark.parametrize("step", ["_refresh", "_search"])
def test_marks_of_a_shard_that_does_not_answer_are_not_taken_for_gone(
    place: Place, proxy: SearchProxy, sink: Sink, step: str
) -> None:
    def partial(asked: Asked, forward: Forward) -> Given:
        given = forward(asked)
        if f"/{step}" not in asked.path:
            return given
        lacking = {"_shards": {"total": 2, "successful": 1, "failed": 1}, "hits": {"hits": []}}
        headers = {key: value for key, value in given.headers.items() if key.lower() != "content-encoding"}
        return Given(200, json.dumps(lacking).encode(), headers)

    proxy.rule = partial
    with pytest.raises(SinkUnavailable, match="all of its shards"):
        sink.purge(TARGET)


def test_a_search_for_marks_asks_for_all_shards(place: Place, proxy: SearchProxy, sink: Sink) -> None:
    sink.purge(TARGET)
    searches = [asked.path for asked in proxy.asked if "/_search" in asked.path]
    assert len(searches) == 2
    assert all("allow_partial_search_results=false" in path for path in searches)
