"""Generations: what every sink promises (`sinks/base.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from books import FIRST, SCHEMA, SECOND, book, removal, title_of

from flusso.document import Write
from flusso.errors import GenerationGone, IndexTaken, SinkRefused
from flusso.sinks.base import IndexState, Sink, SinkSpec


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


@pytest.mark.parametrize("step", ["ensure", "claim"])
def test_who_was_replaced_moves_no_reader(sink: Sink, spec: SinkSpec, step: str) -> None:
    """Whether the later start still writes the generation, or only has it for readers."""
    early, late = replace(FIRST, term=5), replace(FIRST, term=6)
    sink.ensure(early, SCHEMA)
    sink.save_state(IndexState("books", FIRST.digest, FIRST.generation, term=5))
    sink.publish(early)
    other = spec.open()
    other.save_state(IndexState("books", FIRST.digest, FIRST.generation, term=6))
    other.ensure(late, SCHEMA) if step == "ensure" else other.claim(late)
    other.ensure(replace(SECOND, term=6), SCHEMA)
    other.publish(replace(SECOND, term=6))
    with pytest.raises(IndexTaken) as caught:
        sink.publish(early)
    assert caught.value.hint
    assert [each.generation for each in other.held() if each.is_read] == [SECOND.generation]
    other.publish(late)
    assert [each.generation for each in other.held() if each.is_read] == [FIRST.generation]
    other.close()


def test_a_generation_is_read_from_when_it_is_published_until_another_is(sink: Sink) -> None:
    sink.ensure(SECOND, SCHEMA)
    assert [sink.is_read(target) for target in (FIRST, SECOND)] == [False, False]
    sink.publish(FIRST)
    assert [sink.is_read(target) for target in (FIRST, SECOND)] == [True, False]
    sink.publish(SECOND)
    assert [sink.is_read(target) for target in (FIRST, SECOND)] == [False, True]


def test_claiming_what_is_gone_does_nothing(sink: Sink) -> None:
    sink.drop(FIRST)
    sink.claim(replace(FIRST, keeps_references=True, term=5))
    assert sink.uuids(FIRST) is None


def test_dropping_a_generation_leaves_nothing_of_it_and_touches_no_other(sink: Sink) -> None:
    sink.ensure(SECOND, SCHEMA)
    for target in (FIRST, SECOND):
        sink.write(target, [book("Momo", 5)], refresh=False)
        sink.save_state(IndexState("books", target.digest, target.generation))
    sink.publish(SECOND)
    for _ in range(2):
        sink.drop(FIRST)
    assert (sink.uuids(FIRST) is None, sink.uuids(SECOND) is None) == (True, False)
    assert [state.generation for state in sink.load_states().all] == [SECOND.generation]
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]


def test_a_generation_that_readers_see_is_not_dropped(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.publish(FIRST)
    with pytest.raises(SinkRefused, match="readers"):
        sink.drop(FIRST)
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]


FILLED = replace(FIRST, keeps_removals=True)


def test_a_removal_while_a_generation_is_filled_is_never_seen_and_keeps_older_writes_out(sink: Sink) -> None:
    sink.write(FILLED, [book("Momo", 5), book("Krabat", 5, "2")], refresh=False)
    result = sink.write(FILLED, [removal(6), removal(6, "3"), book("Momo", 4, "2")], refresh=True)
    assert (result.written, result.removed, result.superseded) == (0, 2, 1)
    late = sink.write(FILLED, [book("late", 5), book("late", 5, "3")], refresh=True)
    assert (late.superseded, late.newest_conflict) == (2, 6)
    assert (list(sink.ids(FIRST)), sink.count(FIRST), sorted(sink.read(FIRST, ["1", "2", "3"]))) == (
        ["2"],
        1,
        ["2"],
    )


def test_purging_takes_out_removals_and_no_document(sink: Sink) -> None:
    sink.write(FILLED, [removal(6), removal(6, "3"), book("Krabat", 5, "2")], refresh=False)
    sink.write(FILLED, [book("back", 7, "3")], refresh=False)
    for _ in range(2):
        sink.purge(FIRST)
    sink.publish(FIRST)
    assert (sorted(sink.ids(FIRST)), sink.count(FIRST)) == (["2", "3"], 2)
    assert [hit.id for hit in sink.search("books", "back", 10)] == ["3"]
    sink.write(FIRST, [book("again", 8)], refresh=True)
    assert title_of(sink) == "again"


def test_what_is_held_is_listed_whether_anything_is_known_of_it_or_not(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=True)
    sink.ensure(SECOND, SCHEMA)
    sink.publish(FIRST)
    held = sorted(sink.held(), key=lambda each: each.generation)
    assert [(each.index, each.generation, each.is_read) for each in held] == [
        ("books", 1, True),
        ("books", 2, False),
    ]
    assert all(
        target.digest.startswith(each.digest) for each, target in zip(held, (FIRST, SECOND), strict=True)
    )
    sink.drop(held[1].target)
    assert [each.generation for each in sink.held()] == [1]


STEPS: dict[str, Callable[[Sink], object]] = {
    "read": lambda sink: sink.read(FIRST, ["1"]),
    "page": lambda sink: sink.page(FIRST, "", 10),
    "ids": lambda sink: list(sink.ids(FIRST)),
    "count": lambda sink: sink.count(FIRST),
    "publish": lambda sink: sink.publish(FIRST),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_generation_that_is_gone_is_called_gone_by_whoever_reads_or_publishes_it(
    sink: Sink, step: str
) -> None:
    sink.drop(FIRST)
    with pytest.raises(GenerationGone):
        STEPS[step](sink)


@pytest.mark.parametrize("writes", [[book("late", 9)], [removal(9)]], ids=["write", "removal"])
def test_writing_to_a_generation_that_is_gone_is_refused_and_makes_nothing(
    sink: Sink, writes: list[Write]
) -> None:
    sink.drop(FIRST)
    for _ in range(2):
        with pytest.raises(GenerationGone):
            sink.write(FIRST, writes, refresh=False)


def test_a_generation_keeps_its_uuids_and_one_made_anew_in_its_place_has_others(
    sink: Sink, spec: SinkSpec
) -> None:
    before = sink.uuids(FIRST)
    sink.write(FIRST, [book("Momo", 5)], refresh=True)
    sink.ensure(replace(FIRST, term=5), SCHEMA)
    other = spec.open()
    assert other.uuids(FIRST) == before
    other.close()
    sink.drop(FIRST)
    assert sink.uuids(FIRST) is None
    sink.ensure(FIRST, SCHEMA)
    assert not before or sink.uuids(FIRST) != before
