"""How much memory one very large transaction needs, by process: the source worker's has to stay bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psutil

from bench.flusso import ROLES, Pipeline
from bench.report import Row, thousands
from bench.stage import SLOT, Stage
from flusso.postgres.connect import Connection

_SAMPLE_S = 0.25
_AIM_MB = 500
_PATIENCE_S = 3600.0


class Watch:
    """Looks at the processes now and then while the block runs; keeps the highest of each role."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.peaks_mb = dict.fromkeys(ROLES, 0.0)
        self.largest_mb = dict.fromkeys(ROLES, 0.0)
        self._pipeline = pipeline
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            for role, processes in self._pipeline.by_role().items():
                sizes = [_resident_mb(process) for process in processes]
                self.peaks_mb[role] = max(self.peaks_mb[role], sum(sizes))
                self.largest_mb[role] = max(self.largest_mb[role], *sizes, 0.0)


def measure(stage: Stage) -> Iterator[Row]:
    """Change many orders in one transaction and watch a fresh flusso digest it."""
    stage.stop_following()
    pipeline = stage.following()
    with stage.connect() as conn, Watch(pipeline) as watch:
        end = _change_many(stage, conn)
        started_s = time.monotonic()
        pipeline.wait_until(lambda: _is_confirmed(conn, end), "the transaction", _PATIENCE_S)
        seconds = time.monotonic() - started_s
    peak = watch.peaks_mb["source worker"]
    others = [f"{role} {mb:.0f} MB" for role, mb in watch.peaks_mb.items() if role != "source worker"]
    largest = watch.largest_mb["Python workers"]
    yield Row(
        f"peak memory of the source worker, transaction of {stage.sizes.changes:,} changes",
        f"{peak:.0f} MB",
        f"≤ {_AIM_MB} MB",
        peak <= _AIM_MB,
        f"{', '.join(others)} (resident, what they share counted in each; the largest Python worker "
        f"{largest:.0f} MB); confirmed {seconds:.0f} s after the commit, "
        f"{thousands(stage.sizes.changes / seconds)} changes/s",
    )


def _change_many(stage: Stage, conn: Connection) -> str:
    """Update orders, over and over in one transaction; give where the WAL ends then."""
    orders, left = 3 * stage.sizes.users, stage.sizes.changes
    with conn.transaction():
        while left > 0:
            conn.execute("update orders set total = total + 0.01 where id <= %s", (left,))
            left -= min(orders, left)
    row = conn.execute("select pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def _is_confirmed(conn: Connection, end: str) -> bool:
    time.sleep(0.2)
    row = conn.execute(
        "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s", (end, SLOT)
    ).fetchone()
    return bool(row and row[0])


def _resident_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0
