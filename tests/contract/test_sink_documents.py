"""Documents and versions: what every sink promises (`sinks/base.py`)."""

from __future__ import annotations

from books import FIRST, book, removal, title_of

from flusso.document import Write
from flusso.sinks.base import Sink, SinkSpec


def test_a_written_document_reads_back_byte_for_byte(sink: Sink) -> None:
    body = '{"title" : "Caf\\u00e9 \\"Å\\" 本",  "price":12.34000000000000000000001, "tags":["a"]}'.encode()
    sink.write(FIRST, [Write("k|1", 7, body)], refresh=False)
    assert sink.read(FIRST, ["k|1"])["k|1"].body == body


def test_a_document_with_raw_line_breaks_is_written_as_one_document(sink: Sink) -> None:
    result = sink.write(FIRST, [Write("1", 7, b'{\n"title":\n"Momo"\n}')], refresh=False)
    assert (result.written, title_of(sink)) == (1, "Momo")


def test_reading_gives_the_version_that_was_written(sink: Sink) -> None:
    version = 3 << 53 | 0xFFFF_FFFF_FF
    sink.write(FIRST, [book("Momo", version)], refresh=False)
    assert sink.read(FIRST, ["1"])["1"].version == version


def test_an_absent_document_is_left_out_when_reading(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    assert set(sink.read(FIRST, ["1", "2"])) == {"1"}


def test_counts_tell_what_became_of_the_writes(sink: Sink) -> None:
    sink.write(FIRST, [book("new", 9, "old")], refresh=False)
    result = sink.write(FIRST, [book("a", 5, "a"), removal(5, "b"), book("x", 5, "old")], refresh=False)
    assert (result.written, result.removed, result.superseded, result.newest_conflict) == (1, 1, 1, 9)


def test_the_same_version_again_leaves_the_same_document(sink: Sink) -> None:
    for _ in range(2):
        result = sink.write(FIRST, [book("Momo", 5)], refresh=True)
        assert (result.written, result.superseded) == (1, 0)
    assert (title_of(sink), sink.count(FIRST)) == ("Momo", 1)


def test_the_same_removal_again_is_a_removal(sink: Sink) -> None:
    for _ in range(2):
        assert sink.write(FIRST, [removal(5)], refresh=False).removed == 1


def test_a_newer_write_replaces_an_older_one(sink: Sink) -> None:
    sink.write(FIRST, [book("old", 5)], refresh=False)
    sink.write(FIRST, [book("new", 6)], refresh=False)
    assert title_of(sink) == "new"


def test_an_older_write_never_replaces_a_newer_one(sink: Sink) -> None:
    sink.write(FIRST, [book("new", 6)], refresh=False)
    result = sink.write(FIRST, [book("old", 5)], refresh=False)
    assert (result.superseded, title_of(sink)) == (1, "new")


def test_an_older_write_after_a_removal_is_superseded(sink: Sink) -> None:
    sink.write(FIRST, [book("first", 4)], refresh=False)
    sink.write(FIRST, [removal(6)], refresh=False)
    result = sink.write(FIRST, [book("late", 5)], refresh=False)
    assert (result.superseded, result.newest_conflict, title_of(sink)) == (1, 6, None)


def test_an_older_write_after_a_removal_of_what_was_never_there_is_superseded(sink: Sink) -> None:
    sink.write(FIRST, [removal(6)], refresh=False)
    result = sink.write(FIRST, [book("late", 5)], refresh=False)
    assert (result.superseded, title_of(sink)) == (1, None)


def test_an_older_removal_never_removes_a_newer_document(sink: Sink) -> None:
    sink.write(FIRST, [book("new", 6)], refresh=False)
    result = sink.write(FIRST, [removal(5)], refresh=False)
    assert (result.superseded, result.removed, title_of(sink)) == (1, 0, "new")


def test_a_newer_write_brings_a_removed_document_back(sink: Sink) -> None:
    sink.write(FIRST, [removal(5)], refresh=False)
    sink.write(FIRST, [book("back", 6)], refresh=False)
    assert title_of(sink) == "back"


def test_versions_survive_reopening(sink: Sink, spec: SinkSpec) -> None:
    sink.write(FIRST, [book("new", 6), removal(6, "2")], refresh=False)
    sink.close()
    again = spec.open()
    assert again.write(FIRST, [book("old", 5), book("old", 5, "2")], refresh=False).superseded == 2
    again.close()


def test_a_document_that_is_not_json_is_refused_and_the_others_are_written(sink: Sink) -> None:
    result = sink.write(FIRST, [Write("bad", 5, b'{"title": '), book("Momo", 5)], refresh=False)
    assert (result.written, [refusal.id for refusal in result.refusals]) == (1, ["bad"])
