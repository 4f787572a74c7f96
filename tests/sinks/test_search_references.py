"""Look-ups against a server whose answers are scripted: what is not complete is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from flusso.document import Write
from flusso.errors import SinkUnavailable
from flusso.sinks.search import server as server_module
from flusso.sinks.search.references import find_referring, reference_writes
from flusso.sinks.search.server import Answer, Server

WHOLE = {"_shards": {"failed": 0}}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_FIRST_WAIT_S", 0.0)


class Scripted:
    """Answers one request after the other."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str]]] = []

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        self.requests.append((path, dict(params)))
        return Answer(200, json.dumps(self.answers.pop(0)))

    def close(self) -> None:
        """Nothing is open."""


def hits(total: int, *ids: str, **more: Any) -> dict[str, Any]:
    return WHOLE | {"hits": {"total": {"value": total}, "hits": [{"_id": id_} for id_ in ids]}} | more


def look_up(client: Scripted, retries: int = 1) -> list[str]:
    return list(find_referring(Server(client, "s", retries), "books_refs", ["a"], "_primary"))


def test_a_look_up_is_one_refresh_and_one_search_on_primaries() -> None:
    client = Scripted(WHOLE, hits(1, "1"))
    assert look_up(client) == ["1"]
    expected = {"allow_partial_search_results": "false", "preference": "_primary"}
    assert client.requests == [("/books_refs/_refresh", {}), ("/books_refs/_search", expected)]


def test_nothing_to_look_up_asks_nothing() -> None:
    client = Scripted()
    assert list(find_referring(Server(client, "s", 1), "books_refs", [], "")) == []
    assert client.requests == []


@pytest.mark.parametrize("lack", [{"_shards": {"failed": 1}}, {"timed_out": True}], ids=["shard", "time"])
def test_an_answer_that_lacks_a_shard_is_asked_for_again_and_then_refused(lack: dict[str, Any]) -> None:
    assert look_up(Scripted(WHOLE, hits(1, **lack), hits(1, "1"))) == ["1"]
    with pytest.raises(SinkUnavailable, match="all of its shards"):
        look_up(Scripted(WHOLE, hits(1, **lack), hits(1, **lack)))


def test_a_refresh_that_failed_on_a_shard_is_refused() -> None:
    with pytest.raises(SinkUnavailable, match="all of its shards"):
        look_up(Scripted({"_shards": {"failed": 1}}, {"_shards": {"failed": 1}}))


SHARDS = {"books_refs": {"settings": {"index.number_of_shards": "1"}}}


def page(*ids: str, **more: Any) -> dict[str, Any]:
    numbered = [{"_id": id_, "sort": [int(id_)]} for id_ in ids]
    return WHOLE | {"hits": {"hits": numbered}} | more


def test_what_is_too_much_for_one_answer_is_read_in_pages_of_each_shard() -> None:
    client = Scripted(WHOLE, hits(10_001, "1"), SHARDS, page("9"), page("1", "2"), page("9"))
    assert look_up(client) == ["1", "2", "9"]
    assert client.requests[-1] == ("/books_refs/_search", {"preference": "_shards:0|_primary"})


def test_a_page_that_lacks_its_shard_is_asked_for_again_and_then_refused() -> None:
    lack = page(_shards={"failed": 1})
    before = WHOLE, hits(10_001, "1"), SHARDS, page("9")
    assert look_up(Scripted(*before, lack, page("9"))) == ["9"]
    with pytest.raises(SinkUnavailable, match="all of its shards"):
        look_up(Scripted(*before, lack, lack))


def test_a_document_without_tokens_takes_no_room() -> None:
    writes = [Write("1", 5, b"{}", b'["a"]'), Write("2", 5, b"{}", b"[]"), Write("3", 5, None)]
    assert [write.body for write in reference_writes(writes)] == [b'{"tokens":["a"]}', None, None]
