"""Start a Spark that cannot start, then one that dies before anything is followed; print what is raised.

In a process of its own: a process has one Spark.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from flusso.engine import pipeline
from flusso.engine.pipeline import run_pipeline
from flusso.engine.session import SparkSpec, open_session
from flusso.errors import FlussoError
from pipelines import market_spec, named_database, sqlite_sink


def main(dsn: str, folder: str) -> None:
    spec = market_spec(named_database(dsn), sqlite_sink(Path(folder)), slot="dies_early")
    try:
        open_session(SparkSpec("local[2]", {"spark.scheduler.mode": "mad"}))
    except FlussoError as error:
        print(type(error).__name__, error)
    session = open_session(spec.spark)
    is_asked = pipeline.Pipeline._start_heartbeat

    def die(running: pipeline.Pipeline) -> None:
        is_asked(running)
        assert session.jvm is not None
        session.jvm.kill()
        session.jvm.wait()

    pipeline.Pipeline._start_heartbeat = die  # type: ignore[method-assign]
    try:
        run_pipeline(spec, lambda event: print(event, file=sys.stderr), threading.Event(), session=session)
    except FlussoError as error:
        print(type(error).__name__, error)
    finally:
        session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
