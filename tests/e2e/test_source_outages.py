"""A source that goes away while a pipeline of the test's own seeds, follows or is asked to stop.

Apart from `test_under_stress.py`: a pipeline that ends closes all that its process has open, and there the
stage's is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fix_postgres import Database
from fix_stage import own_database, through
from flusso.demo.server import EmbeddedServer
from flusso.engine.events import Retrying, SeedAdvanced, Stopped
from flusso.engine.policy import Patience
from flusso.engine.session import Session
from flusso.engine.spec import BatchSpec
from flusso.errors import SourceUnavailable
from market import create_market
from pipelines import Run, assert_exact
from proxy import Proxy, proxied
from waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

Source = tuple[Database, Proxy]


@pytest.fixture
def source(stage_server: EmbeddedServer) -> Iterator[Source]:
    """A database of the test's own, and what is between it and the pipeline."""
    with own_database(stage_server) as database, proxied(stage_server.port) as proxy:
        yield database, proxy


def test_connections_cut_while_seeding_leave_an_exact_index(
    source: Source, spark_session: Session, tmp_path: Path
) -> None:
    database, proxy = source
    create_market(database, users=3000)

    def cut(event: object) -> None:
        if isinstance(event, SeedAdvanced) and event.seeding.share < 1 and proxy.cuts < 12:
            proxy.cut()

    # Ranges of a block: a first turn does not take them all.
    batch = BatchSpec(seed_range_mb=8192 / 2**20, confirm_after_s=0.1, tick_s=0.3)
    with Run(through(proxy, database, tmp_path, batch=batch), spark_session, cut) as run:
        run.wait_seeded()
        assert proxy.cuts
        database.execute("update users set name = 'later' where id = 7")
        run.wait_confirmed(database)
    assert_exact(database, run.spec)


def test_a_server_that_stays_away_ends_the_run_with_code_3_in_the_end(
    source: Source, spark_session: Session, tmp_path: Path
) -> None:
    database, proxy = source
    create_market(database, users=5)
    run = Run(through(proxy, database, tmp_path, patience=Patience(source_s=1.0)), spark_session)
    with suppress(SourceUnavailable), run:
        run.wait_seeded()
        proxy.refuse()
        wait_until(lambda: run.error, what="the end")
    assert isinstance(run.error, SourceUnavailable)
    assert run.error.exit_code == 3
    assert run.of(Retrying)


def test_a_stop_while_the_server_is_away_ends_in_order(
    source: Source, spark_session: Session, tmp_path: Path
) -> None:
    database, proxy = source
    create_market(database, users=5)
    with Run(through(proxy, database, tmp_path), spark_session) as run:
        run.wait_seeded()
        proxy.refuse()
        run.wait(lambda: run.of(Retrying), what="the first attempt")
    assert [event.is_settled for event in run.of(Stopped)] == [False]
