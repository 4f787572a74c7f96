"""Search: what every sink that can do it promises (`sinks/base.py`)."""

from __future__ import annotations

import json

import pytest
from books import FIRST, book, removal

from flusso.document import Write
from flusso.sinks.base import Sink, SinkSpec


def test_a_refreshed_write_is_searchable_at_once(sink: Sink) -> None:
    sink.publish(FIRST)
    sink.write(FIRST, [book("Momo", 5)], refresh=True)
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]


def test_a_changed_document_is_found_by_its_new_words_only(sink: Sink) -> None:
    sink.publish(FIRST)
    sink.write(FIRST, [book("Momo", 5)], refresh=True)
    sink.write(FIRST, [book("Krabat", 6)], refresh=True)
    assert (len(sink.search("books", "momo", 10)), len(sink.search("books", "krabat", 10))) == (0, 1)


def test_a_removed_document_is_not_found(sink: Sink) -> None:
    sink.publish(FIRST)
    sink.write(FIRST, [book("Momo", 5)], refresh=True)
    sink.write(FIRST, [removal(6)], refresh=True)
    assert (sink.search("books", "momo", 10), sink.count(FIRST)) == ([], 0)


@pytest.mark.parametrize("is_accented", [True, False])
def test_search_folds_case_and_accents_and_looks_into_related_rows(
    sink: Sink, spec: SinkSpec, is_accented: bool
) -> None:
    """Accents where the server has the module for it."""
    if not is_accented and getattr(spec, "text_analysis", "builtin") == "plain":
        return
    sink.publish(FIRST)
    body = json.dumps({"title": "x", "tags": ["Zürich"], "reviews": [{"comment": "Très élégant"}]}).encode()
    sink.write(FIRST, [Write("1", 5, body)], refresh=True)
    queries = ("ÉLÉGANT très", "zürich") if is_accented else ("ELEGANT tres", "zurich")
    found = [len(sink.search("books", words, 10)) for words in (*queries, "absent")]
    assert found == [1, 1, 0]


def test_a_hit_has_the_document_byte_for_byte(sink: Sink) -> None:
    sink.publish(FIRST)
    body = b'{"title": "Momo","price":1.00}'
    sink.write(FIRST, [Write("1", 5, body)], refresh=True)
    hit = sink.search("books", "momo", 10)[0]
    assert (hit.body, hit.score > 0) == (body, True)


def test_search_gives_the_best_first_and_no_more_than_asked(sink: Sink) -> None:
    sink.publish(FIRST)
    writes = [book("momo " + "and other words " * n, 5, str(n)) for n in range(5)]
    sink.write(FIRST, writes, refresh=True)
    assert [hit.id for hit in sink.search("books", "momo", 2)] == ["0", "1"]


@pytest.mark.parametrize(
    "query",
    ['"', "a AND (", "title:", "* OR", "-x ~ ^ \\", "!!!", "", "' or 1=1 --", "\ud800", "a\0b", "NEAR("],
)
def test_any_input_is_a_valid_query(sink: Sink, query: str) -> None:
    sink.publish(FIRST)
    sink.write(FIRST, [book("Momo", 5)], refresh=True)
    assert sink.search("books", query, 10) == []


PLACES = [
    ("1", {"title": "Momo", "tags": ["new", "old"], "price": 12.50, "reviews": [{"comment": "good"}]}),
    ("2", {"title": "Momo again", "tags": "new", "price": 7, "reviews": []}),
    ("3", {"title": "Krabat", "tags": None, "reviews": [{"comment": "bad"}, {"comment": "good"}]}),
]
CONDITIONS: list[tuple[str, list[tuple[str, str]], list[str]]] = [
    ("momo", [("tags", "new")], ["1", "2"]),
    ("momo", [("tags", "old")], ["1"]),
    ("momo", [("price", "12.5")], ["1"]),
    ("momo", [("price", "seven")], []),
    ("", [("reviews.comment", "good")], ["1", "3"]),
    ("", [("reviews.comment", "good"), ("tags", "new")], ["1"]),
    ("", [("title", "Krabat")], ["3"]),
    ("", [("absent.field", "x")], []),
    ("", [], []),
]


def test_a_search_can_ask_for_values_of_fields_too(sink: Sink) -> None:
    sink.publish(FIRST)
    sink.write(FIRST, [Write(id_, 5, json.dumps(body).encode()) for id_, body in PLACES], refresh=True)
    for query, where, expected in CONDITIONS:
        found = sorted(hit.id for hit in sink.search("books", query, 10, where))
        assert found == expected, (query, where)
    assert len(sink.search("books", "", 1, [("tags", "new")])) == 1
