"""Going through what a sink holds: what every sink promises (`sinks/base.py`)."""

from __future__ import annotations

import json

from books import FIRST, book, pages, removal

from flusso.document import Write
from flusso.sinks.base import Page, Sink, SinkSpec


def test_ids_lists_every_document_and_no_removed_one(sink: Sink) -> None:
    sink.write(FIRST, [book("x", 5, str(n)) for n in range(6000)], refresh=False)
    sink.write(FIRST, [removal(6, "17")], refresh=False)
    assert sorted(sink.ids(FIRST)) == sorted(str(n) for n in range(6000) if n != 17)


def test_pages_together_have_every_document_once(sink: Sink) -> None:
    body = json.dumps({"title": "x", "reviews": [{"comment": "good"}, {"comment": "bad"}]}).encode()
    sink.write(FIRST, [Write(str(n), 5, body) for n in range(250)], refresh=False)
    sink.write(FIRST, [removal(6, "17")], refresh=False)
    found = [id_ for page in pages(sink, 100) for id_ in page.ids]
    assert sorted(found) == sorted(str(n) for n in range(250) if n != 17)


def test_a_page_goes_on_where_an_earlier_one_of_another_sink_ended(sink: Sink, spec: SinkSpec) -> None:
    sink.write(FIRST, [book("x", 5, str(n)) for n in range(250)], refresh=False)
    first = sink.page(FIRST, "", 100)
    other = spec.open()
    rest = [id_ for page in pages(other, 100, first.after) for id_ in page.ids]
    other.close()
    assert 0 < len(first.ids) <= 100
    assert sorted([*first.ids, *rest]) == sorted(str(n) for n in range(250))


def test_pages_end_although_each_is_written_anew(sink: Sink) -> None:
    sink.write(FIRST, [book("x", 5, str(n)) for n in range(50)], refresh=True)
    found = []
    for page in pages(sink, 10):
        found += page.ids
        if page.ids:
            sink.write(FIRST, [book("y", 6, id_) for id_ in page.ids], refresh=True)
    assert sorted(found) == sorted(str(n) for n in range(50))


def test_an_empty_generation_has_one_empty_page(sink: Sink) -> None:
    assert sink.page(FIRST, "", 10) == Page((), "")


def test_an_id_comes_back_as_it_was_whatever_it_holds(sink: Sink) -> None:
    ids = [
        "~",
        "\"\\'",
        "a|b",
        "line\nbreak\t\x01\x7f",
        "../_search?q=%2F#x",
        "[bold]",
        "é" * 256,
        "_x",
        " ",
        "\U0001f600",
    ]
    sink.write(FIRST, [book("x", 5, id_) for id_ in ids], refresh=True)
    assert sorted(sink.ids(FIRST)) == sorted(ids)
    assert sorted(sink.read(FIRST, ids)) == sorted(ids)
    sink.publish(FIRST)
    assert sorted(hit.id for hit in sink.search("books", "x", 100)) == sorted(ids)
    assert sink.write(FIRST, [removal(6, id_) for id_ in ids], refresh=True).removed == len(ids)
    assert list(sink.ids(FIRST)) == []


def test_reading_many_documents_at_once_gives_all_of_them(sink: Sink) -> None:
    sink.write(FIRST, [book("x", 5, str(n)) for n in range(2500)], refresh=False)
    assert len(sink.read(FIRST, [str(n) for n in range(2500)])) == 2500
