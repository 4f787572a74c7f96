"""Capture as a Spark streaming source: `spark.readStream.format("flusso-postgres")`.

Spark keeps one reader alive in a process of its own beside the driver; that process alone owns the
replication socket. The reader is also constructed (and thrown away) where Spark plans, so constructors
are inert. Changes travel *inside* the partitions, as Arrow: the slot has one reader, executors have none.

Typed errors do not cross Spark: every method raises one machine-readable line instead, which
`errors.from_text` finds again on the driver's side.
"""

from __future__ import annotations

import base64
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Position
from flusso.engine.frames import CHANGES_TYPE, changes_batch
from flusso.engine.offsets import Offset
from flusso.errors import FlussoError, to_line
from flusso.lsn import Lsn

FORMAT = "flusso-postgres"
SECRET_OPTION = "secret"
"""Holds the whole spec, password included. Spark redacts options of this name in plans and logs."""

_WAIT_S = 0.5
_HURRIED_TICK_S = 0.2
_PARTITION_BYTES = 8 * 1024 * 1024


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


class ChangePartition(InputPartition):
    """Some changes, as Arrow streams."""

    def __init__(self, payloads: tuple[bytes, ...]) -> None:
        super().__init__(None)
        self.payloads = payloads

    def __repr__(self) -> str:
        return f"ChangePartition({len(self.payloads)} payloads)"


class ChangeSource(DataSource):
    """The registered data source."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the one column: pieces of changes as they were encoded."""
        return CHANGES_TYPE

    def streamReader(self, schema: Any) -> ChangeReader:  # noqa: N802
        """Make the inert reader."""
        return ChangeReader(SourceSpec.from_option(self.options[SECRET_OPTION]))


class ChangeReader(DataSourceStreamReader):
    """Follows one slot. Spark calls it from one thread, in a fixed order; see design §4."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._stream: CaptureStream | None = None
        self._initial = Position(Lsn(0))
        self._confirmed = 0
        self._last_issued_s: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Connect, once: Spark asks twice."""
        with _one_line_errors():
            if self._stream is None:
                _ignore_signals()
                stream = CaptureStream(self._spec.capture)
                self._initial = stream.start()
                self._stream = stream
            return Offset(self._initial).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Leave limits to the spec: they are by changes and by bytes."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Wait a moment for changes; else move the position on when that is due."""
        with _one_line_errors():
            stream, spec = self._open(), self._spec
            begin = Offset.from_json(start)
            stream.wait(begin.position, _WAIT_S)
            end = stream.available(begin.position, max_changes=spec.max_changes, max_bytes=spec.max_bytes)
            count = sum(piece.count for piece in stream.pieces(begin.position, end))
            if count:
                self._last_issued_s = time.monotonic()
                behind = stream.available(end, max_changes=1, max_bytes=1) != end
                return Offset(end, begin.changes + count, begin.tick, behind).to_json()
            if self._is_tick_due(begin, end):
                self._last_issued_s = time.monotonic()
                return Offset(end, begin.changes, begin.tick + 1).to_json()
            return start

    def _is_tick_due(self, begin: Offset, end: Position) -> bool:
        if self._last_issued_s is None:
            return True  # an empty first batch: it warms the way, and shows the driver that the stream runs
        idle_s = time.monotonic() - self._last_issued_s
        if begin.changes > self._confirmed:
            return idle_s >= self._spec.confirm_after_s
        is_short = self._spec.hurry_to is not None and begin.position.lsn < self._spec.hurry_to
        tick_s = _HURRIED_TICK_S if is_short else self._spec.tick_s
        return end.lsn > begin.position.lsn and idle_s >= tick_s

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Pack the changes between two offsets."""
        with _one_line_errors():
            begin, until = Offset.from_json(start), Offset.from_json(end)
            if until.changes == begin.changes:
                return []
            pieces = self._open().pieces(begin.position, until.position)
            payloads = [piece.payload for piece in pieces if piece.count]
            if until.changes - begin.changes <= self._spec.small_changes:
                return [ChangePartition(tuple(payloads))]
            return [ChangePartition(pack) for pack in _spread(payloads, self._spec.parallelism)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Unpack on an executor."""
        assert isinstance(partition, ChangePartition)
        for payload in partition.payloads:
            yield changes_batch(payload)

    def commit(self, end: dict[str, Any]) -> None:
        """Confirm: the batch that ends here has been written and recorded."""
        with _one_line_errors():
            done = Offset.from_json(end)
            self._confirmed = done.changes
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


def _spread(payloads: list[bytes], parallelism: int) -> Iterator[tuple[bytes, ...]]:
    """Group payloads in order, small enough to ship and numerous enough to keep all slots busy."""
    limit = min(_PARTITION_BYTES, sum(map(len, payloads)) // parallelism + 1)
    pack: list[bytes] = []
    size = 0
    for payload in payloads:
        if pack and size + len(payload) > limit:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(payload)
        size += len(payload)
    if pack:
        yield tuple(pack)


def _ignore_signals() -> None:
    """A signal to the whole process group is the driver's to act on: it ends this process in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except FlussoError as error:
        raise RuntimeError(to_line(error)) from None
