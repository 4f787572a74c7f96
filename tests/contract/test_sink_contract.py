"""What every sink promises (`sinks/base.py`), tested against each kind as far as it can do it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pickle
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flusso.catalog import TableName
from flusso.document import Refusal, Write
from flusso.errors import SinkRefused
from flusso.schema.mapping import text_field_names
from flusso.schema.model import IndexSchema, Join, JoinKind, Scalar, ScalarKind
from flusso.sinks.base import IndexState, IndexTarget, Page, Sink, SinkSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec

SCHEMA = IndexSchema(
    TableName("public", "books"),
    (
        Scalar("title", ScalarKind.TEXT, "title"),
        Scalar("tags", ScalarKind.KEYWORD, "tags"),
        Scalar("price", ScalarKind.DECIMAL, "price"),
        Join(
            "reviews",
            JoinKind.HAS_MANY,
            TableName("public", "reviews"),
            ("id",),
            (Scalar("comment", ScalarKind.TEXT, "comment"),),
            foreign_key=("book_id",),
        ),
    ),
)
FIRST = IndexTarget("books", "a" * 64, 1, text_field_names(SCHEMA))
SECOND = replace(FIRST, digest="b" * 64, generation=2)
_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkSpec]:
    """A new place for each test, for every kind that keeps documents."""
    if request.param == "sqlite":
        yield SqliteSpec("kept", tmp_path / "search.db")
        return
    url = request.getfixturevalue("opensearch_url")
    prefix = f"contract{os.getpid()}_{next(_numbers)}_"
    yield OpenSearchSpec("kept", (url,), prefix=prefix, number_of_replicas=0)
    with urllib.request.urlopen(urllib.request.Request(f"{url}/{prefix}*", method="DELETE"), timeout=30):
        pass


@pytest.fixture
def sink(spec: SinkSpec) -> Iterator[Sink]:
    """An open sink with an empty first generation."""
    opened = spec.open()
    opened.ensure(FIRST, SCHEMA)
    yield opened
    opened.close()


def book(title: str, version: int, id_: str = "1") -> Write:
    return Write(id_, version, json.dumps({"title": title}).encode())


def removal(version: int, id_: str = "1") -> Write:
    return Write(id_, version, None)


def title_of(sink: Sink, id_: str = "1") -> str | None:
    found = sink.read(FIRST, [id_])
    return json.loads(found[id_].body)["title"] if id_ in found else None


def test_ensure_again_keeps_what_was_written(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.ensure(FIRST, SCHEMA)
    assert title_of(sink) == "Momo"


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


def test_publishing_a_newer_generation_moves_readers_and_drops_the_older(sink: Sink) -> None:
    sink.write(FIRST, [book("Momo", 5)], refresh=False)
    sink.publish(FIRST)
    sink.ensure(SECOND, SCHEMA)
    sink.write(SECOND, [book("Krabat", 6, "2")], refresh=False)
    assert [hit.id for hit in sink.search("books", "momo", 10)] == ["1"]
    sink.publish(SECOND)
    assert (sink.search("books", "momo", 10), sink.search("books", "krabat", 10)[0].id) == ([], "2")
    with pytest.raises(SinkRefused):
        sink.count(FIRST)


@pytest.mark.parametrize("writes", [[book("late", 9)], [removal(9)]], ids=["write", "removal"])
def test_writing_to_a_generation_that_is_gone_is_refused_and_makes_nothing(
    sink: Sink, writes: list[Write]
) -> None:
    sink.ensure(SECOND, SCHEMA)
    sink.publish(SECOND)
    for _ in range(2):
        with pytest.raises(SinkRefused):
            sink.write(FIRST, writes, refresh=False)


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


def test_search_folds_case_and_accents_and_looks_into_related_rows(sink: Sink) -> None:
    sink.publish(FIRST)
    body = json.dumps({"title": "x", "tags": ["Zürich"], "reviews": [{"comment": "Très élégant"}]}).encode()
    sink.write(FIRST, [Write("1", 5, body)], refresh=True)
    found = [len(sink.search("books", words, 10)) for words in ("ELEGANT tres", "zurich", "absent")]
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


def test_ids_lists_every_document_and_no_removed_one(sink: Sink) -> None:
    sink.write(FIRST, [book("x", 5, str(n)) for n in range(6000)], refresh=False)
    sink.write(FIRST, [removal(6, "17")], refresh=False)
    assert sorted(sink.ids(FIRST)) == sorted(str(n) for n in range(6000) if n != 17)


def pages(sink: Sink, limit: int, after: str = "") -> Iterator[Page]:
    """Go through pages to the last, from a place on."""
    while True:
        page = sink.page(FIRST, after, limit)
        yield page
        after = page.after
        if not after:
            return


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


def test_a_new_sink_has_no_states(spec: SinkSpec) -> None:
    opened = spec.open()
    assert opened.load_states() == {}
    opened.close()


def test_state_survives_reopening(sink: Sink, spec: SinkSpec) -> None:
    state = IndexState("books", "a" * 64, 1, True, "slot", "7412", 1 << 60, 1 << 61)
    sink.save_state(replace(state, witness=1))
    sink.save_state(state)
    sink.close()
    again = spec.open()
    assert again.load_states() == {"books": state}
    again.close()


def test_quarantine_keeps_one_entry_for_each_id_with_the_latest_reason(sink: Sink) -> None:
    first = Refusal("books", "1", 5, "kept", "first")
    latest = replace(first, version=6, reason="latest")
    sink.quarantine([first, replace(first, id="2"), replace(first, index="other")])
    sink.quarantine([latest])
    assert list(sink.quarantined("books")) == [latest, replace(first, id="2")]


def test_closing_twice_does_no_harm(spec: SinkSpec) -> None:
    opened = spec.open()
    opened.close()
    opened.close()


def test_a_document_that_is_not_json_is_refused_and_the_others_are_written(sink: Sink) -> None:
    result = sink.write(FIRST, [Write("bad", 5, b'{"title": '), book("Momo", 5)], refresh=False)
    assert (result.written, [refusal.id for refusal in result.refusals]) == (1, ["bad"])


SPECS: list[Callable[[], SinkSpec]] = [
    lambda: StdoutSpec("s"),
    lambda: SqliteSpec("s", "/nowhere/x.db"),
    lambda: OpenSearchSpec("s", ("https://me:hush@host:9200", "http://[::1]:9200"), api_key="hush"),
    lambda: OpenSearchSpec("s", ("https://host",), username="me", password="hush"),
]


@pytest.mark.parametrize("make", SPECS)
def test_a_spec_pickles_hashes_and_shows_no_secret(make: Callable[[], SinkSpec]) -> None:
    spec = make()
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(make())
    assert "hush" not in repr(spec)
    json.dumps(dict(spec.shape))


WRITER = """
import sys
from flusso.document import Write
from flusso.sinks.base import IndexTarget
from flusso.sinks.sqlite import SqliteSpec
path, start = sys.argv[1], int(sys.argv[2])
target = IndexTarget("books", "a" * 64, 1, ("title",))
sink = SqliteSpec("kept", path).open()
print("ready", flush=True)
sys.stdin.readline()
for batch in range(100):
    version = batch * 2 + start
    body = b'{"title":"v%d"}' % version
    sink.write(target, [Write(str(n), version, body) for n in range(50)], refresh=False)
"""


def test_two_processes_writing_the_same_documents_leave_the_newest(tmp_path: Path) -> None:
    spec = SqliteSpec("kept", tmp_path / "search.db")
    sink = spec.open()
    sink.ensure(FIRST, SCHEMA)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(spec.path), str(start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for start in (0, 1)
    ]
    with contextlib.ExitStack() as stack:
        for writer in writers:
            stack.enter_context(writer)
        assert [writer.stdout.readline() for writer in writers if writer.stdout] == ["ready\n"] * 2
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(60) for writer in writers] == [0, 0]
    found = sink.read(FIRST, list(sink.ids(FIRST)))
    assert {(stored.version, stored.body) for stored in found.values()} == {(199, b'{"title":"v199"}')}
    assert len(found) == 50
    sink.close()
