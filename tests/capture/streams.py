"""A stream over a test's database, and reading from it to the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flusso.capture import wire
from flusso.capture.coverage import ensure_coverage
from flusso.capture.slot import ensure_slot, read_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Position
from flusso.catalog import TableName
from flusso.change import Change, Values, WatchedTable
from flusso.lsn import Lsn
from flusso.postgres.connect import Dsn, connect
from waiting import wait_until

Image = tuple[str, Values | None, Values | None]


def slot_of(dsn: Dsn) -> str:
    """Slots belong to the server, so each database has a name of its own."""
    return f"slot_{dsn.keywords()['dbname']}"


def prepare(dsn: Dsn, *columns: str, table: str = "users", **settings: Any) -> CaptureSpec:
    """Publish a table, make the slot, and say what to capture."""
    name = TableName("public", table)
    with connect(dsn) as conn:
        ensure_coverage(conn, "flusso", [WatchedTable(name, columns)], manage=True)
        ensure_slot(conn, slot_of(dsn))
    return CaptureSpec(dsn, slot_of(dsn), "flusso", (WatchedTable(name, columns),), **settings)


@contextmanager
def streaming(spec: CaptureSpec) -> Iterator[tuple[CaptureStream, Position]]:
    """Start a stream and stop it at the end."""
    stream = CaptureStream(spec)
    position = stream.start()
    try:
        yield stream, position
    finally:
        stream.stop()


def take(stream: CaptureStream, after: Position, to: Position) -> list[Change]:
    return [change for piece in stream.pieces(after, to) for change in wire.decode(piece.payload)]


def read_changes(stream: CaptureStream, after: Position, count: int) -> tuple[list[Change], Position]:
    """Read on until that many changes have come."""
    changes: list[Change] = []

    def read() -> bool:
        nonlocal after
        stream.wait(after, 0.2)
        end = stream.available(after, max_changes=1_000_000, max_bytes=1 << 30)
        changes.extend(take(stream, after, end))
        after = end
        return len(changes) >= count

    wait_until(read, what=f"{count} changes")
    return changes, after


def read_images(stream: CaptureStream, after: Position, count: int) -> list[Image]:
    changes, _ = read_changes(stream, after, count)
    return [(change.operation.value, change.old, change.new) for change in changes]


def confirmed_lsn(dsn: Dsn) -> Lsn:
    with connect(dsn) as conn:
        info = read_slot(conn, slot_of(dsn))
    assert info is not None
    assert info.confirmed_flush_lsn is not None
    return info.confirmed_flush_lsn


def current_lsn(dsn: Dsn) -> Lsn:
    with connect(dsn) as conn:
        row = conn.execute("select pg_current_wal_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(row[0])
