"""A real OpenSearch for the session: the one in `FLUSSO_TEST_OPENSEARCH_URL`, or one of our own."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator

import pytest

from fix_postgres import Database
from flusso.sinks.search.opensearch import OpenSearchSpec
from search_server import NoServer, SearchServer, start_server

_SKIPPED = "no OpenSearch: "


@pytest.fixture(scope="session")
def opensearch_url() -> Iterator[str]:
    """Where a server answers. In CI there has to be one."""
    given = os.environ.get("FLUSSO_TEST_OPENSEARCH_URL")
    if given:
        yield given.rstrip("/")
        return
    server = _start()
    atexit.register(server.stop)
    yield server.url
    server.stop()
    atexit.unregister(server.stop)


@pytest.fixture
def search_sink(opensearch_url: str, database18: Database) -> OpenSearchSpec:
    """A sink of the test's own, named after its database."""
    return OpenSearchSpec("search", (opensearch_url,), prefix=f"{database18.name}_", number_of_replicas=0)


def _start() -> SearchServer:
    try:
        return start_server()
    except NoServer as error:
        if os.environ.get("CI"):
            pytest.fail(f"no OpenSearch in CI: {error}", pytrace=False)
        pytest.skip(f"{_SKIPPED}{error}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once, loudly, what was not tested."""
    for report in terminalreporter.stats.get("skipped", []):
        _, found, why = str(report.longrepr).partition(_SKIPPED)
        if found:
            why = why.rstrip("')")
            line = f"OPENSEARCH TESTS WERE SKIPPED: {why} (or set FLUSSO_TEST_OPENSEARCH_URL)"
            terminalreporter.write_line(line, red=True, bold=True)
            return
