"""`Capture` over a logical replication slot, with full rows: what the Spark source on its own reads from.

The order of birth is publication, slot, snapshot. While a snapshot is being read its slot has a name of its
own, the slot's with `_snapshot` at the end, and takes the real name when the snapshot is joined: so a start
that finds the real one knows that the snapshot is done, one that finds the other knows that it may not be,
and takes it again under a second name. Whoever reads a part of the second drops the slot of the first; if
nobody does, the rows of the first had landed after all, and its slot is the one that is joined. Nothing is
written down anywhere but in the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flusso.capture.base import Lag
from flusso.capture.coverage import check_exists, ensure_coverage
from flusso.capture.export import ExportedSnapshot, export_snapshot
from flusso.capture.slot import check_slot, drop_slot, ensure_slot, find_slot, read_slot
from flusso.capture.slot_facts import measure_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Position
from flusso.catalog import Catalog, Table, TableKind, TableName
from flusso.change import WatchedTable
from flusso.errors import SlotExists, SlotMissing, SourceRefused
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, Dsn, connect, translated
from flusso.postgres.introspect import read_catalog, read_source_identity
from flusso.postgres.version import emit_version

SNAPSHOT_SUFFIXES = ("_snapshot", "_snapshot2")


@dataclass(frozen=True, slots=True)
class PostgresCapture:
    """Tables of one database, by a publication and a slot. Picklable."""

    dsn: Dsn
    slot: str
    publication: str
    tables: tuple[TableName, ...]
    manages_publication: bool = True
    piece_changes: int = 10_000
    piece_bytes: int = 4 << 20
    patience_s: float = 30.0
    """How long a slot that another process reads is tried again."""

    def identity(self) -> str:
        """Name the cluster and the database."""
        with connect(self.dsn) as conn:
            found = read_source_identity(conn)
        return f"{found.system_identifier}/{found.database}"

    def end(self) -> Lsn:
        """Emit a position: one that is only read may not be flushed yet."""
        with connect(self.dsn) as conn:
            return emit_version(conn).lsn

    def begin(self) -> Position:
        """Publish the tables, then make the slot; both stay as they are if they are there."""
        with connect(self.dsn) as conn:
            if read_slot(conn, self.slot) is None:
                self._publish(conn)
            info, _ = ensure_slot(conn, self.slot)
            return Position(check_slot(info))

    def snapshot(self, part_bytes: int) -> ExportedSnapshot:
        """Publish the tables, make the slot under its first name, and hold its snapshot."""
        with connect(self.dsn) as conn:
            self.check_unborn(conn)
            # Of two, nobody has read the newer one: the first reader would have dropped the older.
            earlier = self._unjoined(conn)
            for name in earlier[1:]:
                drop_slot(conn, name)
            older = earlier[0] if earlier else None
            slot = next(self.slot + each for each in SNAPSHOT_SUFFIXES if self.slot + each != older)
            catalog = self._publish(conn)
            try:
                return export_snapshot(
                    self.dsn, slot, self.publication, catalog, part_bytes=part_bytes, retires=older
                )
            except BaseException:
                drop_slot(conn, slot)  # one that nobody reads would hold back WAL for ever
                raise

    def _unjoined(self, conn: Connection) -> list[str]:
        """Find the slots of snapshots that were not joined, the oldest first."""
        found = [read_slot(conn, self.slot + suffix) for suffix in SNAPSHOT_SUFFIXES]
        slots = [(info.confirmed_flush_lsn or Lsn(0), info.name) for info in found if info is not None]
        return [name for _, name in sorted(slots)]

    def check_unborn(self, conn: Connection) -> None:
        """Refuse to take a snapshot for a slot that has begun without one."""
        if read_slot(conn, self.slot) is not None:
            raise SlotExists(
                f'slot "{self.slot}" exists, and only a new slot has a snapshot that fits it exactly',
                hint="go on with the checkpoint that belongs to it; or begin with another slot name, or drop "
                "it; or begin without a snapshot",
            )

    def join(self) -> Position:
        """Give the slot its real name: a copy first, so that it is never without one."""
        with connect(self.dsn) as conn:
            unjoined = self._unjoined(conn)
            if read_slot(conn, self.slot) is None:
                if not unjoined:
                    raise SlotMissing(
                        f'slot "{self.slot}" does not exist, and neither does the one of its snapshot',
                        hint="begin with a new checkpoint",
                    )
                with translated(f'cannot create slot "{self.slot}"'):
                    conn.execute("select pg_copy_logical_replication_slot(%s, %s)", (unjoined[0], self.slot))
            for name in unjoined:
                drop_slot(conn, name)
            return Position(check_slot(find_slot(conn, self.slot)))

    def live(self) -> CaptureStream:
        """Make a reader of all columns of the tables, as they are partitioned now."""
        with self._found_slot() as conn:
            check_exists(conn, self.publication, self.slot)
            watched = tuple(map(_watched, self._publish(conn).tables.values()))
        return CaptureStream(
            CaptureSpec(
                self.dsn,
                self.slot,
                self.publication,
                watched,
                piece_changes=self.piece_changes,
                piece_bytes=self.piece_bytes,
                patience_s=self.patience_s,
                has_full_rows=True,
            )
        )

    def lag(self) -> Lag:
        """Measure the WAL after the slot's position."""
        with connect(self.dsn) as conn:
            find_slot(conn, self.slot)
            return Lag(measure_slot(conn, self.slot).lag_bytes or 0)

    @contextmanager
    def _found_slot(self) -> Iterator[Connection]:
        with connect(self.dsn) as conn:
            if read_slot(conn, self.slot) is None:
                raise SlotMissing(
                    f'slot "{self.slot}" does not exist: the changes since the checkpoint are gone',
                    hint="begin with a new checkpoint, with a snapshot if the rows are needed",
                )
            yield conn

    def _publish(self, conn: Connection) -> Catalog:
        """Make sure that the tables are published; give what they are."""
        catalog = read_catalog(conn, self.tables)
        for name in self.tables:
            if catalog.get(name) is None:
                raise SourceRefused(f"table {name} does not exist", hint="name it as the database does")
        required = [_watched(table) for table in catalog.tables.values()]
        ensure_coverage(conn, self.publication, required, manage=self.manages_publication)
        return catalog


def _watched(table: Table) -> WatchedTable:
    """Follow a table by its key, and through its partitions, whose names the stream has."""
    is_parted = table.kind is TableKind.PARTITIONED
    partitions = tuple(partition.name for partition in table.partitions) if is_parted else None
    return WatchedTable(table.name, table.primary_key, partitions)
