"""How both kinds of search server are reached: credentials, TLS, several nodes.

A proxy asks for what their smallest builds cannot.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import itertools
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from flusso.document import Write
from flusso.errors import SinkRefused, SinkUnavailable
from flusso.sinks.search import server as server_module
from search_place import BOOK, SCHEMA, TARGET, Place
from search_proxy import Asked, Forward, Given, SearchProxy, guarded, proxied_search
from tls_server import create_authority

pytestmark = pytest.mark.opensearch


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


BASIC = "Basic " + base64.b64encode(b"me:p\xc3\xa4ss").decode()
CREDENTIALS: dict[str, tuple[str, dict[str, str]]] = {
    "basic": (BASIC, {"username": "me", "password": "päss"}),
    "api key": ("ApiKey a2V5", {"api_key": "a2V5"}),
}


@pytest.mark.parametrize("how", CREDENTIALS)
def test_credentials_are_sent_with_every_request(place: Place, proxy: SearchProxy, how: str) -> None:
    expected, given = CREDENTIALS[how]
    proxy.rule = guarded(expected)
    assert place.written(place.spec(proxy.url, **given))


def test_wrong_credentials_are_refused_at_once_with_a_hint(place: Place, proxy: SearchProxy) -> None:
    proxy.rule = guarded(BASIC)
    spec = place.spec(proxy.url, username="me", password="wrong", max_retries=5)
    with pytest.raises(SinkRefused, match="check its username, password or api_key") as caught:
        place.written(spec)
    assert "wrong" not in str(caught.value)
    assert len(proxy.asked) == 1


def test_a_server_of_an_own_authority_is_trusted_by_its_file_alone(place: Place, tmp_path: Path) -> None:
    authority = create_authority(tmp_path, "authority")
    with proxied_search(place.url, authority.sign(tmp_path, "search", "localhost")) as proxy:
        assert place.written(place.spec(proxy.url, ca=str(authority.file)))
        with pytest.raises(SinkRefused, match="no certificate that can be trusted"):
            place.written(place.spec(proxy.url, max_retries=3))
        assert place.written(place.spec(proxy.url, tls_verify=False))


def test_a_certificate_of_another_host_is_not_trusted(place: Place, tmp_path: Path) -> None:
    authority = create_authority(tmp_path, "authority")
    with proxied_search(place.url, authority.sign(tmp_path, "search", "elsewhere.test")) as proxy:
        with pytest.raises(SinkRefused, match="no certificate that can be trusted"):
            place.written(place.spec(proxy.url, ca=str(authority.file)))


def test_a_server_that_ends_in_the_middle_of_a_handshake_is_unavailable(place: Place, tmp_path: Path) -> None:
    authority = create_authority(tmp_path, "authority")
    with proxied_search(place.url, authority.sign(tmp_path, "search", "localhost")) as proxy:
        proxy.cut_handshakes(1)
        with pytest.raises(SinkUnavailable, match="is not reachable over TLS"):
            place.written(place.spec(proxy.url, ca=str(authority.file)))


def test_a_server_that_is_restarted_behind_tls_is_asked_again(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_FIRST_WAIT_S", 0.01)
    authority = create_authority(tmp_path, "authority")
    left = itertools.count(2, -1)
    with proxied_search(place.url, authority.sign(tmp_path, "search", "localhost")) as proxy:
        proxy.cut_handshakes(3)
        proxy.rule = lambda asked, forward: None if next(left) > 0 else forward(asked)
        assert place.written(place.spec(proxy.url, ca=str(authority.file), max_retries=6))


@pytest.mark.parametrize("is_on", [True, False])
def test_requests_are_compressed_unless_told_otherwise(
    place: Place, proxy: SearchProxy, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    monkeypatch.setattr("flusso.sinks.search.connection._is_here", lambda url: False)
    assert place.written(place.spec(proxy.url, compress=is_on))
    (bulk,) = [asked for asked in proxy.asked if asked.is_bulk]
    asked_for = "gzip" in bulk.headers.get("accept-encoding", "")
    assert (bulk.headers.get("content-encoding"), asked_for) == (("gzip", True) if is_on else (None, False))
    assert (BOOK.body or b"") in (gzip.decompress(bulk.body) if is_on else bulk.body)


def test_nothing_is_compressed_on_the_way_to_this_machine_and_back(place: Place, proxy: SearchProxy) -> None:
    assert place.written(place.spec(proxy.url, compress=True))
    (bulk,) = [asked for asked in proxy.asked if asked.is_bulk]
    assert "content-encoding" not in bulk.headers
    assert "gzip" not in bulk.headers.get("accept-encoding", "")


@pytest.fixture
def pipeline(place: Place) -> Iterator[str]:
    """An ingest pipeline. The smallest builds have no processors: it changes and counts nothing."""
    name = f"{place.prefix}clean"
    place.ask("PUT", f"/_ingest/pipeline/{name}", {"processors": []})
    yield name
    with contextlib.suppress(SinkRefused):  # gone already
        place.ask("DELETE", f"/_ingest/pipeline/{name}")


def test_documents_go_through_the_ingest_pipeline_and_nothing_else_does(
    place: Place, proxy: SearchProxy, pipeline: str
) -> None:
    """That the server looks at the name is seen below: it refuses one that it does not know."""
    sink = place.spec(proxy.url, pipeline=pipeline).open()
    filled = replace(TARGET, keeps_references=True, keeps_removals=True)
    sink.ensure(filled, SCHEMA)
    result = sink.write(filled, [BOOK._replace(tokens=b'["a"]'), Write("gone", 5, None)], refresh=True)
    queries = [parse_qs(urlsplit(asked.path).query) for asked in proxy.asked if asked.is_bulk]
    assert (result.written, result.removed) == (1, 1)
    assert [query.get("pipeline") for query in queries] == [[pipeline], ["_none"], None]
    assert list(sink.ids(filled)) == ["1"]
    sink.close()


def test_an_ingest_pipeline_that_is_not_there_is_told_at_the_start(place: Place) -> None:
    sink = place.spec(pipeline="absent").open()
    with pytest.raises(SinkRefused, match='sink "search" has no ingest pipeline "absent": make the pipeline'):
        sink.ensure(TARGET, SCHEMA)
    sink.close()


def test_an_ingest_pipeline_that_goes_away_refuses_the_request_and_no_document(
    place: Place, pipeline: str
) -> None:
    sink = place.spec(pipeline=pipeline).open()
    sink.ensure(TARGET, SCHEMA)
    place.ask("DELETE", f"/_ingest/pipeline/{pipeline}")
    with pytest.raises(SinkRefused, match='index "books": the ingest pipeline is not there'):
        sink.write(TARGET, [BOOK], refresh=False)
    sink.close()


def test_who_may_not_ask_for_the_ingest_pipeline_may_still_write_through_it(
    place: Place, proxy: SearchProxy, pipeline: str
) -> None:
    def rule(asked: Asked, forward: Forward) -> Given:
        return (
            Given(403, b'{"error":{"type":"security_exception"}}')
            if "_ingest" in asked.path
            else forward(asked)
        )

    proxy.rule = rule
    assert place.written(place.spec(proxy.url, pipeline=pipeline))


def test_of_several_nodes_one_that_is_down_does_no_harm(place: Place, proxy: SearchProxy) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    for urls in ((down, place.url, proxy.url), (place.url, down), (down, proxy.url)):
        assert place.written(place.spec(*urls, max_retries=3))


def test_a_node_that_goes_away_meanwhile_is_avoided(place: Place) -> None:
    with proxied_search(place.url) as first:
        sink = place.spec(first.url, place.url, max_retries=3).open()
        sink.ensure(TARGET, SCHEMA)
    for version in range(6, 16):
        assert sink.write(TARGET, [BOOK._replace(version=version)], refresh=False).written == 1
    sink.close()


def test_all_nodes_down_is_unavailable(place: Place) -> None:
    urls = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(SinkUnavailable, match='sink "search" is not reachable'):
        place.written(place.spec(*urls))


def test_something_else_that_answers_is_not_taken_for_the_server(proxy: SearchProxy, place: Place) -> None:
    """A page of some other program is no answer; nothing of it is taken for one."""
    proxy.rule = lambda asked, forward: Given(200, b"<html>hello", {"Content-Type": "text/html"})
    with pytest.raises((SinkRefused, SinkUnavailable)):
        place.written(place.spec(proxy.url))
