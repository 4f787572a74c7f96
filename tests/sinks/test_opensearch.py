"""What is particular to the OpenSearch sink, against a real server."""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flusso.catalog import TableName
from flusso.document import Write
from flusso.errors import GenerationGone, SinkRefused, SinkUnavailable
from flusso.schema.model import IndexSchema, Join, JoinKind, Scalar, ScalarKind
from flusso.sinks.base import IndexTarget, States
from flusso.sinks.search.mend import mend
from flusso.sinks.search.opensearch import OpenSearchClient, OpenSearchSpec
from flusso.sinks.search.server import Server

pytestmark = pytest.mark.opensearch

TARGET = IndexTarget("books", "a" * 64, 1)
CONCRETE = f"books_{'a' * 12}_1"
REVIEWS = Join(
    "reviews",
    JoinKind.HAS_MANY,
    TableName("public", "reviews"),
    ("id",),
    (
        Scalar("comment", ScalarKind.TEXT, "comment"),
        Scalar("stars", ScalarKind.LONG, "stars"),
        Scalar("meta", ScalarKind.JSON, "meta"),
    ),
    foreign_key=("book_id",),
)
SCHEMA = IndexSchema(
    TableName("public", "books"),
    (
        *(Scalar(kind.value, kind, kind.value) for kind in ScalarKind if kind is not ScalarKind.ENUM),
        Scalar("state", ScalarKind.ENUM, "state", variants=("new", "newer", "on sale", "a => b", "é😀")),
        REVIEWS,
    ),
)
_numbers = itertools.count(1)


class Cluster:
    """A prefix of its own in the session's server."""

    def __init__(self, url: str) -> None:
        self.spec = OpenSearchSpec(
            "search", (url,), prefix=f"os{os.getpid()}_{next(_numbers)}_", number_of_replicas=0, max_retries=1
        )
        self.sink = self.spec.open()
        self.server = Server(OpenSearchClient(self.spec), "search", 0)

    def name(self, rest: str) -> str:
        return f"{self.spec.prefix}{rest}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return self.server.request(method, path.replace("@", self.spec.prefix), body).json

    def write(self, *bodies: dict[str, object]) -> Any:
        writes = [Write(str(n), 5, json.dumps(body).encode()) for n, body in enumerate(bodies)]
        return self.sink.write(TARGET, writes, refresh=True)

    def found(self, query: object, **more: object) -> list[str]:
        answer = self.ask("POST", f"/@{CONCRETE}/_search", {"query": query} | more)
        return [hit["_id"] for hit in answer["hits"]["hits"]]


@pytest.fixture
def cluster(opensearch_url: str) -> Iterator[Cluster]:
    made = Cluster(opensearch_url)
    yield made
    made.ask("DELETE", "/@*")
    made.sink.close()
    made.server.close()


@pytest.mark.parametrize("analysis", ["builtin", "plain"])
def test_a_mapping_with_every_kind_is_accepted_and_takes_a_document(cluster: Cluster, analysis: str) -> None:
    cluster.spec = OpenSearchSpec(
        "search", cluster.spec.urls, prefix=cluster.spec.prefix, text_analysis=analysis, number_of_replicas=0
    )
    sink = cluster.spec.open()
    sink.ensure(TARGET, SCHEMA)
    document = {
        "text": "é" * 500_000,
        "identifier": "AB-12" * 200_000,
        "keyword": "k" * 1_000_000,
        "uuid": "0c0e1f6e-3f6e-4a5c-9d0d-000000000000",
        "boolean": True,
        "short": 1,
        "integer": 2,
        "long": 1 << 60,
        "float": 1.5,
        "double": 2.5,
        "decimal": 3.25,
        "date": "2024-02-29",
        "timestamp": "2024-02-29T12:30:00.123456Z",
        "binary": "aGFsbG8=",
        "json": [1, "x", {"a": {"b": None}}],
        "state": "new" * 20_000,
        "reviews": [{"comment": None, "stars": 3}],
    }
    result = sink.write(TARGET, [Write("1", 5, json.dumps(document).encode())], refresh=True)
    assert (result.written, result.refusals) == (1, ())
    sink.close()


def test_json_of_conflicting_shapes_is_taken(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    result = cluster.write(
        {"json": 5}, {"json": {"a": 1}}, {"json": {"a": {"b": 1}}}, {"json": "x"}, {"json": None}
    )
    assert result.written == 5


@pytest.mark.parametrize("is_nested", [False, True])
def test_exactly_the_json_that_the_server_refuses_is_kept_as_text(cluster: Cluster, is_nested: bool) -> None:
    levels = (19, 20, 21, 996, 997, 998, 999, 1000)
    values = [
        *("[" * depth + "]" * depth for depth in levels),
        *('{"a":' * depth + "1" + "}" * depth for depth in levels),
        *('{"a":' + "[" * depth + "]" * depth + "}" for depth in (20, 21, 30)),
        *("[" + '{"a":' + "[" * depth + "]" * depth + "}]" for depth in (20, 21, 30)),
        *("9" * digits for digits in (1000, 1001)),
        *("-0." + "9" * digits + "e5" for digits in (998, 999, 1000)),
        '{"a":1,"b":{"a":1}}',
        '{"a":1,"\\u0061":2}',
        *('{"' + "k" * length + '":1}' for length in (50_000, 50_001)),
    ]
    place = '{"reviews":[{"meta":%s}]}' if is_nested else '{"json":%s}'
    bodies = [(place % value).encode() for value in values]
    fields: Any = {"reviews": {"meta": None}} if is_nested else {"json": None}
    cluster.sink.ensure(TARGET, SCHEMA)
    writes = [Write(str(n), 5, body) for n, body in enumerate(bodies)]
    result = cluster.sink.write(TARGET, writes, refresh=True)
    assert (result.written, result.refusals) == (len(bodies), ())
    stored = cluster.sink.read(TARGET, [write.id for write in writes])
    for n, body in enumerate(bodies):
        assert stored[str(n)].body == (mend(body, fields) or body), values[n][:20]


def test_text_matches_whatever_the_accents_and_case(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.write({"text": "Élégance à Zürich"}, {"text": "other"})
    assert cluster.found({"match": {"text": {"query": "elegance ZURICH", "operator": "and"}}}) == ["0"]


def test_an_identifier_is_found_by_its_parts_and_by_all_of_it(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.write({"identifier": "AB-1234/x"}, {"identifier": "other"})
    for words in ("1234", "ab", "AB-1234/x", "ab1234x"):
        assert cluster.found({"match": {"identifier": words}}) == ["0"], words


def test_enums_sort_by_the_order_of_their_variants(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    states = ["é😀", "newer", "a => b", "on sale", "new"]
    cluster.write(*({"state": state} for state in states))
    assert cluster.found({"match_all": {}}, sort=["state.sort"]) == ["4", "1", "3", "2", "0"]


def test_a_nested_query_matches_within_one_row(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.write({"reviews": [{"comment": "good", "stars": 5}, {"comment": "bad", "stars": 1}]})

    def both(comment: str, stars: int) -> object:
        must = [{"match": {"reviews.comment": comment}}, {"term": {"reviews.stars": stars}}]
        return {"nested": {"path": "reviews", "query": {"bool": {"must": must}}}}

    assert (cluster.found(both("good", 5)), cluster.found(both("good", 1))) == (["0"], [])


def test_a_refused_document_says_its_field_and_not_its_value(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    result = cluster.write({"long": "secret"}, {"surprise": 1}, {"long": 1})
    reasons = [refusal.reason for refusal in result.refusals]
    assert reasons == [
        "mapper_parsing_exception (field long)",
        "strict_dynamic_mapping_exception (field surprise)",
    ]
    assert result.written == 1


def test_refreshing_is_off_until_the_generation_is_published(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    settings = [cluster.ask("GET", f"/@{CONCRETE}/_settings")[cluster.name(CONCRETE)]["settings"]["index"]]
    cluster.sink.publish(TARGET)
    settings.append(
        cluster.ask("GET", f"/@{CONCRETE}/_settings")[cluster.name(CONCRETE)]["settings"]["index"]
    )
    assert [each["refresh_interval"] for each in settings] == ["-1", "10s"]
    assert settings[0]["gc_deletes"] == "3600000ms"


def test_ensure_after_publishing_leaves_refreshing_on(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.sink.publish(TARGET)
    cluster.sink.ensure(TARGET, SCHEMA)
    found = cluster.ask("GET", f"/@{CONCRETE}/_settings")[cluster.name(CONCRETE)]
    assert found["settings"]["index"]["refresh_interval"] == "10s"


def test_an_index_under_the_name_of_the_alias_is_refused_and_left_alone(cluster: Cluster) -> None:
    cluster.ask("PUT", "/@books")
    with pytest.raises(SinkRefused, match="is an index of its own"):
        cluster.sink.ensure(TARGET, SCHEMA)
    assert cluster.name("books") in cluster.ask("GET", "/@books")


def test_an_alias_of_another_index_is_refused_and_left_alone(cluster: Cluster) -> None:
    cluster.ask("PUT", "/@theirs", {"aliases": {cluster.name("books"): {}}})
    with pytest.raises(SinkRefused, match="which flusso did not make"):
        cluster.sink.ensure(TARGET, SCHEMA)


def test_a_name_that_became_an_index_while_a_generation_was_filled_is_refused_when_readers_are_to_come(
    cluster: Cluster,
) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.ask("PUT", "/@books")
    with pytest.raises(SinkRefused, match=f'"{cluster.name("books")}" is an index of its own') as caught:
        cluster.sink.publish(TARGET)
    assert caught.value.hint == "delete or rename it, or set another prefix"


def test_an_alias_that_became_anothers_while_a_generation_was_filled_stays_theirs(cluster: Cluster) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.ask("PUT", "/@theirs", {"aliases": {cluster.name("books"): {}}})
    with pytest.raises(SinkRefused, match="which flusso did not make"):
        cluster.sink.publish(TARGET)
    assert list(cluster.ask("GET", "/_alias/@books")) == [cluster.name("theirs")]


def test_publishing_leaves_indexes_with_a_longer_name_alone(cluster: Cluster) -> None:
    other = IndexTarget("books_archive", "a" * 64, 1)
    cluster.sink.ensure(other, SCHEMA)
    newer = IndexTarget("books", "b" * 64, 2)
    cluster.sink.ensure(newer, SCHEMA)
    cluster.sink.publish(newer)
    assert cluster.sink.count(other) == 0


@pytest.mark.parametrize("body", [b"{}", None], ids=["write", "removal"])
def test_writing_to_an_index_that_is_gone_never_makes_one(cluster: Cluster, body: bytes | None) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.ask("DELETE", f"/@{CONCRETE}")
    with pytest.raises(SinkRefused, match="the index is gone"):
        cluster.sink.write(TARGET, [Write("1", 5, body)], refresh=False)
    assert not any(CONCRETE in name for name in cluster.ask("GET", "/@*"))


@pytest.mark.parametrize("step", ["refresh", "purge", "publish", "count", "ids"])
def test_an_index_that_somebody_deleted_is_a_generation_that_is_gone(cluster: Cluster, step: str) -> None:
    cluster.sink.ensure(TARGET, SCHEMA)
    cluster.ask("DELETE", f"/@{CONCRETE}")
    with pytest.raises(GenerationGone, match="the index is gone"):
        list(getattr(cluster.sink, step)(TARGET))


def test_a_mapping_that_the_server_refuses_is_explained(cluster: Cluster) -> None:
    wrong = IndexSchema(
        TableName("public", "t"), (Scalar("a", ScalarKind.TEXT, "a", options={"analyzer": "absent"}),)
    )
    with pytest.raises(SinkRefused, match=r"refused to make index .*analyzer \[absent\]"):
        cluster.sink.ensure(TARGET, wrong)


def test_compressed_requests_are_understood(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flusso.sinks.search.connection._is_here", lambda url: False)
    sink = cluster.spec.open()
    sink.ensure(TARGET, SCHEMA)
    body = json.dumps({"text": "hello " * 500}).encode()
    sink.write(TARGET, [Write("1", 5, body)], refresh=False)
    assert sink.read(TARGET, ["1"])["1"].body == body
    sink.close()


def test_an_address_where_nobody_listens_is_unavailable() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        sink = OpenSearchSpec("search", (url,), max_retries=1).open()
        with pytest.raises(SinkUnavailable, match='sink "search" is not reachable'):
            sink.load_states()


def test_a_server_that_does_not_answer_is_unavailable_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sink = OpenSearchSpec("search", (url,), max_retries=0, timeout_s=0.3).open()
        started = time.monotonic()
        with pytest.raises(SinkUnavailable, match="did not answer in time"):
            sink.load_states()
        assert time.monotonic() - started < 5


def test_a_dead_address_beside_a_live_one_does_no_harm(cluster: Cluster) -> None:
    urls = ("http://127.0.0.1:1", *cluster.spec.urls)
    sink = OpenSearchSpec("search", urls, prefix=cluster.spec.prefix, max_retries=5).open()
    assert sink.load_states() == States()
    sink.close()
