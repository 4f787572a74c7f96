"""Slots that others drop under a running pipeline, and databases that are put back: noticed, and mended."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.demo.server import EmbeddedServer, create_server
from flusso.engine.events import BatchWritten, ReadersMoved, Reseeding
from flusso.engine.session import Session
from flusso.errors import SlotMissing, SourceWentBack
from market import create_market
from pipelines import Run, assert_exact, market_spec, run_once, sqlite_sink
from slots import drop_under_its_reader
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def test_a_slot_dropped_under_a_running_pipeline_is_reseeded_or_ends_it(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    spec = market_spec(database18, sqlite_sink(tmp_path), reseeds=True)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        drop_under_its_reader(database18, spec.slot)
        database18.execute("delete from users where id = 3; update users set name = 'lost' where id = 4")
        run.wait(lambda: run.of(Reseeding), what="the loss to be noticed")
        run.wait(lambda: len(run.of(ReadersMoved)) == 2, what="readers of the second seed")
        database18.execute("update users set name = 'followed' where id = 5")
        run.wait_confirmed(database18)
    assert_exact(database18, spec)
    with Run(replace(spec, reseeds=False), spark_session) as run:
        database18.execute("update users set name = 'followed again' where id = 5")
        run.wait(lambda: run.of(BatchWritten), what="the pipeline to follow")
        drop_under_its_reader(database18, spec.slot)
        wait_until(lambda: run.error, what="the pipeline to end")
        assert isinstance(run.error, SlotMissing)
        run.error = None


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    server = create_server(18)
    yield server
    server.remove()


def test_a_data_directory_that_was_put_back_is_noticed_and_reseeded_from(
    own_server: EmbeddedServer, spark_session: Session, tmp_path: Path
) -> None:
    database = Database(own_server, "postgres")
    create_market(database, users=20)
    spec = market_spec(database, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    own_server.stop()
    copy = own_server.folder / "copy-of-data"
    subprocess.run(["cp", "-a", own_server.data, copy], check=True)  # owners too
    own_server.start()
    database.execute("update users set name = 'of the future'; insert into users values (99, 'new')")
    run_once(spec, spark_session)
    _put_back(own_server, copy)
    with pytest.raises(SourceWentBack, match="on_slot_lost"):
        run_once(spec, spark_session)
    events = run_once(replace(spec, reseeds=True), spark_session)
    assert [event.index for event in events if isinstance(event, Reseeding)] == ["users"]
    assert_exact(database, spec)


def _put_back(server: EmbeddedServer, copy: Path) -> None:
    server.stop()
    shutil.rmtree(server.data)
    copy.rename(server.data)
    server.start()
