"""What makes a start and an end quick, and would be missed by nobody else if it were gone."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from fix_postgres import Database
from fix_spark import PRELOADED
from flusso.engine.events import CaughtUp, Event
from flusso.engine.java import find_java, keeps_classes
from flusso.engine.pipeline import run_pipeline
from flusso.engine.session import Session
from flusso.engine.spec import BatchSpec
from market import create_market
from pipelines import market_spec, run_once, sqlite_sink

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux says whose child a process is")
def test_python_workers_are_forked_from_the_daemon_that_has_flusso_loaded(spark_session: Session) -> None:
    def name_parent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            parent = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[1]
            words = Path(f"/proc/{parent}/cmdline").read_bytes().decode().split("\0")
            yield pa.record_batch([pa.array([" ".join(words)])], names=["command"])

    rows = spark_session.spark.range(1).mapInArrow(name_parent, "command string").collect()
    assert "flusso.engine.daemon" in rows[0].command


def test_python_workers_read_spark_with_its_bytecode(spark_session: Session) -> None:
    def say_where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.record_batch([pa.array([Path(pyspark.__cached__).exists()])], names=["has_bytecode"])

    [row] = spark_session.spark.range(1).mapInArrow(say_where, "has_bytecode boolean").collect()
    assert row.has_bytecode


def test_python_workers_begin_with_the_modules_that_sinks_need(spark_session: Session) -> None:
    def say_loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        for _ in batches:
            yield pa.record_batch([pa.array([PRELOADED in sys.modules])], names=["is_loaded"])

    [row] = spark_session.spark.range(1).mapInArrow(say_loaded, "is_loaded boolean").collect()
    assert row.is_loaded


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux says what a process has mapped")
@pytest.mark.skipif(not keeps_classes(find_java()), reason="this Java cannot keep classes")
def test_the_jvm_starts_with_the_classes_that_setup_has_kept(spark_session: Session) -> None:
    assert spark_session.jvm is not None
    assert ".jsa" in Path(f"/proc/{spark_session.jvm.pid}/maps").read_text().replace("classes.jsa", "")


def test_catching_up_once_does_not_wait_for_the_tick_of_an_idle_position(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=5)
    spec = market_spec(database18, sqlite_sink(tmp_path), batch=BatchSpec(tick_s=3600.0))
    run_once(spec, spark_session)
    database18.execute("create table elsewhere as select generate_series(1, 1000)")
    events: list[Event] = []
    stop = threading.Event()
    give_up = threading.Timer(60, stop.set)
    give_up.start()
    try:
        run_pipeline(replace(spec, is_once=True), events.append, stop, session=spark_session)
    finally:
        give_up.cancel()
    assert [event for event in events if isinstance(event, CaughtUp)]
