"""What a seed says of itself: how long it took, how fast it goes, how much it has written. No Spark."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.events import Event, SeedAdvanced, SeedFinished, SeedStarted
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.schema.parse import parse_schema
from market import create_market, market_schema
from pipelines import market_spec, sqlite_sink
from turns_here import Seed

pytestmark = pytest.mark.postgres

USERS = 3000
ONE_BLOCK = BatchSpec(seed_range_mb=8192 / 1024 / 1024)
ORDERS = """
version: 1
table: orders
fields:
  - decimal: total
"""


def _two_indexes(database: Database, folder: Path) -> PipelineSpec:
    """Two that are filled one after the other, by one turn at a time."""
    create_market(database, users=USERS)
    sink = sqlite_sink(folder)
    indexes = (
        IndexSpec("users", market_schema(), (sink,)),
        IndexSpec("orders", parse_schema(ORDERS, file="orders.schema.yml"), (sink,)),
    )
    return market_spec(database, sink, indexes=indexes, batch=ONE_BLOCK)


def test_the_time_that_an_index_waits_for_another_one_is_not_its_own(
    database18: Database, tmp_path: Path
) -> None:
    heard: dict[type[Event], list[float]] = {SeedStarted: [], SeedAdvanced: [], SeedFinished: []}
    spec = _two_indexes(database18, tmp_path)
    seed = Seed(spec, lambda event: heard.setdefault(type(event), []).append(time.monotonic()))
    seed.run()
    lasted_s = heard[SeedFinished][-1] - heard[SeedStarted][0]
    finished = seed.of(SeedFinished)
    assert {event.index for event in finished} == {"users", "orders"}
    assert sum(event.seconds for event in finished) <= lasted_s
    last = {event.index: event.seeding.seconds for event in seed.of(SeedAdvanced)}
    assert sum(last.values()) <= lasted_s


def test_a_seed_that_goes_on_adds_the_time_of_earlier_runs(database18: Database, tmp_path: Path) -> None:
    spec = _two_indexes(database18, tmp_path)

    def stop(event: Event) -> None:
        if isinstance(event, SeedAdvanced):
            first.stop()

    first = Seed(spec, stop)
    first.run()
    (advanced,) = first.of(SeedAdvanced)
    second = Seed(spec)
    second.run()
    (finished,) = [event for event in second.of(SeedFinished) if event.index == advanced.index]
    assert finished.seconds > advanced.seeding.seconds > 0
