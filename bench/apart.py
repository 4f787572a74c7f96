"""Keep the search server on cores of its own for a while, as if it were on a machine of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.stage import Stage


def has_cores() -> bool:
    """Whether there is more than one core to share out, and a way to do it."""
    return hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1


@contextlib.contextmanager
def search_apart(stage: Stage) -> Iterator[None]:
    """Give the search server half of the cores, and the rest to Postgres, to us and to what we start."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    server, rest = stage.search.process_id(), [os.getpid(), stage.postgres_pid()]
    _hold(rest, cores[half:])
    _hold([server], cores[:half])  # after the others: we may have started it, and it was held as our child
    try:
        yield
    finally:
        _hold([server, *rest], cores)


def _hold(pids: list[int], cores: list[int]) -> None:
    """Hold processes, their children and every thread of theirs to some cores; what they start too."""
    for pid in pids:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(FileNotFoundError):
                for thread in Path(f"/proc/{each.pid}/task").iterdir():
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setaffinity(int(thread.name), cores)
