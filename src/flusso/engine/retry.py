"""Run something on executors, and again while what fails may heal.

Shared by the batches of the stream and the turns of a seed. Nothing typed crosses from a task that Spark
itself gives up: what is found in its text, or else `TaskLost`, takes its place.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from flusso.engine.outage import Outage
from flusso.errors import EngineError, FlussoError, TaskLost, from_text

T = TypeVar("T")
_CAUSE = re.compile(r"(Caused by: )?[\w.]*(Error|Exception|Lost)\b.*")


def retrying(attempt: Callable[[], T], outage: Outage) -> T:
    """Give what an attempt gives; raise when it cannot heal, when patience is at its end or on a stop."""
    while True:
        try:
            return attempt()
        except FlussoError as error:
            if not outage.wait(error):
                raise


def collect(frame: DataFrame) -> list[Any]:
    """Run the tasks of a frame and gather what they report."""
    try:
        rows: list[Any] = frame.collect()
    except Exception as error:
        raise as_typed(error) from error
    return [pickle.loads(row.report) for row in rows]


def as_failure(error: Exception, what: str) -> FlussoError:
    """Give what ends a run, whatever ended one of its threads: one that nobody foresaw gets its place."""
    if isinstance(error, FlussoError):
        return error
    failure = EngineError(f"{what} failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def as_typed(error: Exception) -> FlussoError:
    """Find the typed error in what Spark raised; without one, a process was lost on the way."""
    text = str(error)
    causes = [line.strip() for line in text.splitlines() if _CAUSE.match(line.strip())]
    return from_text(text) or TaskLost(f"Spark lost a task: {causes[-1] if causes else type(error).__name__}")
