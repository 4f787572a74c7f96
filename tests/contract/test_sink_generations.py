"""Generations: what every sink promises (`sinks/base.py`)."""

from __future__ import annotations

import pytest
from books import FIRST, SCHEMA, SECOND, book, removal, title_of

from flusso.document import Write
from flusso.errors import GenerationGone, SinkRefused
from flusso.sinks.base import IndexState, Sink


def test_ensure_again_keeps_what_was_written(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.ensure(FIRST, SCHEMA)
    assert title_of(sink) == "Momo"


def test_nothing_is_found_before_publishing(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=True)
    assert sink.search("books", "momo", 10) == []


def test_publishing_makes_documents_searchable(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.publish(FIRST)
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]


def test_publishing_twice_changes_nothing(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.publish(FIRST)
    sink.publish(FIRST)
    assert len(sink.search("books", "momo", 10)) == 1


def test_publishing_another_generation_moves_readers_and_drops_nothing(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.publish(FIRST)
    sink.ensure(SECOND, SCHEMA)
    sink.write(SECOND, [book("Krabat", 6, "2")], refresh=False)
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]
    sink.publish(SECOND)
    assert (sink.search("books", "momo", 10), sink.search("books", "krabat", 10)[0].id) == ([], "2")
    assert title_of(sink) == "Momo"
    sink.publish(FIRST)
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]


def test_dropping_a_generation_leaves_nothing_of_it_and_touches_no_other(sink: Sink) -> None:
    sink.ensure(SECOND, SCHEMA)
    for target in (FIRST, SECOND):
        sink.write(target, [book("Momo", 5)], refresh=False)
        sink.save_state(IndexState("books", target.digest, target.generation))
    sink.publish(SECOND)
    for _ in range(2):
        sink.drop(FIRST)
    assert (sink.exists(FIRST), sink.exists(SECOND)) == (False, True)
    assert [state.generation for state in sink.load_states().all] == [SECOND.generation]
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]


def test_a_generation_that_readers_see_is_not_dropped(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.publish(FIRST)
    with pytest.raises(SinkRefused, match="readers"):
        sink.drop(FIRST)
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]


@pytest.mark.parametrize("writes", [[book("late", 9)], [removal(9)]], ids=["write", "removal"])
def test_writing_to_a_generation_that_is_gone_is_refused_and_makes_nothing(
    sink: Sink, writes: list[Write]
) -> None:
    sink.drop(FIRST)
    for _ in range(2):
        with pytest.raises(GenerationGone):
            sink.write(FIRST, writes, refresh=False)
