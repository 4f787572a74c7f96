"""What a sink promises of references: documents are found by the tokens they were last written with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from books import FIRST, SCHEMA

from flusso.document import Write
from flusso.errors import SinkRefused
from flusso.sinks.base import Sink, SinkSpec

KEEPING = replace(FIRST, keeps_references=True)


@pytest.fixture
def keeper(sink: Sink) -> Sink:
    """A sink whose first generation keeps references."""
    sink.ensure(KEEPING, SCHEMA)
    return sink


def referring(id_: str, version: int, *tokens: str) -> Write:
    return Write(id_, version, b'{"title":"x"}', json.dumps(tokens).encode())


def found(sink: Sink, *tokens: str) -> list[str]:
    return sorted(sink.find_references(KEEPING, tokens))


def test_a_document_is_found_by_each_of_its_tokens_as_soon_as_it_is_written(keeper: Sink) -> None:
    keeper.write(KEEPING, [referring("1", 5, "a", "b"), referring("2", 5, "b")], refresh=False)
    assert [found(keeper, "a"), found(keeper, "b"), found(keeper, "a", "b"), found(keeper, "c")] == [
        ["1"],
        ["1", "2"],
        ["1", "2"],
        [],
    ]
    assert found(keeper) == []


def test_a_newer_write_replaces_tokens_and_an_older_one_does_not(keeper: Sink) -> None:
    keeper.write(KEEPING, [referring("1", 5, "a")], refresh=False)
    keeper.write(KEEPING, [referring("1", 7, "b")], refresh=False)
    keeper.write(KEEPING, [referring("1", 6, "c")], refresh=False)
    assert [found(keeper, token) for token in "abc"] == [[], ["1"], []]


def test_a_document_without_tokens_or_removed_is_found_no_more(keeper: Sink) -> None:
    keeper.write(KEEPING, [referring("1", 5, "a"), referring("2", 5, "a")], refresh=False)
    keeper.write(KEEPING, [referring("1", 6), Write("2", 6, None)], refresh=False)
    assert found(keeper, "a") == []


def test_a_document_with_tokens_reads_back_byte_for_byte(keeper: Sink) -> None:
    body = b'{"title" : "x",  "price":12.34000000000000000000001}'
    keeper.write(KEEPING, [Write("1", 5, body, b'["a"]')], refresh=True)
    assert keeper.read(KEEPING, ["1"])["1"].body == body
    assert (list(keeper.ids(KEEPING)), keeper.count(KEEPING)) == (["1"], 1)


def test_any_text_is_a_token(keeper: Sink) -> None:
    tokens = ["", " ", "a|b\\c", "\"'", "ü\U0001f600", "x" * 300, "a,b", "[1]", "*"]
    writes = [referring(str(n), 5, token) for n, token in enumerate(tokens)]
    keeper.write(KEEPING, writes, refresh=False)
    assert [found(keeper, token) for token in tokens] == [[str(n)] for n in range(len(tokens))]


def test_all_documents_are_found_however_many_they_are(keeper: Sink) -> None:
    writes = [referring(str(n), 5, "shared", f"own{n}") for n in range(10_050)]
    keeper.write(KEEPING, writes, refresh=False)
    assert len(set(found(keeper, "shared"))) == 10_050
    many = [f"none{n}" for n in range(70_000)]
    assert found(keeper, "own1", *many, "own2") == ["1", "2"]


def test_a_generation_that_keeps_no_references_takes_tokens_and_passes_them_over(sink: Sink) -> None:
    sink.write(FIRST, [referring("1", 5, "a")], refresh=False)
    sink.ensure(KEEPING, SCHEMA)
    assert found(sink, "a") == []


def test_remembered_tokens_survive_reopening_until_they_are_forgotten(keeper: Sink, spec: SinkSpec) -> None:
    keeper.remember_tokens(KEEPING, ["a", "b|\\", "c"])
    keeper.remember_tokens(KEEPING, ["c", "d"])
    keeper.write(KEEPING, [referring("1", 5, "a")], refresh=False)
    keeper.close()
    again = spec.open()
    assert sorted(again.remembered_tokens(KEEPING, 100)) == ["a", "b|\\", "c", "d"]
    assert (len(again.remembered_tokens(KEEPING, 2)), again.count_tokens(KEEPING)) == (2, 4)
    again.forget_tokens(KEEPING, ["a", "b|\\", "never"])
    assert sorted(again.remembered_tokens(KEEPING, 100)) == ["c", "d"]
    assert again.count_tokens(KEEPING) == 2
    assert sorted(again.find_references(KEEPING, ["a"])) == ["1"]
    again.close()


def test_references_go_with_their_generation(keeper: Sink) -> None:
    keeper.write(KEEPING, [referring("1", 5, "a")], refresh=False)
    keeper.remember_tokens(KEEPING, ["b"])
    assert keeper.uuids(KEEPING) is not None
    keeper.drop(KEEPING)
    assert keeper.uuids(KEEPING) is None
    with pytest.raises(SinkRefused):
        found(keeper, "a")
    keeper.ensure(KEEPING, SCHEMA)
    assert (found(keeper, "a"), list(keeper.remembered_tokens(KEEPING, 10))) == ([], [])
