"""What reads behind the source of `source.py`: the offsets that Spark asks for, and the changes between them.

Spark keeps one reader alive in a process of its own beside the driver; that process alone owns the
replication socket. The reader is also constructed (and thrown away) where Spark plans, so constructors
are inert. Changes travel *inside* the partitions, as Arrow: the slot has one reader, executors have none.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Position
from flusso.engine.frames import changes_batch
from flusso.engine.offsets import Offset
from flusso.engine.source_worker import ChangePartition, ignore_signals, spread, told_in_text
from flusso.lsn import Lsn

_WAIT_S = 0.5
_HURRIED_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """What the source needs to know."""

    capture: CaptureSpec
    max_changes: int
    max_bytes: int
    small_changes: int
    """Up to so many changes travel in one partition, which the batch then handles in one stage."""
    parallelism: int
    confirm_after_s: float
    tick_s: float
    hurry_to: Lsn | None = None
    """Short of this position an idle one moves on without waiting for its tick."""

    def to_option(self) -> str:
        """Encode it as a source option."""
        return base64.b64encode(pickle.dumps(self)).decode("ascii")

    @classmethod
    def from_option(cls, text: str) -> SourceSpec:
        """Decode what `to_option` wrote."""
        spec = pickle.loads(base64.b64decode(text))
        assert isinstance(spec, cls)
        return spec


class ChangeReader(DataSourceStreamReader):
    """Follows one slot. Spark calls it from one thread: the offset of the next batch is asked for before the
    last one is confirmed, and that comes with the next one."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._stream: CaptureStream | None = None
        self._initial = Position(Lsn(0))
        self._confirmed = 0
        self._confirmed_lsn = Lsn(0)
        self._last_issued_s: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Connect, once: Spark asks twice."""
        with told_in_text():
            if self._stream is None:
                ignore_signals()
                stream = CaptureStream(self._spec.capture)
                self._initial = stream.start()
                self._confirmed_lsn = self._initial.lsn
                self._stream = stream
            return Offset(self._initial).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Leave limits to the spec: they are by changes and by bytes."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Wait a moment for changes; else move the position on when that is due."""
        with told_in_text():
            stream, spec = self._open(), self._spec
            begin = Offset.from_json(start)
            stream.wait(begin.position, self._patience_s(begin))
            end = stream.available(begin.position, max_changes=spec.max_changes, max_bytes=spec.max_bytes)
            pieces = stream.pieces(begin.position, end)
            count = sum(piece.count for piece in pieces)
            unchanged = begin.unchanged + sum(piece.unchanged for piece in pieces)
            held = stream.held
            if count:
                self._last_issued_s = time.monotonic()
                behind = stream.available(end, max_changes=1, max_bytes=1) != end
                return Offset(end, begin.changes + count, begin.tick, behind, unchanged, held).to_json()
            if self._is_tick_due(begin, end) or held != begin.held:
                self._last_issued_s = time.monotonic()
                return Offset(end, begin.changes, begin.tick + 1, unchanged=unchanged, held=held).to_json()
            return start

    def _patience_s(self, begin: Offset) -> float:
        """How long to wait for changes before looking whether a tick is due."""
        if self._last_issued_s is None:
            return 0.0
        if begin.changes > self._confirmed:
            return min(_WAIT_S, max(0.0, self._tick_s(begin) - self._idle_s()))
        return min(_WAIT_S, self._tick_s(begin))

    def _is_tick_due(self, begin: Offset, end: Position) -> bool:
        if self._last_issued_s is None:
            return True  # an empty first batch: it warms the way, and shows the driver that the stream runs
        # The last position is owed too: Spark confirms a batch with the next one, and on an idle server there
        # would be none.
        is_owed = begin.changes > self._confirmed or end.lsn > min(begin.position.lsn, self._confirmed_lsn)
        return is_owed and self._idle_s() >= self._tick_s(begin)

    def _tick_s(self, begin: Offset) -> float:
        if begin.changes > self._confirmed:
            return self._spec.confirm_after_s
        is_short = self._spec.hurry_to is not None and begin.position.lsn < self._spec.hurry_to
        return _HURRIED_TICK_S if is_short else self._spec.tick_s

    def _idle_s(self) -> float:
        assert self._last_issued_s is not None
        return time.monotonic() - self._last_issued_s

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Pack the changes between two offsets."""
        with told_in_text():
            begin, until = Offset.from_json(start), Offset.from_json(end)
            if until.changes == begin.changes:
                return []
            pieces = self._open().pieces(begin.position, until.position)
            payloads = [piece.payload for piece in pieces if piece.count]
            is_small = until.changes - begin.changes <= self._spec.small_changes
            tasks = 1 if is_small else self._spec.parallelism
            return [ChangePartition(pack) for pack in spread(payloads, tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Unpack on an executor."""
        assert isinstance(partition, ChangePartition)
        for payload in partition.payloads:
            yield changes_batch(payload)

    def commit(self, end: dict[str, Any]) -> None:
        """Confirm: the batch that ends here has been written and recorded."""
        with told_in_text():
            done = Offset.from_json(end)
            self._confirmed, self._confirmed_lsn = done.changes, done.position.lsn
            self._open().confirm(done.position)

    def stop(self) -> None:
        """Let go of the slot. Spark often forgets to call this; the stream's thread does without."""
        if self._stream is not None:
            self._stream.stop()

    def _open(self) -> CaptureStream:
        if self._stream is None:
            self.initialOffset()
        assert self._stream is not None
        return self._stream
