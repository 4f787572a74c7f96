"""A publication that goes away under a running pipeline: noticed on every version, and mended by a reseed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.events import ReadersMoved, Reseeding
from flusso.engine.session import Session
from flusso.errors import CoverageGap
from market import create_market
from pipelines import Run, assert_exact, market_spec, sqlite_sink
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_a_publication_that_goes_away_while_running_leads_to_a_reseed(
    database: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database, users=20)
    spec = market_spec(database, sqlite_sink(tmp_path), reseeds=True, look_s=0.5)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        database.execute("drop publication flusso")
        database.execute("update users set name = 'unheard' where id = 3")
        run.wait(lambda: len(run.of(ReadersMoved)) > 1, what="readers of the second seed")
        database.execute("update users set name = 'heard' where id = 4")
        run.wait_confirmed(database)
    assert [event.index for event in run.of(Reseeding)] == ["users"]
    assert_exact(database, spec)


def test_a_table_that_is_taken_out_while_running_ends_with_the_index_and_its_remedy(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=5)
    with Run(market_spec(database18, sqlite_sink(tmp_path), look_s=0.5), spark_session) as run:
        run.wait_seeded()
        database18.execute("alter publication flusso drop table items")
        error, run.error = wait_until(lambda: run.error, what="the end"), None
    assert isinstance(error, CoverageGap)
    assert "public.items" in error.message
    assert str(error.hint).startswith("run flusso reindex users")
