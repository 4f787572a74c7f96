"""How fast changes are captured, beside `pg_recvlogical` on the same slot and WAL, and how fast decoded.

Both turns start from a fresh copy of one slot, which makes the server decode the very same WAL: reading
moves a slot on. flusso's stream runs in a process of its own, as its source worker does, and is asked as
often as Spark asks; it confirms what it gives. `pg_recvlogical` throws away what it gets. They take turns,
and the medians are compared. The decode rate is that of the decoder alone, on the messages of the same WAL.
"""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.report import Row, thousands
from bench.stage import Stage, drop_slot
from flusso.capture import row_wire, wire
from flusso.capture.buffer import Encode, pack
from flusso.capture.coverage import ensure_coverage
from flusso.capture.rows import RowAssembler
from flusso.capture.slot import ensure_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Assembler, Piece
from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection

_PUBLICATION = "bench_capture"
_SLOT, _TURN = "bench_capture", "bench_capture_turn"
_PATIENCE_S = 120.0
_BATCH_S = 0.05
"""Spark asks once for each micro-batch, and none is shorter than this."""
_AIM = 0.9
_DECODED = 200_000
_PASSES = 3
_WIDE_COLUMNS = 20
_ONE_BY_ONE = """
do $$
begin
  for i in 1..{rows} loop
    update {table} set n = n + 1 where id = i;
    commit;
  end loop;
end
$$
"""
_AT_ONCE = """
do $$
begin
  for i in 1..{passes} loop
    update {table} set n = n + 1;
  end loop;
end
$$
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """A table, and what is done to it."""

    name: str
    table: str
    rows: int
    passes: int | None
    """How often every row is updated in one transaction; None if each update is one of its own."""

    @property
    def changes(self) -> int:
        return self.rows * (self.passes or 1)

    @property
    def sql(self) -> str:
        form = _ONE_BY_ONE if self.passes is None else _AT_ONCE
        return form.format(table=self.table, rows=self.rows, passes=self.passes)

    @property
    def watched(self) -> WatchedTable:
        return WatchedTable(TableName("public", self.table), ("id",))


def measure(stage: Stage) -> Iterator[Row]:
    """Compare both readers on narrow rows, on wide ones, and on many small transactions."""
    rows = stage.sizes.capture_changes
    workloads = (
        Workload("many transactions of one row", "narrow", rows, None),
        Workload("narrow rows", "narrow", rows, 3),
        Workload("wide rows", "wide", rows // 4, 4),
    )
    with stage.connect() as conn:
        _create(conn, rows)
        watched = [workload.watched for workload in workloads]
        ensure_coverage(conn, _PUBLICATION, list(dict.fromkeys(watched)), manage=True)
        conn.execute("set synchronous_commit = off")
        for workload in workloads:
            yield from _compare(stage, conn, workload)
        conn.execute("drop table narrow, wide")


def _create(conn: Connection, rows: int) -> None:
    """Two numbers in a narrow row, six hundred bytes of text in a wide one."""
    texts = ", ".join(f"c{number} text" for number in range(_WIDE_COLUMNS))
    filled = ", ".join(f"md5((i + {number})::text)" for number in range(_WIDE_COLUMNS))
    conn.execute("drop table if exists narrow, wide")
    conn.execute("create table narrow (id int primary key, n int)")
    conn.execute(f"create table wide (id int primary key, n int, {texts})".encode())
    conn.execute("insert into narrow select i, 0 from generate_series(1, %s) as i", (rows,))
    wide = f"insert into wide select i, 0, {filled} from generate_series(1, %s) as i"
    conn.execute(wide.encode(), (rows // 4,))


def _compare(stage: Stage, conn: Connection, workload: Workload) -> Iterator[Row]:
    ensure_slot(conn, _SLOT)
    try:
        conn.execute(workload.sql.encode())
        row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        # Whatever comes after the end lets pg_recvlogical notice at once that it has reached it.
        conn.execute(f"update {workload.table} set n = -1 where id = 1".encode())
        conn.execute("checkpoint")
        ours, theirs = _take_turns(stage, conn, workload, row[0])
        thin, full = _decode_rates(conn, workload)
    finally:
        drop_slot(conn, _SLOT)
    ratio = median(ours) / median(theirs)
    yield Row(
        f"capture ÷ pg_recvlogical, {workload.name}",
        f"{ratio:.2f}",
        f"≥ {_AIM}",
        ratio >= _AIM,
        f"{thousands(median(ours))} against {thousands(median(theirs))} changes/s "
        f"(medians of {len(ours)} turns each; best {thousands(max(ours))} and {thousands(max(theirs))})",
    )
    yield Row(
        f"decode rate, {workload.name}",
        f"{thousands(thin)} messages/s",
        detail=f"full rows {thousands(full)} messages/s, encoded for executors",
    )


def _decode_rates(conn: Connection, workload: Workload) -> tuple[float, float]:
    """Give messages per second of both ways to decode, on what the server sends for this WAL."""
    with _slot_for_a_turn(conn):
        cursor = conn.cursor(binary=True)
        cursor.execute(
            "select data from pg_logical_slot_peek_binary_changes(%s, null, %s, 'proto_version', '1', "
            "'publication_names', %s)",
            (_TURN, min(_DECODED, workload.changes), _PUBLICATION),
        )
        messages = [bytes(row[0]) for row in cursor]
    gc.collect()
    gc.freeze()  # as the stream does before it decodes
    try:
        return _rate(Assembler, wire.encode, workload, messages), _rate(
            RowAssembler, row_wire.encode, workload, messages
        )
    finally:
        gc.unfreeze()


def _rate(kind: type[Assembler], encode: Encode, workload: Workload, messages: Sequence[bytes]) -> float:
    """Give the median of a few passes."""
    rates: list[float] = []
    for _ in range(_PASSES):
        assembler = kind((workload.watched,), piece_changes=10_000, piece_bytes=4 << 20, start=Lsn(0))
        pieces: list[Piece] = []
        started_s = time.perf_counter()
        for message in messages:
            pieces.extend(assembler.feed(message))
        pack(pieces, encode, piece_changes=10_000, piece_bytes=4 << 20)
        rates.append(len(messages) / (time.perf_counter() - started_s))
    return median(rates)


def _take_turns(
    stage: Stage, conn: Connection, workload: Workload, end: str
) -> tuple[list[float], list[float]]:
    spec = CaptureSpec(stage.dsn, _TURN, _PUBLICATION, (workload.watched,))
    changes = workload.changes
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
