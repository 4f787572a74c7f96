"""`spark.readStream.format("flusso-postgres")`: every change of chosen tables as rows.

Full rows, nothing folded, on the user's own durable checkpoint. The slot moves only when Spark commits, which
it does for a batch when the next one is planned; so after a restart the slot stands at or before the
checkpoint, and offsets of an earlier run are read again from it. Spark keeps one reader in a process of its
own beside the driver; it is also made, and thrown away, where Spark plans, so constructors open nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from flusso.capture import row_wire
from flusso.capture.base import Live, Part, TableSnapshot
from flusso.capture.columns import read_columns
from flusso.capture.transactions import Position
from flusso.engine.source_worker import ChangePartition, ignore_signals, spread, told_in_text
from flusso.engine.standalone.columns import JSON_SCHEMA, check_schema, typed_schema
from flusso.engine.standalone.offsets import Phase, RowOffset
from flusso.engine.standalone.options import RowOptions, parse_options
from flusso.engine.standalone.render import Renderer
from flusso.errors import SourceRefused, SourceReplaced
from flusso.lsn import Lsn
from flusso.postgres.connect import connect

FORMAT = "flusso-postgres"

_WAIT_S = 0.5
_PARALLELISM = 8
_EVERYTHING = 1 << 62


class PartPartition(InputPartition):
    """A part of the snapshot, which the executor reads for itself."""

    def __init__(self, part: Part) -> None:
        super().__init__(None)
        self.part = part

    def __repr__(self) -> str:
        return "PartPartition()"


class RowSource(DataSource):
    """The registered data source."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the columns; those of a typed table are read from the catalog."""
        with told_in_text():
            options = parse_options(self.options)
            if not options.is_typed:
                return JSON_SCHEMA
            capture, (table,) = options.capture, options.capture.tables
            with connect(capture.dsn) as conn:
                columns = read_columns(conn, capture.publication, table)
            if not columns:
                raise SourceRefused(f"table {table} does not exist", hint="name it as the database does")
            return typed_schema(columns)

    def streamReader(self, schema: StructType) -> RowReader:  # noqa: N802
        """Make the inert reader."""
        with told_in_text():
            options = parse_options(self.options)
            check_schema(schema, is_typed=options.is_typed)
            return RowReader(options, schema)


class RowReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one slot. Spark calls it from one thread; see `capture.base` for what it relies on."""

    def __init__(self, options: RowOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._live: Live | None = None
        self._snapshot: TableSnapshot | None = None
        self._initial: RowOffset | None = None
        self._start = Position(Lsn(0))
        self._source = ""
        self._until: Position | None = None
        self._issued_s = time.monotonic()
        self._told = self._confirmed = Position(Lsn(0))
        """Where the last rows that were issued end, and what Spark has committed."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin, for a checkpoint that has nothing yet; Spark asks twice."""
        with told_in_text():
            capture = self._options.capture
            if self._initial is None:
                if self._options.takes_snapshot:
                    with connect(capture.dsn) as conn:
                        capture.check_unborn(conn)
                    self._initial = RowOffset(Phase.SNAPSHOT)
                else:
                    self._initial = RowOffset(Phase.LIVE, capture.identity(), capture.begin())
            return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Limit a batch by changes; its bytes are limited in any case."""
        return ReadMaxRows(self._options.max_changes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End where the source ends now."""
        with told_in_text():
            self._until = Position(self._options.capture.end())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Wait a moment for changes; else move the position on when that is due."""
        with told_in_text():
            begin = RowOffset.from_json(start)
            if begin.phase is Phase.SNAPSHOT:
                return RowOffset(Phase.JOINED).to_json()
            at = self._open(begin)
            end = self._find_end(at, limit)
            if self._count(at, end):
                self._told, self._issued_s = end, time.monotonic()
                return RowOffset(Phase.LIVE, self._source, end).to_json()
            if self._is_due(at, end):
                self._issued_s = time.monotonic()
                return RowOffset(Phase.LIVE, self._source, end, begin.tick + 1).to_json()
            return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Pack the rows between two offsets, which an earlier run may have issued."""
        with told_in_text():
            begin, until = RowOffset.from_json(start), RowOffset.from_json(end)
            if begin.phase is Phase.SNAPSHOT:
                return self._snapshot_partitions()
            if until.phase is not Phase.LIVE:
                return []
            at, live = self._open(begin), self._live
            assert live is not None
            while not live.reach(until.position, _WAIT_S):
                pass
            self._told = max(self._told, until.position)
            payloads = [piece.payload for piece in live.pieces(at, until.position) if piece.count]
            return [ChangePartition(pack) for pack in spread(payloads, _PARALLELISM)] if payloads else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make rows, on an executor."""
        renderer = Renderer(self._schema)
        with told_in_text():
            if isinstance(partition, PartPartition):
                for rows in partition.part.read():
                    yield renderer.render(rows)
            else:
                assert isinstance(partition, ChangePartition)
                for payload in partition.payloads:
                    yield renderer.render(row_wire.decode(payload))

    def commit(self, end: dict[str, Any]) -> None:
        """Confirm: the batch that ends here is in the user's sink."""
        with told_in_text():
            done = RowOffset.from_json(end)
            if done.phase is Phase.LIVE:
                self._open(done)
                assert self._live is not None
                self._confirmed = max(self._confirmed, done.position)
                self._live.confirm(done.position)

    def stop(self) -> None:
        """Let go of slot and snapshot. Spark often forgets to call this; the stream's thread does without."""
        if self._live is not None:
            self._live.stop()
        self._end_snapshot()

    def _open(self, begin: RowOffset) -> Position:
        """Make sure that the stream runs, from that offset if it does not yet; give the offset's position."""
        if self._live is None:
            ignore_signals()
            capture = self._options.capture
            self._source = capture.identity()
            resume: Position | None = None
            if begin.phase is Phase.JOINED:
                capture.join()
                self._end_snapshot()
            elif begin.source != self._source:
                raise SourceReplaced(
                    "the checkpoint is of another database", hint="begin with a new checkpoint and a new slot"
                )
            else:
                resume = begin.position
            live = capture.live()
            self._start = live.start(resume)
            self._live = live
            self._told = max(self._told, self._start)
        return self._start if begin.phase is Phase.JOINED else begin.position

    def _find_end(self, at: Position, limit: ReadLimit) -> Position:
        """Find how far a batch may go. Where the stream has to end by itself, wait until something came."""
        live, options = self._live, self._options
        assert live is not None
        max_changes, max_bytes = options.max_changes, options.max_bytes
        match limit:
            case ReadMaxRows():
                max_changes = min(max_changes, limit.max_rows)
            case ReadMaxBytes():
                max_bytes = min(max_bytes, limit.max_bytes)
            case ReadAllAvailable():
                max_changes = max_bytes = _EVERYTHING
        until = self._until
        if until is not None and until <= at:
            return at
        while True:
            live.wait(at, _WAIT_S)
            is_whole = until is None or live.has(until)
            end = live.available(at, max_changes=max_changes, max_bytes=max_bytes, until=until)
            if is_whole or self._count(at, end):
                return end

    def _count(self, at: Position, end: Position) -> int:
        assert self._live is not None
        return sum(piece.count for piece in self._live.pieces(at, end))

    def _is_due(self, at: Position, end: Position) -> bool:
        """Whether to plan a batch without rows: Spark commits one only when it plans the next."""
        if self._until is not None:
            return end > at
        is_idle = time.monotonic() - self._issued_s >= self._options.advance_s
        return is_idle and (end > at or self._confirmed < self._told)

    def _snapshot_partitions(self) -> list[InputPartition]:
        """Take the snapshot, anew if this batch was begun by an earlier run."""
        self._end_snapshot()
        ignore_signals()
        self._snapshot = self._options.capture.snapshot(self._options.part_bytes)
        return [PartPartition(part) for part in self._snapshot.parts]

    def _end_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
