"""Getting writes across to a server whose answers are scripted."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from flusso.document import Write
from flusso.errors import SinkRefused, SinkUnavailable
from flusso.sinks.search import server as server_module
from flusso.sinks.search.delivery import Limits, deliver
from flusso.sinks.search.server import Answer, Server

LIMITS = Limits(4, 10_000_000)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_FIRST_WAIT_S", 0.0)


class Scripted:
    """Answers requests from a list; without one left, everything is written."""

    def __init__(self, *script: Answer | Exception | list[int]) -> None:
        self.script = list(script)
        self.requests: list[tuple[str, Mapping[str, str], int]] = []

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        heads = [line for line in (body or b"").split(b"\n") if line.startswith((b'{"index"', b'{"delete"'))]
        self.requests.append((path, params, len(heads)))
        step = self.script.pop(0) if self.script else [201] * len(heads)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Answer):
            return step
        items = [
            {"index": {"status": status} | ({"error": {"type": "t", "reason": ""}} if status > 299 else {})}
            for status in step
        ]
        return Answer(200, json.dumps({"errors": any(status > 299 for status in step), "items": items}))

    def close(self) -> None:
        """Nothing is open."""


def run(client: Scripted, count: int, *, refresh: bool = False, max_retries: int = 3):  # type: ignore[no-untyped-def]
    writes = [Write(str(n), 5, b"{}") for n in range(count)]
    return deliver(
        Server(client, "s", max_retries), "books", "W", writes, LIMITS, refresh=refresh, pipeline=None
    )


def sizes(client: Scripted) -> list[int]:
    return [count for path, _, count in client.requests if path.endswith("_bulk")]


def test_writes_are_cut_into_batches() -> None:
    client = Scripted()
    assert (run(client, 10).written, sizes(client)) == (10, [4, 4, 2])


def test_only_busy_items_are_sent_again_and_in_smaller_batches() -> None:
    client = Scripted([201, 429, 429, 429])
    assert (run(client, 4).written, sizes(client)) == (4, [4, 2, 1])


def test_writes_after_a_busy_batch_wait_for_the_next_attempt() -> None:
    client = Scripted([429, 201, 201, 201])
    assert (run(client, 6).written, sizes(client)) == (6, [4, 2, 1])


def test_a_server_that_stays_busy_is_unavailable_after_the_retries() -> None:
    client = Scripted(*[[429] * 4] + [[429] * 2] + [[429]] * 9)
    with pytest.raises(SinkUnavailable, match='sink "s" has no room for more of index "books"'):
        run(client, 4, max_retries=3)
    assert len(client.requests) == 4


def test_a_request_without_answer_is_sent_again() -> None:
    client = Scripted(SinkUnavailable("down"), SinkUnavailable("down"))
    assert (run(client, 1).written, len(client.requests)) == (1, 3)


@pytest.mark.parametrize("status", [429, 502, 503])
def test_an_overloaded_server_is_asked_again(status: int) -> None:
    assert run(Scripted(Answer(status, "<html>")), 1).written == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_missing_privilege_is_refused_at_once(status: int) -> None:
    client = Scripted(Answer(status, "Unauthorized"))
    with pytest.raises(SinkRefused, match="check its username"):
        run(client, 1)
    assert len(client.requests) == 1


def test_a_refused_request_names_its_type_and_not_what_the_server_quotes() -> None:
    text = json.dumps({"error": {"type": "illegal_argument_exception", "reason": "bad value secret"}})
    with pytest.raises(SinkRefused, match="illegal_argument_exception") as caught:
        run(Scripted(Answer(400, text)), 1)
    assert "secret" not in str(caught.value)


def test_a_request_that_is_too_large_is_sent_in_smaller_ones() -> None:
    client = Scripted(Answer(413, ""))
    assert (run(client, 4).written, sizes(client)) == (4, [4, 2, 2])


def test_one_document_that_is_too_large_is_refused() -> None:
    result = run(Scripted(Answer(413, "")), 1)
    assert [refusal.reason for refusal in result.refusals] == ["larger than the server takes"]


def test_a_refused_item_is_reported_and_not_sent_again() -> None:
    client = Scripted([400, 201])
    result = run(client, 2)
    assert (result.written, [refusal.id for refusal in result.refusals], len(client.requests)) == (
        1,
        ["0"],
        1,
    )


def test_one_batch_is_refreshed_by_its_own_request() -> None:
    client = Scripted()
    run(client, 3, refresh=True)
    assert [(path, params.get("refresh")) for path, params, _ in client.requests] == [("/W/_bulk", "true")]


def test_several_batches_are_followed_by_one_refresh() -> None:
    client = Scripted()
    run(client, 6, refresh=True)
    assert [path for path, _, _ in client.requests] == ["/W/_bulk", "/W/_bulk", "/W/_refresh"]


def test_a_batch_that_had_to_be_sent_again_is_refreshed_too() -> None:
    client = Scripted([201, 429])
    run(client, 2, refresh=True)
    assert [path for path, _, _ in client.requests][-1] == "/W/_refresh"


@pytest.mark.parametrize("id_", ["", "x" * 513, "é" * 257])
def test_an_id_that_would_fail_the_whole_request_is_refused_alone(id_: str) -> None:
    client = Scripted()
    writes = [Write(id_, 5, b"{}"), Write("é" * 256, 5, b"{}")]
    result = deliver(Server(client, "s", 0), "books", "W", writes, LIMITS, refresh=False, pipeline=None)
    assert (result.written, [refusal.id for refusal in result.refusals]) == (1, [id_])


def test_a_pipeline_is_named_in_the_request() -> None:
    client = Scripted()
    writes = [Write("1", 5, b"{}")]
    deliver(Server(client, "s", 0), "books", "W", writes, LIMITS, refresh=False, pipeline="clean")
    assert client.requests[0][1]["pipeline"] == "clean"
