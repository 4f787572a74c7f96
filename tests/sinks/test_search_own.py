"""The indexes for state and quarantine in a real search server, also when somebody deletes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from flusso.document import Refusal
from flusso.errors import IndexTaken
from flusso.sinks.base import IndexState, Request, Sink, States
from flusso.sinks.search import server as server_module
from flusso.sinks.state import state_to_json
from search_place import SCHEMA, TARGET, Place
from search_proxy import Asked, Forward, Given, SearchProxy

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


LATER = replace(STATE, witness=9)


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_state_that_arrives_late_is_not_put_over_a_newer_one(
    place: Place, proxy: SearchProxy, sink: Sink, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Its sender has waited for it in vain and sent it once more; or its answer was lost, and so on."""
    monkeypatch.setattr(server_module, "_FIRST_WAIT_S", 0.01)
    delayed: list[Asked] = []

    def rule(asked: Asked, forward: Forward) -> Given | None:
        if asked.method != "PUT" or delayed:
            return forward(asked)
        delayed.append(asked)
        if is_lost:
            forward(asked)
        return None

    with closing(place.spec(proxy.url, max_retries=3).open()) as opened:
        opened.ensure(TARGET, SCHEMA)
        proxy.rule = rule
        opened.save_state(replace(STATE, witness=8))
        opened.save_state(LATER)
    assert proxy.forward(delayed[0]).status == 409
    assert sink.load_states() == States((LATER,))


def test_two_threads_of_a_process_save_one_after_the_other(place: Place, sink: Sink) -> None:
    with closing(place.spec().open()) as other:
        for witness in range(1, 7):
            (sink, other)[witness % 2].save_state(replace(STATE, witness=witness))
    assert sink.load_states() == States((replace(STATE, witness=6),))


def test_a_state_follows_one_of_a_release_that_numbered_it_by_its_term(place: Place, sink: Sink) -> None:
    numbered = f"/{META}/_doc/books%231?version_type=external_gte&version={1 << 60}"
    place.ask("PUT", numbered, {"state": state_to_json(replace(STATE, term=1 << 60))})
    with pytest.raises(IndexTaken):
        sink.save_state(STATE)
    later = replace(STATE, term=(1 << 60) + 1)
    sink.save_state(later)
    assert sink.load_states() == States((later,))


def test_many_refused_documents_go_in_requests_of_the_size_that_is_set(
    place: Place, proxy: SearchProxy
) -> None:
    many = [Refusal("books", str(n), 5, "search", "too long", 1.5) for n in range(25)]
    with closing(place.spec(proxy.url, batch_size=10).open()) as opened:
        opened.quarantine(many)
        assert len(opened.quarantined("books")) == 25
    assert [len(asked.lines) // 2 for asked in proxy.asked if asked.is_bulk] == [10, 10, 5]
