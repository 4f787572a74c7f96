"""Real Postgres servers, one for each major version, and a new database for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from flusso.demo.server import EmbeddedServer, create_server
from flusso.postgres.connect import Connection, Dsn, connect

MAJORS = (16, 18)
_numbers = itertools.count(1)


class Database:
    """A database of its own for one test."""

    def __init__(self, server: EmbeddedServer, name: str) -> None:
        self.server = server
        self.name = name
        self.dsn = Dsn(server.dsn(name))

    def execute(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        """Run statements in a transaction of their own, with an ordinary search path."""
        with psycopg.connect(self.dsn.text) as conn:
            cursor = conn.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def connect(self) -> Connection:
        return connect(self.dsn)


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[int], EmbeddedServer]]:
    """Give the session's server of a major version, started when first asked for."""
    servers: dict[int, EmbeddedServer] = {}

    def find(major: int) -> EmbeddedServer:
        if major not in servers:
            binaries = os.environ.get(f"FLUSSO_TEST_PG{major}_BIN")
            servers[major] = create_server(major, binaries=Path(binaries) if binaries else None)
        return servers[major]

    yield find
    for server in servers.values():
        server.remove()


@pytest.fixture(params=MAJORS, ids=lambda major: f"pg{major}")
def database(
    request: pytest.FixtureRequest, server_of: Callable[[int], EmbeddedServer]
) -> Iterator[Database]:
    """A fresh database, on each supported version in turn."""
    yield from fresh_database(server_of(request.param))


@pytest.fixture
def database18(server_of: Callable[[int], EmbeddedServer]) -> Iterator[Database]:
    """A fresh database on the newest version only, for tests that are slow or not about versions."""
    yield from fresh_database(server_of(18))


@pytest.fixture
def latin_database(server_of: Callable[[int], EmbeddedServer]) -> Iterator[Database]:
    """A fresh database in which a text has other bytes than in UTF-8; a € has one, and there three."""
    yield from fresh_database(server_of(18), "encoding 'LATIN9' locale 'C' template template0")


def fresh_database(server: EmbeddedServer, options: str = "") -> Iterator[Database]:
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} {options}")
    yield Database(server, name)
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where database = %s", (name,)
        )
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        _drop_slots(admin, name)
        admin.execute(f"drop database if exists {name} with (force)")


def _drop_slots(admin: psycopg.Connection[tuple[object, ...]], database: str) -> None:
    """A slot is released a moment after its walsender is told to go."""
    for (slot,) in admin.execute(
        "select slot_name from pg_replication_slots where database = %s", (database,)
    ).fetchall():
        for _ in range(200):
            try:
                admin.execute("select pg_drop_replication_slot(%s)", (slot,))
                break
            except psycopg.errors.ObjectInUse:
                admin.execute("select pg_sleep(0.05)")
