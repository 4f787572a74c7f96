"""The Spark source on its own, as tests use it: options, queries into Parquet, and what landed there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from fix_postgres import Database
from flusso.engine.standalone.options import parse_options
from flusso.errors import FlussoError, from_text
from waiting import wait_until

FORMAT = "flusso-postgres"


def options_of(database: Database, tables: str, **more: str) -> dict[str, str]:
    """A slot of the test's own, and a quick confirm."""
    return {
        "url": database.dsn.text,
        "tables": tables,
        "slot": f"spark_{database.name}",
        "advanceSeconds": "1",
        **more,
    }


def stream_of(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.readStream.format(FORMAT).options(**options).load()


class Lake:
    """A folder that a query writes Parquet to, with its checkpoint; it outlives the query."""

    def __init__(self, spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
        self.spark = spark
        self.options = options
        self.rows_at = folder / "rows"
        self.checkpoint = folder / "checkpoint"
        self._schema: Any = None

    def begin(self) -> None:
        """Let changes be kept from now on, as a first start would."""
        parse_options({name.lower(): value for name, value in self.options.items()}).capture.begin()

    def start(self, **trigger: Any) -> Any:
        """Start, or go on with, the query."""
        stream = stream_of(self.spark, self.options)
        self._schema = stream.schema
        return (
            stream.writeStream.format("parquet")
            .option("path", self.rows_at.as_uri())
            .option("checkpointLocation", self.checkpoint.as_uri())
            .trigger(**(trigger or {"processingTime": "50 milliseconds"}))
            .start()
        )

    @contextmanager
    def running(self, **trigger: Any) -> Iterator[Any]:
        query = self.start(**trigger)
        try:
            yield query
        finally:
            query.stop()

    def catch_up(self) -> None:
        """Run until all that is there now has landed; raise what ended it otherwise."""
        with self.running(availableNow=True) as query:
            assert query.awaitTermination(120), "the query did not end by itself"

    def rows(self) -> list[Any]:
        """Everything that landed, in stream order."""
        if not (self.rows_at / "_spark_metadata").exists():
            return []
        frame = self.spark.read.schema(self._schema).parquet(self.rows_at.as_uri())
        return list(frame.orderBy("commit_lsn", "ordinal", "key").collect())

    def wait(self, count: int, query: Any) -> list[Any]:
        """Wait until so many rows have landed."""

        def look() -> list[Any]:
            if not query.isActive:
                raise query.exception() or AssertionError("the query ended")
            found = self.rows()
            return found if len(found) >= count else []

        return wait_until(look, what=f"{count} rows")


class Batches:
    """Batches that a query hands over, in place of a sink; it can be told to break."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.seen: list[tuple[int, list[Any]]] = []
        """Number and rows of every batch that has rows, failed ones too."""
        self.is_broken = False

    def _keep(self, frame: DataFrame, number: int) -> None:
        rows = frame.collect()
        if rows:
            self.seen.append((number, sorted(rows, key=lambda row: (row.commit_lsn, row.ordinal))))
        if rows and self.is_broken:
            raise RuntimeError("the sink broke")

    def catch_up(self, options: dict[str, str]) -> bool:
        """Run until all that is there now was handed over; False if it broke."""
        query = (
            stream_of(self.spark, options)
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", self.checkpoint.as_uri())
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120), "the query did not end by itself"
        except StreamingQueryException as error:
            if "the sink broke" not in str(error):
                raise
            return False
        return True


def brief(row: Any) -> tuple[Any, ...]:
    """Operation, and both images as values."""
    return (row.operation, *(None if each is None else json.loads(each) for each in (row.before, row.after)))


def error_of(error: BaseException) -> FlussoError:
    """The typed error in what Spark raised."""
    found = from_text(str(error))
    assert found is not None, error
    return found
