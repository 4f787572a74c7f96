"""How fast changes are captured, beside `pg_recvlogical` on the same slot and WAL.

Both turns start from a fresh copy of one slot, which makes the server decode the very same WAL: reading
moves a slot on. flusso's stream runs in a process of its own, as its source worker does, and is asked as
often as Spark asks; it confirms what it gives. `pg_recvlogical` throws away what it gets. They take turns,
and the medians are compared.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.report import Row, thousands
from bench.stage import Stage, drop_slot
from flusso.capture.publication import ensure_publication
from flusso.capture.slot import ensure_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection

_TABLE = TableName("public", "narrow")
_PUBLICATION = "bench_capture"
_SLOT, _TURN = "bench_capture", "bench_capture_turn"
_PATIENCE_S = 120.0
_BATCH_S = 0.05
"""Spark asks once for each micro-batch, and none is shorter than this."""
_AIM = 0.9
_ONE_BY_ONE = """
do $$
begin
  for i in 1..{changes} loop
    update narrow set n = n + 1 where id = i;
    commit;
  end loop;
end
$$
"""
_PASSES = 3
_AT_ONCE = """
do $$
begin
  for i in 1..{passes} loop
    update narrow set n = n + 1;
  end loop;
end
$$
"""


def measure(stage: Stage) -> Iterator[Row]:
    """Compare both readers on one-row transactions and on one large transaction."""
    with stage.connect() as conn:
        conn.execute("create table if not exists narrow (id int primary key, n int)")
        conn.execute("truncate narrow")
        rows = (stage.sizes.capture_changes,)
        conn.execute("insert into narrow select i, 0 from generate_series(1, %s) as i", rows)
        ensure_publication(conn, _PUBLICATION, [_TABLE], manage=True)
        conn.execute("set synchronous_commit = off")
        changes = stage.sizes.capture_changes
        yield _compare(stage, conn, "one-row transactions", _ONE_BY_ONE.format(changes=changes), changes)
        yield _compare(
            stage, conn, "one large transaction", _AT_ONCE.format(passes=_PASSES), changes * _PASSES
        )
        conn.execute("drop table narrow")


def _compare(stage: Stage, conn: Connection, name: str, sql: str, changes: int) -> Row:
    ensure_slot(conn, _SLOT)
    try:
        conn.execute(sql.encode())
        row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        # Whatever comes after the end lets pg_recvlogical notice at once that it has reached it.
        conn.execute("update narrow set n = -1 where id = 1")
        conn.execute("checkpoint")
        ours, theirs = _take_turns(stage, conn, changes, row[0])
    finally:
        drop_slot(conn, _SLOT)
    ratio = median(ours) / median(theirs)
    return Row(
        f"capture ÷ pg_recvlogical, {name}",
        f"{ratio:.2f}",
        f"≥ {_AIM}",
        ratio >= _AIM,
        f"{thousands(median(ours))} against {thousands(median(theirs))} changes/s "
        f"(medians of {len(ours)} turns each; best {thousands(max(ours))} and {thousands(max(theirs))})",
    )


def _take_turns(stage: Stage, conn: Connection, changes: int, end: str) -> tuple[list[float], list[float]]:
    spec = CaptureSpec(stage.dsn, _TURN, _PUBLICATION, (WatchedTable(_TABLE, ("id",)),))
    ours: list[float] = []
    theirs: list[float] = []
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as worker:
        worker.submit(int).result()
        for _ in range(stage.sizes.capture_rounds):
            with _slot_for_a_turn(conn):
                theirs.append(changes / _receive(stage, end))
            with _slot_for_a_turn(conn):
                ours.append(changes / worker.submit(_capture, spec, Lsn.parse(end)).result())
    return ours, theirs


@contextmanager
def _slot_for_a_turn(conn: Connection) -> Iterator[None]:
    conn.execute("select pg_copy_logical_replication_slot(%s, %s)", (_SLOT, _TURN))
    try:
        yield
    finally:
        drop_slot(conn, _TURN)


def _receive(stage: Stage, end: str) -> float:
    """Let pg_recvlogical read up to the end; give its seconds."""
    command: list[str | Path] = [
        stage.postgres.binaries / "pg_recvlogical", "--dbname", stage.postgres.dsn(), "--slot", _TURN,
        "--start", "--no-loop", "--endpos", end, "--file", "/dev/null",
        "--option", "proto_version=1", "--option", f"publication_names={_PUBLICATION}",
    ]  # fmt: skip
    started_s = time.perf_counter()
    subprocess.run(command, check=True, cwd=stage.folder, capture_output=True, timeout=_PATIENCE_S)
    return time.perf_counter() - started_s


def _capture(spec: CaptureSpec, end: Lsn) -> float:
    """Read beyond the end as the source worker does; give the seconds."""
    started_s = time.perf_counter()
    stream = CaptureStream(spec)
    at = stream.start()
    try:
        while at.lsn <= end:
            if time.perf_counter() - started_s > _PATIENCE_S:
                raise RuntimeError(f"the stream stands at {at} and has to reach {end}")
            stream.wait(at, 0.5)
            time.sleep(_BATCH_S)
            to = stream.available(at, max_changes=100_000, max_bytes=32 << 20)
            stream.pieces(at, to)
            stream.confirm(to)
            at = to
        return time.perf_counter() - started_s
    finally:
        stream.stop()
