from __future__ import annotations

import pytest

from flusso.engine.session import Session, SparkSpec
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.postgres.connect import Dsn
from flusso.sinks.base import SinkSpec
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec
from market import market_schema

FILE, LINES = SqliteSpec("local", "index.db"), StdoutSpec("out")
DEFAULT = BatchSpec()


def _sizes(*sinks: SinkSpec, batch: BatchSpec = DEFAULT) -> BatchSpec:
    indexes = (IndexSpec("users", market_schema(), sinks),)
    return PipelineSpec(Dsn(""), "s", "p", indexes, SparkSpec(), batch).sizes


def test_documents_that_come_back_to_the_driver_make_batches_and_ranges_small() -> None:
    assert _sizes(FILE) == DEFAULT
    sizes = _sizes(FILE, LINES)
    assert (sizes.max_changes, sizes.max_fan_out, sizes.seed_range_mb) == (5_000, 5_000, 0.25)
    assert sizes.max_bytes == DEFAULT.max_bytes


def test_smaller_sizes_than_those_are_kept() -> None:
    small = BatchSpec(max_changes=7, max_fan_out=8, seed_range_mb=0.1)
    assert _sizes(LINES, batch=small) == small


@pytest.mark.spark
def test_spark_itself_sets_no_limit_to_what_comes_back(spark_session: Session) -> None:
    assert spark_session.spark.sparkContext.getConf().get("spark.driver.maxResultSize") == "0"
