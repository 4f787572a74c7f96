"""The indexes for state and quarantine in a real search server, also when somebody deletes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from flusso.document import Refusal
from flusso.sinks.base import IndexState, Request, Sink, States
from search_place import SCHEMA, TARGET, Place
from search_proxy import SearchProxy

pytestmark = pytest.mark.opensearch

STATE = IndexState("books", "a" * 64, 1, term=7)
REFUSAL = Refusal("books", "1", 5, "search", "too long", 1.5)
META, QUARANTINE = "@flusso_meta", "@flusso_quarantine"


@pytest.fixture
def sink(place: Place) -> Iterator[Sink]:
    opened = place.spec().open()
    opened.ensure(TARGET, SCHEMA)
    opened.save_state(STATE)
    opened.quarantine([REFUSAL])
    yield opened
    opened.close()


def mapping(place: Place, name: str) -> Any:
    """What an index knows of its fields."""
    (found,) = place.ask("GET", f"/{name}/_mapping").values()
    return found["mappings"]


def test_a_state_makes_its_deleted_index_with_its_mapping(place: Place, sink: Sink) -> None:
    before = mapping(place, META)
    place.ask("DELETE", f"/{META}")
    sink.save_state(STATE)
    assert (sink.load_states(), mapping(place, META)) == (States((STATE,)), before)


def test_a_request_makes_its_deleted_index_with_its_mapping(place: Place, sink: Sink) -> None:
    before = mapping(place, META)
    place.ask("DELETE", f"/{META}")
    sink.ask("books", Request.REINDEX)
    assert (sink.load_states().asked, mapping(place, META)) == ({"books": Request.REINDEX}, before)


def test_a_refused_document_makes_its_deleted_index_with_its_mapping(place: Place, sink: Sink) -> None:
    before = mapping(place, QUARANTINE)
    place.ask("DELETE", f"/{QUARANTINE}")
    sink.quarantine([REFUSAL])
    assert (sink.quarantined("books"), mapping(place, QUARANTINE)) == ([REFUSAL], before)


def test_forgetting_and_releasing_make_no_index(place: Place, sink: Sink) -> None:
    for name in (META, QUARANTINE):
        place.ask("DELETE", f"/{name}")
    sink.answer("books")
    sink.release("books", ["1"], 9)
    assert not [name for name in place.ask("GET", "/@*") if "flusso_" in name]


@pytest.mark.parametrize("is_started", [True, False])
def test_indexes_of_an_earlier_release_are_written_on(place: Place, sink: Sink, is_started: bool) -> None:
    """They have no alias for writers: a start adds it, and whoever misses it does."""
    for name in (META, QUARANTINE):
        place.ask("DELETE", f"/{name}/_alias/{name}_WRITER")
    with closing(place.spec().open()) as later:
        if is_started:
            later.ensure(TARGET, SCHEMA)
        assert later.release("books", ["1"], 9) == 1
        later.save_state(STATE)
        assert later.load_states() == States((STATE,))


def test_many_refused_documents_go_in_requests_of_the_size_that_is_set(
    place: Place, proxy: SearchProxy
) -> None:
    many = [Refusal("books", str(n), 5, "search", "too long", 1.5) for n in range(25)]
    with closing(place.spec(proxy.url, batch_size=10).open()) as opened:
        opened.quarantine(many)
        assert len(opened.quarantined("books")) == 25
    assert [len(asked.lines) // 2 for asked in proxy.asked if asked.is_bulk] == [10, 10, 5]
