"""Getting writes across to a server whose answers are scripted."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from flusso.document import Write, WriteResult
from flusso.errors import SinkRefused, SinkUnavailable, WriteExpired
from flusso.sinks.search import server as server_module
from flusso.sinks.search.delivery import deliver
from flusso.sinks.search.pace import Limits, Pace
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


def run(
    client: Scripted, count: int, *, refresh: bool = False, max_retries: int = 3, pace: Pace | None = None
) -> WriteResult:
    writes = [Write(str(n), 5, b"{}") for n in range(count)]
    server = Server(client, "s", max_retries)
    return deliver(server, "books", "W", writes, pace or Pace(LIMITS), refresh=refresh, pipeline=None)


def sizes(client: Scripted) -> list[int]:
    return [count for path, _, count in client.requests if path.endswith("_bulk")]


def test_writes_are_cut_into_batches() -> None:
    client = Scripted()
    assert (run(client, 10).written, sizes(client)) == (10, [4, 4, 2])


def test_what_is_too_old_is_not_sent_any_more_and_not_tried_again() -> None:
    client = Scripted([201, 429, 429, 429])
    writes = [Write(str(n), 5, b"{}") for n in range(4)]
    server, pace = Server(client, "s", 3), Pace(LIMITS)
    with pytest.raises(WriteExpired):
        deliver(server, "books", "W", writes, pace, refresh=False, pipeline=None, until=time.monotonic() - 1)
    assert sizes(client) == []
    assert WriteExpired("x").retryable
    late = time.monotonic() + 60
    assert deliver(server, "books", "W", writes, pace, refresh=False, pipeline=None, until=late).written == 4


def test_only_busy_items_are_sent_again_and_in_smaller_batches() -> None:
    client = Scripted([201, 429, 429, 429])
    assert (run(client, 4).written, sizes(client)) == (4, [4, 2, 1])


def test_writes_after_a_busy_batch_wait_for_the_next_attempt() -> None:
    client = Scripted([429, 201, 201, 201])
    assert (run(client, 6).written, sizes(client)) == (6, [4, 2, 1])


def test_a_server_that_stays_busy_is_unavailable_after_the_retries() -> None:
    client = Scripted(*[[429] * 4] + [[429] * 2] + [[429]] * 9)
    with pytest.raises(SinkUnavailable, match='sink "s" takes no more of index "books" now'):
        run(client, 4, max_retries=3)
    assert len(client.requests) == 4


def test_requests_of_which_something_is_taken_are_no_end_of_patience() -> None:
    client = Scripted([429, 429, 429, 201], [429, 201])
    assert (run(client, 4, max_retries=1).written, sizes(client)) == (4, [4, 2, 1, 1])


def test_a_document_that_the_server_fails_at_while_another_is_taken_is_refused() -> None:
    """The last request has one that was taken, a removal that is too old, and the document."""
    client = Scripted([500, 201, 201], [500], [500], [201, 409, 500])
    result = run(client, 3, max_retries=2)
    assert (result.written, [(each.id, each.reason) for each in result.refusals]) == (2, [("0", "t")])
    assert (sizes(client), result.superseded) == ([3, 1, 1, 3], 0)


class Poisoned(Scripted):
    """Fails at some documents, always, and takes all else."""

    def __init__(self, *ids: str) -> None:
        super().__init__()
        self._ids = ids

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        heads = [json.loads(line) for line in (body or b"{}").splitlines()[::2]]
        if not any("delete" in head for head in heads):
            self.script = [[500 if head["index"]["_id"] in self._ids else 201 for head in heads]]
        else:
            self.script = [[201, 409, 500]]
        return super().send(method, path, params, body)


@pytest.mark.parametrize("ids", [["0"], ["5"], ["0", "1", "2", "3", "9"]])
def test_whatever_a_server_takes_is_written_beside_documents_that_it_fails_at(ids: list[str]) -> None:
    result = run(Poisoned(*ids), 10, max_retries=2)
    assert (sorted(each.id for each in result.refusals), result.written) == (ids, 10 - len(ids))


@pytest.mark.parametrize(
    "trial",
    [[500, 409, 500], [201, 500, 500], [201, 503, 500], [429, 409, 500], [201, 409, 503]],
    ids=[
        "the other fails",
        "its shard fails",
        "its shard is away",
        "the other has no room",
        "it has no room",
    ],
)
def test_a_document_is_not_refused_for_what_a_server_fails_at_all_over(trial: list[int]) -> None:
    client = Scripted([201, 500], [500], [500], trial)
    with pytest.raises(SinkUnavailable, match="takes no more"):
        run(client, 2, max_retries=2)


def test_a_document_is_not_refused_while_no_other_is_taken() -> None:
    client = Scripted(*[[500]] * 3)
    with pytest.raises(SinkUnavailable, match="takes no more"):
        run(client, 1, max_retries=2)
    assert sizes(client) == [1, 1, 1]


def test_a_document_is_not_refused_by_a_server_that_went_away_meanwhile() -> None:
    client = Scripted([201, 500], [500], SinkUnavailable("down"))
    with pytest.raises(SinkUnavailable, match="down"):
        run(client, 2, max_retries=2)


def test_nothing_is_told_of_waiting_without_any() -> None:
    assert run(Scripted([201]), 1).backed_off_s == 0


def test_how_long_it_backed_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_FIRST_WAIT_S", 0.01)
    result = run(Scripted(Answer(503, ""), [429]), 1)
    assert 0.005 + 0.01 <= result.backed_off_s <= 0.01 + 0.02


def test_requests_are_smaller_after_a_push_back_and_grow_again() -> None:
    pace = Pace(LIMITS)
    run(Scripted([429] * 4), 4, pace=pace)
    client = Scripted()
    run(client, 20, pace=pace)
    assert sizes(client) == [2, 2, 4, 4, 4, 4]


def test_after_a_push_back_there_is_one_request_at_a_time() -> None:
    pace = Pace(LIMITS)
    pace.slow_down()
    most = [0, 0]

    class Counting(Scripted):
        def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
            most[0] += 1
            most[1] = max(most)
            answer = super().send(method, path, params, body)
            time.sleep(0.01)  # so that others could come in between
            most[0] -= 1
            return answer

    with ThreadPoolExecutor(3) as threads:
        done = [threads.submit(run, Counting(), 2, pace=pace) for _ in range(3)]
    assert ([each.result().written for each in done], most[1]) == ([2] * 3, 1)


BLOCK = "index [books_1] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];"


@pytest.mark.parametrize("status", [403, 429])
def test_a_read_only_index_is_waited_for_and_named(status: int) -> None:
    error = {"type": "cluster_block_exception", "reason": BLOCK}
    items = {"errors": True, "items": [{"index": {"status": status, "error": error}}]}
    block = Answer(200, json.dumps(items))
    assert run(Scripted(block, block), 1).written == 1
    with pytest.raises(SinkUnavailable, match=r"flood-stage.*free some space"):
        run(Scripted(block), 1, max_retries=0)


def test_a_cluster_that_is_read_only_as_a_whole_is_waited_for() -> None:
    text = json.dumps({"error": {"type": "cluster_block_exception", "reason": "blocked by: [FORBIDDEN/6]"}})
    assert run(Scripted(Answer(403, text)), 1).written == 1


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
    result = deliver(Server(client, "s", 0), "books", "W", writes, Pace(LIMITS), refresh=False, pipeline=None)
    assert (result.written, [refusal.id for refusal in result.refusals]) == (1, [id_])


def test_a_pipeline_is_named_in_the_request() -> None:
    client = Scripted()
    writes = [Write("1", 5, b"{}")]
    deliver(Server(client, "s", 0), "books", "W", writes, Pace(LIMITS), refresh=False, pipeline="clean")
    assert client.requests[0][1]["pipeline"] == "clean"
