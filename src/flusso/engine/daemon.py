"""The process that Spark forks its Python workers from, with flusso's code already loaded.

Spark starts it by name in place of its own (`spark.python.daemon.module`), where flusso owns a local session.
A worker then begins with everything imported, instead of spending half a second of CPU on it. What was
loaded is frozen: the collection that Spark makes after every task has only the task's own objects to
go through.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from pyspark.daemon import manager

TASK_WORKER = "pyspark.worker"
"""The kind of worker that runs tasks. Spark has daemons for other kinds too, each forked from only once."""
# Arrow imports pandas for the first array that it makes of a list. Changes come through the last two.
PRELOADED = (
    TASK_WORKER,
    "flusso.engine.tasks",
    "pandas",
    "flusso.engine.source_reader",
    "pyspark.sql.worker.plan_data_source_read",
)
ALSO_PRELOADED = "FLUSSO_PRELOAD"
"""Names more modules, with commas between: those that the sinks of a deployment need."""
_COLLECT_AFTER = 50_000
"""New objects before the collector looks for cycles among them. A chunk of documents is thousands, none in
one; by default each was looked through again and again, for a tenth of a worker's time."""
# A thread does not survive a fork, and these two libraries start some when Arrow is imported.
WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def preload() -> None:
    """Import what every worker needs, and keep the collector off it."""
    os.environ.update(WITHOUT_THREADS)
    for name in (*PRELOADED, *os.environ.get(ALSO_PRELOADED, "").split(",")):
        if name:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


if __name__ == "__main__":
    if sys.argv[1] == TASK_WORKER:
        preload()
    manager()
