"""A pipeline that follows all the time, for tests that do something to its database, its server or its sink.

Starting one costs seconds, so a module has one for all its tests: each finds it following and leaves it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from faulty import FaultySpec
from fix_postgres import Database, fresh_database
from flusso.demo.server import EmbeddedServer, create_server
from flusso.engine.events import Recovered, Retrying
from flusso.engine.session import Session
from flusso.engine.spec import PipelineSpec
from flusso.postgres.connect import Dsn
from market import create_market
from pipelines import Run, assert_exact, market_spec, sqlite_sink
from proxy import Proxy, proxied

SENDER_TIMEOUT_S = 2
own_database = contextmanager(fresh_database)


@dataclass(frozen=True, slots=True)
class Stage:
    """A pipeline that follows a database of its own through a proxy, and its sink's folder."""

    run: Run
    database: Database
    proxy: Proxy
    folder: Path

    @property
    def spec(self) -> PipelineSpec:
        return self.run.spec

    def change(self, name: str) -> None:
        """Touch documents in several ways: updates, a removal and its return, a child."""
        self.database.execute(
            f"""
            update users set name = '{name}' where id % 2 = 0;
            delete from users where id = 1;
            update orders set user_id = 1 + (user_id + 7) % 50 where id % 5 = 0
            """
        )
        self.database.execute("insert into users values (1, 'back', 'back@x')")

    def settle(self) -> None:
        """Wait until nothing is left to do; then all is as the rows say."""
        self.run.wait_exact(self.database)
        assert_exact(self.database, self.spec)

    def assert_follows(self, since: int) -> None:
        """All is as the rows say, and the log tells of the outage after that many events."""
        self.settle()
        self.run.wait(
            lambda: [event for event in self.run.events[since:] if isinstance(event, Recovered)],
            what="the word that it is over",
        )
        assert [event for event in self.run.events[since:] if isinstance(event, Retrying)]


@pytest.fixture(scope="module")
def stage_server() -> Iterator[EmbeddedServer]:
    """A server that tests may restart."""
    server = create_server(18, wal_sender_timeout=f"{SENDER_TIMEOUT_S}s", max_prepared_transactions="5")
    yield server
    server.remove()


@pytest.fixture(scope="module")
def stage(
    stage_server: EmbeddedServer, spark_session: Session, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("outages")
    with own_database(stage_server) as database:
        create_market(database, users=50)
        with proxied(stage_server.port) as proxy:
            proxy.refuse()
            with Run(through(proxy, database, folder), spark_session) as run:
                run.wait(lambda: run.of(Retrying), what="the first attempt")
                proxy.accept()
                run.wait_seeded()
                yield Stage(run, database, proxy, folder)


def through(proxy: Proxy, database: Database, folder: Path, **changes: object) -> PipelineSpec:
    """The market's index over the proxy, into a sink that can be made to fail."""
    spec = market_spec(database, FaultySpec(sqlite_sink(folder), str(folder)), **changes)
    return replace(spec, dsn=Dsn(f"{database.dsn.text} port={proxy.port}"))
