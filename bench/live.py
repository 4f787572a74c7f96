"""How soon a commit is searchable: one large transaction, single rows, and single rows during a seed.

"Searchable" is what a term query on the readers' alias finds. The clock starts when the commit has
returned. Asking every few milliseconds is part of what is measured, and costs little.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import count
from statistics import median

from bench.flusso import Pipeline
from bench.report import Row, percentile, thousands
from bench.stage import INDEX, SECOND_INDEX, Stage
from flusso.postgres.connect import Connection

_POLL_S = 0.004
_PATIENCE_S = 300.0
_TRANSACTION_AIM = 8_000
_P50_AIM_S, _P95_AIM_S = 0.15, 0.3
_SEEDING_AIM_S = 1.0

_marks = count(1)
_random = random.Random(1)


def measure(stage: Stage) -> Iterator[Row]:
    """Measure a large transaction and single rows on a flusso that is warm and idle."""
    pipeline = stage.following()
    with stage.connect() as conn:
        warm_up(stage, pipeline, conn)
        rates = [change_transaction(stage, pipeline, conn) for _ in range(stage.sizes.transactions)]
        yield Row(
            f"one transaction of {stage.sizes.transaction:,} updates, all searchable",
            f"{thousands(median(rates))} documents/s",
            f"≥ {_TRANSACTION_AIM // 1000} k",
            median(rates) >= _TRANSACTION_AIM,
            f"median of {', '.join(map(thousands, rates))}",
        )
        warm_up(stage, pipeline, conn)
        before = len(pipeline.fields("batch written"))
        waits = [change_one(stage, pipeline, conn, pause_s=(0.2, 0.6)) for _ in range(stage.sizes.samples)]
        batches = pipeline.fields("batch written")[before:]
        inside = percentile([float(batch["seconds"]) for batch in batches], 50)
        met = percentile(waits, 50) <= _P50_AIM_S and percentile(waits, 95) <= _P95_AIM_S
        yield Row(
            "commit to searchable, one row, warm and idle",
            spread(waits),
            f"p50 ≤ {_P50_AIM_S} s, p95 ≤ {_P95_AIM_S} s",
            met,
            f"{len(waits)} rows, 0.2–0.6 s apart; of it p50 {inside:.3f} s inside the batch",
        )


def measure_seeding(stage: Stage) -> Iterator[Row]:
    """Measure single rows of one index while another one of the same rows is being filled."""
    stage.following()
    stage.stop_following()
    pipeline = stage.start(indexes=(INDEX, SECOND_INDEX))
    waits: list[float] = []
    try:
        pipeline.wait_for("seed started")
        with stage.connect() as conn:
            while not pipeline.fields("seed finished"):
                waits.append(change_one(stage, pipeline, conn, pause_s=(0.05, 0.2)))
        seconds = float(pipeline.fields("seed finished")[-1]["seconds"])
    finally:
        pipeline.stop()
    yield Row(
        "commit to searchable, one row, during a seed",
        spread(waits),
        f"p95 ≤ {_SEEDING_AIM_S:g} s",
        percentile(waits, 95) <= _SEEDING_AIM_S,
        f"{len(waits)} rows in the {seconds:.0f} s of the seed, just after a restart; "
        f"the first took {waits[0]:.2f} s",
    )


def warm_up(stage: Stage, pipeline: Pipeline, conn: Connection) -> None:
    """Make some changes that do not count."""
    for _ in range(stage.sizes.warm_up):
        change_one(stage, pipeline, conn, pause_s=(0.0, 0.05))


def change_one(
    stage: Stage, pipeline: Pipeline, conn: Connection, *, pause_s: tuple[float, float] = (0.0, 0.0)
) -> float:
    """Update one user after a pause; give the seconds from commit until a search finds it."""
    time.sleep(_random.uniform(*pause_s))
    mark = f"one{next(_marks)}"
    user = _random.randint(1, stage.sizes.users)
    conn.execute("update users set mark = %s where id = %s", (mark, user))
    return until(pipeline, lambda: stage.search.find(INDEX, mark) == 1, _POLL_S)


def change_transaction(stage: Stage, pipeline: Pipeline, conn: Connection) -> float:
    """Update many users at once; give how many of them became searchable in a second."""
    mark, size = f"many{next(_marks)}", stage.sizes.transaction
    conn.execute("update users set mark = %s where id <= %s", (mark, size))
    seconds = until(pipeline, lambda: stage.search.find(INDEX, mark) == size, 0.02)
    conn.execute("vacuum users")
    return size / seconds


def spread(waits: list[float]) -> str:
    """Write waits as percentiles."""
    return ", ".join(f"p{percent} {percentile(waits, percent):.3f} s" for percent in (50, 95, 99))


def until(pipeline: Pipeline, condition: Callable[[], bool], poll_s: float) -> float:
    """Give the seconds until a condition holds, asking every so often."""
    started_s = time.perf_counter()
    while not condition():
        waited_s = time.perf_counter() - started_s
        if waited_s > _PATIENCE_S or pipeline.process.poll() is not None:
            raise RuntimeError(f"a change did not become searchable: {pipeline.log()[-2000:]}")
        time.sleep(poll_s)
    return time.perf_counter() - started_s
