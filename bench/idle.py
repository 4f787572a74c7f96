"""What flusso costs while nothing happens, and how soon it is there again when something does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psutil

from bench.flusso import Pipeline
from bench.live import change_one, warm_up
from bench.report import Row
from bench.stage import Stage

_SETTLE_S = 5.0
_AIM_CORES = 0.05


def measure(stage: Stage) -> Iterator[Row]:
    """Stay idle for some minutes, take the CPU time, and make one change after each wait."""
    pipeline = stage.following()
    used: list[dict[str, float]] = []
    waits: list[float] = []
    with stage.connect() as conn:
        warm_up(stage, pipeline, conn)
        for _ in range(stage.sizes.idles):
            time.sleep(_SETTLE_S)  # the last change is still to be confirmed
            used.append(_idle(pipeline, stage.sizes.idle_s))
            waits.append(change_one(stage, pipeline, conn))
    cores = sum(sum(each.values()) for each in used) / len(used)
    by_role = {role: sum(each[role] for each in used) / len(used) for role in used[0]}
    yield Row(
        f"commit to searchable, one row, after {stage.sizes.idle_s:.0f} idle seconds",
        f"{max(waits):.3f} s at worst",
        detail=", ".join(f"{wait:.3f} s" for wait in waits),
    )
    yield Row(
        "CPU while idle",
        f"{cores:.3f} core",
        f"≤ {_AIM_CORES}",
        cores <= _AIM_CORES,
        f"mean of {len(used)} × {stage.sizes.idle_s:.0f} s; "
        + ", ".join(f"{role} {value:.3f}" for role, value in by_role.items()),
    )


def _idle(pipeline: Pipeline, seconds: float) -> dict[str, float]:
    """Wait, and give the cores used by each kind of process."""
    started_s, before = time.monotonic(), cpu_seconds(pipeline)
    time.sleep(seconds)
    waited_s, after = time.monotonic() - started_s, cpu_seconds(pipeline)
    return {role: (after[role] - before[role]) / waited_s for role in after}


def cpu_seconds(pipeline: Pipeline) -> dict[str, float]:
    """Give what each kind of process has used so far."""
    return {
        role: sum(cpu_of(process) for process in processes) for role, processes in pipeline.by_role().items()
    }


def cpu_of(process: psutil.Process) -> float:
    """What a process used, with what its children had used when they ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
