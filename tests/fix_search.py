"""Real search servers for the session: those that variables name, or some of our own.

`FLUSSO_TEST_OPENSEARCH_URL` and `FLUSSO_TEST_ELASTICSEARCH_URL` name servers that run already. Each of our
own is started by the first test that asks for it.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator

import pytest

from fix_postgres import Database
from flusso.sinks.search.elasticsearch import ElasticsearchSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from search_place import Place, new_place
from search_proxy import SearchProxy, proxied_search
from search_server import ELASTICSEARCH, OPENSEARCH, Distribution, NoServer, SearchServer, start_server

_KINDS = (OPENSEARCH, ELASTICSEARCH)


@pytest.fixture(scope="session")
def opensearch_url() -> Iterator[str]:
    """Where OpenSearch answers. In CI there has to be one."""
    yield from _served(OPENSEARCH, heap="1g")


@pytest.fixture(scope="session")
def elasticsearch_url() -> Iterator[str]:
    """Where Elasticsearch answers. In CI there has to be one."""
    yield from _served(ELASTICSEARCH, heap="512m")


@pytest.fixture
def restarted_server() -> Iterator[SearchServer]:
    """An OpenSearch of the test's own, to be halted and started again."""
    server = _start(OPENSEARCH, heap="512m")
    yield server
    server.stop()


@pytest.fixture
def search_sink(opensearch_url: str, database18: Database) -> OpenSearchSpec:
    """A sink of the test's own, named after its database."""
    return OpenSearchSpec("search", (opensearch_url,), prefix=f"{database18.name}_", number_of_replicas=0)


@pytest.fixture(params=["opensearch", "elasticsearch"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place for books in each kind of server."""
    kind = OpenSearchSpec if request.param == "opensearch" else ElasticsearchSpec
    made = new_place(kind, request.getfixturevalue(f"{request.param}_url"))
    yield made
    made.clear()


@pytest.fixture
def proxy(place: Place) -> Iterator[SearchProxy]:
    """A proxy in front of it."""
    with proxied_search(place.url) as made:
        yield made


def _served(kind: Distribution, heap: str) -> Iterator[str]:
    given = os.environ.get(_variable(kind))
    if given:
        yield given.rstrip("/")
        return
    server = _start(kind, heap)
    atexit.register(server.stop)
    yield server.url
    server.stop()
    atexit.unregister(server.stop)


def _start(kind: Distribution, heap: str) -> SearchServer:
    try:
        return start_server(kind, heap=heap)
    except NoServer as error:
        if os.environ.get("CI"):
            pytest.fail(f"no {kind.title} in CI: {error}", pytrace=False)
        pytest.skip(f"{_skipped(kind)}{error}")


def _variable(kind: Distribution) -> str:
    return f"FLUSSO_TEST_{kind.name.upper()}_URL"


def _skipped(kind: Distribution) -> str:
    return f"no {kind.title}: "


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once for each server, loudly, what was not tested."""
    reports = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    for kind in _KINDS:
        reasons = [report.partition(_skipped(kind))[2] for report in reports]
        if why := next(filter(None, reasons), "").rstrip("')"):
            line = f"{kind.title.upper()} TESTS WERE SKIPPED: {why} (or set {_variable(kind)})"
            terminalreporter.write_line(line, red=True, bold=True)
