"""Property tests here have no deadline: a busy machine is not a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from published import Place

from fix_postgres import MAJORS, Database, fresh_database
from flusso.demo.server import EmbeddedServer, create_server

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="module", params=MAJORS, ids=lambda major: f"pg{major}")
def shared_database(
    request: pytest.FixtureRequest, server_of: Callable[[int], EmbeddedServer]
) -> Iterator[Database]:
    yield from fresh_database(server_of(request.param))


@pytest.fixture
def place(shared_database: Database) -> Iterator[Place]:
    made = Place(shared_database)
    yield made
    made.execute("drop publication if exists {here}")


@pytest.fixture(scope="session", params=MAJORS, ids=lambda major: f"pg{major}")
def own_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server for settings that would hold up every other test."""
    server = create_server(request.param, max_prepared_transactions="5")
    yield server
    server.remove()
