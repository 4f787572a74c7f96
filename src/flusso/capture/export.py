"""A snapshot that begins exactly where a new slot does, read in parts by any process.

Postgres exports a snapshot with the birth of a slot: it sees every transaction before the slot's first, and
none of its own. It lives as long as the connection that holds it. The tables are locked against being
rewritten before the slot is made, because a rewrite moves rows from under the block ranges, and hides them
from an older snapshot. Changes to rows go on; other DDL of these tables waits until the snapshot is done.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg import errors as pg
from psycopg import pq

from flusso.capture.columns import read_columns
from flusso.capture.rows import READ, RowChange, Shape, ShapeColumn
from flusso.catalog import Catalog, IdentityKind, Table, TableName
from flusso.errors import SnapshotLost, SourceRefused, SourceUnavailable
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, Dsn, connect, connect_replication, translate, translated
from flusso.postgres.identifiers import literal, quote, quote_list, quote_table

_POLL_MS = 250
_LOCK_TIMEOUT = "10s"
_ROWS = 2_000
_BYTES = 1 << 20
_RETIRE = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s"
_SIZE = "select pg_relation_size(to_regclass(%s)), current_setting('block_size')::int"


@dataclass(frozen=True, slots=True)
class ExportedPart:
    """Blocks of one table, the end excluded, as a snapshot sees them."""

    dsn: Dsn
    snapshot: str
    lsn: Lsn
    shape: Shape
    leaf: TableName
    """The table that holds the blocks: a partition, or the table itself."""
    start_block: int
    end_block: int | None
    retires: str | None = None
    """The slot of an earlier snapshot, which this one takes the place of once it is read."""

    def read(self) -> Iterator[Sequence[RowChange]]:
        """Give the rows, some at a time."""
        with connect(self.dsn) as conn, translated(f"cannot read a snapshot of {self.leaf}"):
            if self.retires is not None:
                # Another task may be at it in this moment.
                with contextlib.suppress(pg.UndefinedObject, pg.ObjectInUse):
                    conn.execute(_RETIRE, (self.retires,))
            try:
                conn.execute("begin isolation level repeatable read read only")
                conn.execute(f"set transaction snapshot {literal(self.snapshot)}".encode())
            except (pg.UndefinedObject, pg.InvalidParameterValue, pg.ObjectNotInPrerequisiteState) as error:
                raise SnapshotLost(
                    f"the snapshot of {self.leaf} is no longer held", hint="start the query again"
                ) from error
            yield from self._copy(conn)

    def _copy(self, conn: Connection) -> Iterator[Sequence[RowChange]]:
        rows: list[RowChange] = []
        size = 0
        with conn.cursor().copy(self._sql().encode()) as copy:
            for values in copy.rows():
                rows.append(RowChange(self.shape, READ, False, None, values, self.lsn, 0))
                size += sum(len(value) for value in values if value is not None)
                if len(rows) >= _ROWS or size >= _BYTES:
                    yield rows
                    rows, size = [], 0
        if rows:
            yield rows

    def _sql(self) -> str:
        columns = quote_list(column.name for column in self.shape.columns)
        upper = "" if self.end_block is None else f" and ctid < '({self.end_block},0)'::tid"
        return (
            f"copy (select {columns} from only {quote_table(self.leaf)} "
            f"where ctid >= '({self.start_block},0)'::tid{upper}) to stdout"
        )


class ExportedSnapshot:
    """The held snapshot, with its parts."""

    def __init__(self, conn: Connection, lsn: Lsn, parts: Sequence[ExportedPart]) -> None:
        self._conn = conn
        self.lsn = lsn
        self.parts = parts

    def close(self) -> None:
        """Let go of snapshot and locks."""
        self._conn.close()


def export_snapshot(
    dsn: Dsn, slot: str, publication: str, catalog: Catalog, *, part_bytes: int, retires: str | None = None
) -> ExportedSnapshot:
    """Make the slot and hold a snapshot that ends where it begins. Waits for transactions that are open."""
    holder = connect(dsn)
    try:
        leaves = [leaf for table in catalog.tables.values() for leaf in _leaves(table)]
        _lock(holder, leaves)
        replication = connect_replication(dsn)
        try:
            lsn, exported = _create_slot(replication, slot)
            with translated("cannot take over the snapshot"):
                # No statement that takes a snapshot of its own may come before this one.
                holder.execute(f"set transaction snapshot {literal(exported)}".encode())
                row = holder.execute("select pg_export_snapshot()").fetchone()
        finally:
            replication.close()
        assert row is not None
        parts = [
            replace(part, retires=retires)
            for table in catalog.tables.values()
            for part in _plan(holder, dsn, row[0], lsn, publication, table, part_bytes)
        ]
        return ExportedSnapshot(holder, lsn, parts)
    except BaseException:
        holder.close()
        raise


def _leaves(table: Table) -> list[TableName]:
    return [partition.name for partition in table.partitions] or [table.name]


def _lock(conn: Connection, leaves: Sequence[TableName]) -> None:
    try:
        with translated("cannot lock the tables of the snapshot"):
            conn.execute("begin isolation level repeatable read read only")
            conn.execute(f"set local lock_timeout = '{_LOCK_TIMEOUT}'")
            for leaf in leaves:
                conn.execute(f"lock table only {quote_table(leaf)} in access share mode".encode())
    except SourceUnavailable as error:
        if isinstance(error.__cause__, pg.LockNotAvailable):
            raise SourceUnavailable(
                f"could not lock the tables of the snapshot within {_LOCK_TIMEOUT}",
                hint="end the transaction that holds one of them, or try again",
            ) from error
        raise


def _create_slot(conn: Connection, slot: str) -> tuple[Lsn, str]:
    """Make the slot; an orphan gives up waiting for it, and the server then forgets it."""
    parent, pgconn = os.getppid(), conn.pgconn
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    try:
        pgconn.send_query(f"CREATE_REPLICATION_SLOT {quote(slot)} LOGICAL pgoutput EXPORT_SNAPSHOT".encode())
        while pgconn.is_busy():
            if os.getppid() != parent:
                raise SourceUnavailable("the driver is gone")
            if poll.poll(_POLL_MS):
                pgconn.consume_input()
        result = pgconn.get_result()
    except psycopg.Error as error:
        raise translate(error, f'cannot create slot "{slot}"') from error
    if result is None or result.status != pq.ExecStatus.TUPLES_OK:
        field = None if result is None else result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
        raise SourceRefused(
            f'cannot create slot "{slot}": {(field or b"no detail").decode(errors="replace")}'
        )
    return (
        Lsn.parse((result.get_value(0, 1) or b"").decode()),
        (result.get_value(0, 2) or b"").decode(),
    )


def _plan(
    conn: Connection, dsn: Dsn, snapshot: str, lsn: Lsn, publication: str, table: Table, part_bytes: int
) -> Iterator[ExportedPart]:
    for leaf in _leaves(table):
        shape = _shape(conn, publication, table, leaf)
        with translated(f"cannot read the size of {leaf}"):
            row = conn.execute(_SIZE, (quote_table(leaf),)).fetchone()
        assert row is not None
        size, block = row
        step = max(1, part_bytes // block)
        starts = range(0, max(1, (size or 0) // block), step)
        for start in starts:
            end = start + step if start != starts[-1] else None
            yield ExportedPart(dsn, snapshot, lsn, shape, leaf, start, end)


def _shape(conn: Connection, publication: str, table: Table, leaf: TableName) -> Shape:
    """Describe the rows as the stream will: partitions may have their columns in an order of their own."""
    identity = table.identity_columns
    is_full = table.identity is IdentityKind.FULL and bool(table.primary_key)
    columns = tuple(
        ShapeColumn(column.name, column.type_oid, column.name in identity)
        for column in read_columns(conn, publication, leaf)
    )
    return Shape(table.name, columns, table.primary_key if is_full else identity)
