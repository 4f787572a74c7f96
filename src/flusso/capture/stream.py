"""The stream of changes of one slot, as the Spark source uses it.

The face over `reader` (thread and sockets) and `buffer` (what may be taken). The source's calls come one
at a time from Spark's worker: `start` once, then `wait`, `available`, `pieces` and `confirm` over and
over. Positions that were given out stay valid until they are confirmed.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

from flusso.capture import wire
from flusso.capture.buffer import EncodedPiece, PieceBuffer
from flusso.capture.fence import Fence
from flusso.capture.partitions import check_strangers
from flusso.capture.publication import check_exists
from flusso.capture.reader import Reader
from flusso.capture.replication import open_replication
from flusso.capture.slot import check_slot, find_slot
from flusso.capture.transactions import Assembler, Position
from flusso.change import WatchedTable
from flusso.errors import SourceUnavailable
from flusso.postgres.connect import Dsn, connect

_PATIENCE_S = 30.0
_STOP_S = 1.0


@dataclass(frozen=True, slots=True)
class CaptureSpec:
    """What to read and how much of it to keep. Picklable."""

    dsn: Dsn
    slot: str
    publication: str
    tables: tuple[WatchedTable, ...]
    buffer_bytes: int = 64 << 20
    piece_changes: int = 10_000
    piece_bytes: int = 4 << 20
    status_interval_s: float = 1.0
    patience_s: float = _PATIENCE_S
    """How long a slot that another process reads is tried again."""


class CaptureStream:
    """Reads a slot in the background. Making one opens nothing; `start` does."""

    def __init__(self, spec: CaptureSpec) -> None:
        self._spec = spec
        self._buffer: PieceBuffer | None = None
        self._reader: Reader | None = None

    def start(self) -> Position:
        """Connect, begin at the slot's confirmed position and give it. Raises `SlotBusy`, `SlotLost`,
        `PublicationError` or `SourceUnavailable`."""
        spec = self._spec
        wire.warm_up()
        # What the process has loaded so far stays anyway; without it the collections that follow from
        # decoding cost half as much as the decoding itself.
        gc.freeze()
        conn = connect(spec.dsn)
        try:
            check_slot(find_slot(conn, spec.slot))
            check_exists(conn, spec.publication)
            replication = open_replication(spec.dsn, spec.slot, spec.publication, patience_s=spec.patience_s)
            # Read again now that the slot is ours: its last owner may have moved it until a moment ago.
            start = check_slot(find_slot(conn, spec.slot))
        except BaseException:
            conn.close()
            raise
        assembler = Assembler(
            spec.tables, piece_changes=spec.piece_changes, piece_bytes=spec.piece_bytes, start=start
        )
        self._buffer = PieceBuffer(Position(start))
        self._reader = Reader(
            replication,
            Fence(conn),
            assembler,
            self._buffer,
            admit=lambda oids: check_strangers(spec.dsn, spec.tables, oids),
            piece_changes=spec.piece_changes,
            piece_bytes=spec.piece_bytes,
            buffer_bytes=spec.buffer_bytes,
            status_interval_s=spec.status_interval_s,
        )
        self._reader.start()
        return Position(start)

    def wait(self, after: Position, timeout_s: float) -> bool:
        """Wait for something newer than `after`; raises what made the reader fail."""
        return self._opened().wait(after, timeout_s)

    def available(self, after: Position, *, max_changes: int, max_bytes: int) -> Position:
        """Find the furthest position within the limits, at least one piece on; `after` if there is none."""
        return self._opened().available(after, max_changes=max_changes, max_bytes=max_bytes)

    def pieces(self, after: Position, to: Position) -> list[EncodedPiece]:
        """Give the pieces between two positions that were given out."""
        return self._opened().pieces(after, to)

    def confirm(self, position: Position) -> None:
        """Take note that all up to `position` is durable: the slot moves to its whole transactions."""
        self._opened().confirm(position)
        assert self._reader is not None
        self._reader.wake()

    def stop(self) -> None:
        """End the thread and release the slot. Idempotent."""
        if self._reader is not None:
            self._reader.stop(_STOP_S)

    def _opened(self) -> PieceBuffer:
        if self._buffer is None:
            raise SourceUnavailable("the stream was not started")
        return self._buffer
