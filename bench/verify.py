"""How long it takes to verify an index, beside filling it: every document is built again and read back.

The index is filled and verified by two processes, one after the other, with nobody following and nothing to
find. Of both only their own work counts, as they tell it; the processes' starts are told beside it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from bench.flusso import call_flusso
from bench.report import Row, thousands
from bench.stage import Stage, drop_slot

_PREFIX = "verified_"


def measure(stage: Stage) -> Iterator[Row]:
    """Fill an index, verify all of it and a sample of it, and compare the rates."""
    names = ("--slot", _PREFIX, "--index-prefix", _PREFIX)
    seeding = stage.start("--once", *names)
    try:
        seeding.wait_until(lambda: seeding.process.poll() is not None, "the seed to end", timeout_s=3600)
    finally:
        seeding.stop()
    seeded = seeding.fields("seed finished")[-1]
    seed_s = seeding.seconds_between("seed started", "readers moved")
    seed_rate = int(seeded["documents"]) / seed_s
    whole, whole_s = _verify(stage, *names)
    _, sample_s = _verify(stage, *names, "--sample", "1000")
    stage.search.delete(f"{_PREFIX}*")
    with stage.connect() as conn:
        drop_slot(conn, _PREFIX)
    rate = whole["rows"] / whole["seconds"]
    yield Row(
        f"verify of {whole['rows']:,} documents ÷ seed of the same",
        f"{rate / seed_rate:.2f} ({thousands(rate)} documents/s)",
        detail=f"{whole['seconds']:.1f} s, both ways, beside {seed_s:.1f} s of the seed; "
        f"the process took {whole_s:.0f} s in all, with a sample of 1,000 rows {sample_s:.0f} s",
    )


def _verify(stage: Stage, *arguments: str) -> tuple[dict[str, float], float]:
    """Give the facts of the index, and how long the process took."""
    started_s = time.perf_counter()
    text = call_flusso(
        stage.folder, {"DATABASE_URL": stage.dsn.text}, "verify", "--format", "json", *arguments
    )
    (index,) = json.loads(text)["indexes"]
    return index, time.perf_counter() - started_s
