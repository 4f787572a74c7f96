"""Keep the classes that Spark loads ready for the JVM: with them a session starts in about half the time.

`python -m flusso.engine.archive` runs a small query once and lets the JVM write down, at its exit, what it
has loaded. The file lies in the environment that it belongs to (`java.class_archive`), and every session of
ours offers it to its JVM. It is only an offer: a JVM checks that Java and all jars are those of the file, and
does without it where they are not.
"""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from flusso.engine.java import QUICK_COMPILER, class_archive, find_java, keeps_classes
from flusso.engine.session import Session, SparkSpec, open_session
from flusso.errors import FlussoError

_EXIT_S = 120.0
"""Writing the file is the last thing that the JVM does."""
_BATCHES = 3
_BATCH_S = 30.0


def make_archive() -> Path | None:
    """Make the archive unless it is there; None where this Java cannot make one."""
    java = find_java()
    archive = class_archive(java)
    if archive.exists():
        return archive
    if not keeps_classes(java):
        return None
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(".partial")
    options = f"{QUICK_COMPILER} {shlex.quote(f'-XX:ArchiveClassesAtExit={partial}')}"
    conf = {"spark.driver.extraJavaOptions": options}
    session = open_session(SparkSpec("local[2]", conf))
    session.exit_s = _EXIT_S
    try:
        _warm_up(session)
    finally:
        session.close()
    partial.replace(archive)
    return archive


def _warm_up(session: Session) -> None:
    """Run what a pipeline runs: a stream in small batches, Python tasks, a shuffle."""
    changes = session.spark.readStream.format("rate").option("rowsPerSecond", "10").load()
    done = threading.Semaphore(0)

    def count(batch: DataFrame, _: int) -> None:
        batch.select("value").repartition(2).mapInArrow(_same, "value long").distinct().collect()
        done.release()

    query = (
        changes.writeStream.foreachBatch(count)
        .trigger(processingTime="50 milliseconds")
        .option("checkpointLocation", (session.scratch / "checkpoint").as_uri())
        .start()
    )
    # Not `processAllAvailable`: it never ends when rows come faster than batches.
    for _ in range(_BATCHES):
        done.acquire(timeout=_BATCH_S)
    query.stop()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    try:
        made = make_archive()
    except FlussoError as error:
        sys.exit(f"error: {error}")
    print(f"classes for quick starts: {made.name if made else 'this Java keeps none'}")
