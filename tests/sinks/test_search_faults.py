"""What goes wrong between flusso and a search server does no harm: everything arrives once it goes again."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from flusso.document import Refusal, Write
from flusso.errors import GenerationGone, SinkUnavailable
from flusso.sinks.base import IndexState, Sink
from flusso.sinks.search import references
from flusso.sinks.search import server as server_module
from flusso.sinks.search import sink as sink_module
from search_place import SCHEMA, TARGET, Place
from search_proxy import Asked, Forward, Given, Rule, SearchProxy, failing_at, half_busy

pytestmark = pytest.mark.opensearch

KEEPING = replace(TARGET, keeps_references=True)
WRITES = [Write(str(n), 5, json.dumps({"title": f"book {n}"}).encode()) for n in range(40)]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_FIRST_WAIT_S", 0.01)


@pytest.fixture
def sink(place: Place, proxy: SearchProxy) -> Iterator[Sink]:
    opened = place.spec(proxy.url, max_retries=6, batch_size=10).open()
    opened.ensure(TARGET, SCHEMA)
    yield opened
    opened.close()


def for_bulks(rule: Rule, times: int) -> Rule:
    """Let the first so many bulk requests go wrong."""
    left = itertools.count(times, -1)

    def chosen(asked: Asked, forward: Forward) -> Given | None:
        return rule(asked, forward) if asked.is_bulk and next(left) > 0 else forward(asked)

    return chosen


def cut(asked: Asked, forward: Forward) -> None:
    """Nothing arrives."""


def lost(asked: Asked, forward: Forward) -> None:
    """All arrives, and the answer is lost."""
    forward(asked)


def truncated(asked: Asked, forward: Forward) -> Given:
    given = forward(asked)
    return replace(given, sent_bytes=len(given.body) // 2)


def slow(asked: Asked, forward: Forward) -> Given:
    given = forward(asked)
    time.sleep(1.5)  # longer than the client waits
    return given


def overloaded(asked: Asked, forward: Forward) -> Given:
    return Given(503, b"<html>Service Unavailable")


FAULTS: list[Callable[[Asked, Forward], Given | None]] = [cut, lost, truncated, overloaded, half_busy]


@pytest.mark.parametrize("fault", FAULTS)
def test_all_is_written_whatever_goes_wrong_on_the_way(
    place: Place, proxy: SearchProxy, sink: Sink, fault: Rule
) -> None:
    proxy.rule = for_bulks(fault, times=3)
    result = sink.write(TARGET, WRITES, refresh=True)
    assert (result.written, result.superseded, result.refusals) == (len(WRITES), 0, ())
    assert result.backed_off_s > 0
    assert sink.count(TARGET) == len(WRITES)
    stored = sink.read(TARGET, [write.id for write in WRITES])
    assert {id_: each.body for id_, each in stored.items()} == {write.id: write.body for write in WRITES}


def test_a_server_that_answers_too_late_is_asked_again(place: Place, proxy: SearchProxy, sink: Sink) -> None:
    hasty = place.spec(proxy.url, max_retries=6, timeout_s=1.0).open()
    proxy.rule = for_bulks(slow, times=1)
    result = hasty.write(TARGET, WRITES[:5], refresh=False)
    hasty.close()
    assert (result.written, result.backed_off_s > 0) == (5, True)


def test_a_write_whose_answer_was_lost_does_not_overtake_a_newer_one(
    place: Place, proxy: SearchProxy, sink: Sink
) -> None:
    """Between the lost answer and the repetition another writer comes: the repetition is superseded."""
    newer = WRITES[0]._replace(version=6, body=b'{"title":"newer"}')

    def overtaken(asked: Asked, forward: Forward) -> None:
        forward(asked)
        other = place.spec().open()
        other.write(TARGET, [newer], refresh=False)
        other.close()

    proxy.rule = for_bulks(overtaken, times=1)
    result = sink.write(TARGET, WRITES[:1], refresh=False)
    assert (result.superseded, result.newest_conflict) == (1, 6)
    assert sink.read(TARGET, ["0"])["0"].body == newer.body


def test_a_removal_whose_answer_was_lost_is_a_removal(place: Place, proxy: SearchProxy, sink: Sink) -> None:
    sink.write(TARGET, WRITES[:1], refresh=False)
    proxy.rule = for_bulks(lost, times=1)
    assert sink.write(TARGET, [Write("0", 6, None)], refresh=False).removed == 1


def test_only_documents_that_do_not_fit_are_refused_while_others_are_busy(
    place: Place, proxy: SearchProxy, sink: Sink
) -> None:
    proxy.rule = for_bulks(half_busy, times=3)
    writes = [*WRITES[:9], Write("bad", 5, b'{"pages":"many"}')]
    result = sink.write(TARGET, writes, refresh=False)
    assert (result.written, [each.id for each in result.refusals]) == (9, ["bad"])
    assert result.refusals[0].reason.endswith("(field pages)")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_document_that_the_server_fails_at_is_refused_and_keeps_nothing_back(
    place: Place, proxy: SearchProxy, is_known: bool
) -> None:
    """What the index has of it stays as it is; a version that the server can take is taken."""
    sink = place.spec(proxy.url, max_retries=2, batch_size=3).open()
    sink.ensure(TARGET, SCHEMA)
    if is_known:
        sink.write(TARGET, [WRITES[4]._replace(version=4)], refresh=False)
    proxy.rule = failing_at("4")
    result = sink.write(TARGET, WRITES[:10], refresh=True)
    assert (result.written, [each.id for each in result.refusals]) == (9, ["4"])
    assert result.refusals[0].reason == "null_pointer_exception"
    assert [each.version for each in sink.read(TARGET, ["4"]).values()] == [4] * is_known
    proxy.rule = lambda asked, forward: forward(asked)
    assert sink.write(TARGET, WRITES[4:5], refresh=False).written == 1
    sink.close()


def astray(asked: Asked, forward: Forward) -> Given:
    """The ingress knows no server for it at the moment."""
    return Given(404, b"default backend - 404", {"Content-Type": "text/plain"})


def test_a_page_in_front_of_the_server_is_not_taken_for_what_it_holds(
    place: Place, proxy: SearchProxy
) -> None:
    sink = place.spec(proxy.url).open()
    sink.ensure(KEEPING, SCHEMA)
    sink.save_state(IndexState("books", "a" * 64, 1))
    proxy.rule = astray
    steps: list[Callable[[], object]] = [
        lambda: sink.uuids(TARGET),
        lambda: sink.load_states(),
        lambda: sink.write(TARGET, WRITES[:1], refresh=False),
        lambda: sink.read(TARGET, ["0"]),
        lambda: sink.search("books", "momo", 1),
        lambda: sink.held(),
        lambda: sink.drop(TARGET),
        lambda: list(sink.find_references(KEEPING, ["a"])),
    ]
    for step in steps:
        with pytest.raises(SinkUnavailable, match="something else than"):
            step()
    proxy.rule = lambda asked, forward: forward(asked)
    assert (sink.uuids(KEEPING) is None, len(sink.load_states().all)) == (False, 1)
    sink.close()


BLOCKS = ["index.blocks.read_only_allow_delete", "index.blocks.write", "index.blocks.read_only"]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_read_only_index_is_waited_for_and_written_once_it_is_none(
    place: Place, proxy: SearchProxy, block: str
) -> None:
    """The first is what a server sets by itself when its disk is nearly full."""
    sink = place.spec(proxy.url, max_retries=1).open()
    sink.ensure(TARGET, SCHEMA)
    concrete = f"/@books_{'a' * 12}_1"
    place.ask("PUT", f"{concrete}/_settings", {block: True})
    with pytest.raises(SinkUnavailable, match=r'takes no more of index "books" now .*blocked by'):
        sink.write(TARGET, WRITES[:2], refresh=False)

    def unblock(asked: Asked, forward: Forward) -> Given:
        given = forward(asked)
        place.ask("PUT", f"{concrete}/_settings", {block: None})
        return given

    proxy.rule = for_bulks(unblock, times=1)
    result = sink.write(TARGET, WRITES[:2], refresh=False)
    sink.close()
    assert (result.written, result.refusals) == (2, ())


def test_a_closed_index_is_waited_for_and_is_not_taken_for_one_that_is_gone(place: Place) -> None:
    sink = place.spec(max_retries=0).open()
    sink.ensure(TARGET, SCHEMA)
    concrete = f"/@books_{'a' * 12}_1"
    place.ask("POST", f"{concrete}/_close")
    with pytest.raises(SinkUnavailable, match="closed"):
        sink.write(TARGET, WRITES[:2], refresh=False)
    with pytest.raises(SinkUnavailable, match="closed"):
        sink.refresh(TARGET)
    place.ask("POST", f"{concrete}/_open")
    assert sink.write(TARGET, WRITES[:2], refresh=False).written == 2
    sink.close()


@pytest.mark.parametrize("fault", [cut, truncated, overloaded])
def test_reading_and_remembering_survive_faults_too(
    place: Place, proxy: SearchProxy, sink: Sink, fault: Rule
) -> None:
    sink.write(TARGET, WRITES[:3], refresh=True)
    left = itertools.count(2, -1)

    def rule(asked: Asked, forward: Forward) -> Given | None:
        return fault(asked, forward) if next(left) > 0 else forward(asked)

    proxy.rule = rule
    assert (len(sink.read(TARGET, ["0", "1", "2"])), list(sink.load_states().all)) == (3, [])


@pytest.mark.parametrize("limits", [{"batch_size": 200}, {"max_bytes": 65_536}])
def test_tokens_that_are_due_are_cut_into_requests_by_count_and_by_bytes(
    place: Place, proxy: SearchProxy, limits: dict[str, int]
) -> None:
    tokens = [f"{n:0200}" for n in range(500)]
    sink = place.spec(proxy.url, **limits).open()
    sink.ensure(KEEPING, SCHEMA)
    sink.remember_tokens(KEEPING, tokens)
    bodies = [asked.body for asked in proxy.asked if asked.is_bulk]
    assert sorted(sink.remembered_tokens(KEEPING, 1000)) == tokens
    sink.close()
    assert len(bodies) > 1
    assert max(map(len, bodies)) <= 65_536


def test_tokens_that_a_busy_server_does_not_take_are_sent_again(
    place: Place, proxy: SearchProxy, sink: Sink
) -> None:
    sink.ensure(KEEPING, SCHEMA)
    proxy.rule = for_bulks(half_busy, times=3)
    sink.remember_tokens(KEEPING, ["a", "b", "c", "d", "e"])
    assert sorted(sink.remembered_tokens(KEEPING, 100)) == ["a", "b", "c", "d", "e"]


def test_tokens_of_references_that_somebody_deleted_are_not_kept_elsewhere(place: Place, sink: Sink) -> None:
    sink.ensure(KEEPING, SCHEMA)
    place.ask("DELETE", f"/@books_{'a' * 12}_1_refs")
    with pytest.raises(GenerationGone):
        sink.remember_tokens(KEEPING, ["a"])


@pytest.mark.parametrize("shards", [1, 2])
def test_a_look_up_outlives_what_the_server_forgets_and_what_is_written_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """Whoever pays a debt writes what a page names before asking for the next."""
    monkeypatch.setattr(references, "MAX_HITS", 5)
    sink = place.spec(number_of_shards=shards).open()
    sink.ensure(KEEPING, SCHEMA)
    writes = [write._replace(tokens=b'["a"]') for write in WRITES]
    sink.write(KEEPING, writes, refresh=False)
    found = []
    for id_ in sink.find_references(KEEPING, ["a"]):
        found.append(id_)
        if len(found) % 10 == 1:
            place.ask("DELETE", "/_search/scroll/_all")
            again = [write._replace(version=6) for write in writes if write.id in found]
            sink.write(KEEPING, again, refresh=True)
    sink.close()
    assert sorted(found) == sorted(write.id for write in WRITES)


def test_what_is_remembered_is_read_again_when_the_server_forgets_in_the_middle(
    place: Place, proxy: SearchProxy, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_module, "_SCAN_PAGE", 2)
    sink.quarantine([Refusal("books", str(n), 5, "search", "too long", 1.5) for n in range(5)])
    left = itertools.count(1, -1)

    def forgetting(asked: Asked, forward: Forward) -> Given:
        if asked.method == "POST" and asked.path == "/_search/scroll" and next(left) > 0:
            place.ask("DELETE", "/_search/scroll/_all")
        return forward(asked)

    proxy.rule = forgetting
    assert [entry.id for entry in sink.quarantined("books")] == ["0", "1", "2", "3", "4"]
