"""The stream of changes of one slot, as the Spark sources use it.

The face over `reader` (thread and sockets) and `buffer` (what may be taken). The source's calls come one
at a time from Spark's worker: `start` once, then `wait`, `available`, `pieces` and `confirm` over and
over. Positions that were given out stay valid until they are confirmed; those that an earlier stream of
the slot gave out are valid too, from the one that this stream resumes at.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

from flusso.capture import row_wire, wire
from flusso.capture.buffer import EncodedPiece, PieceBuffer
from flusso.capture.coverage import check_exists
from flusso.capture.fence import Fence
from flusso.capture.lineage import Lineage, check_unchanged, read_end_of_wal, read_lineage
from flusso.capture.partitions import check_strangers
from flusso.capture.reader import Reader, ReadLimits
from flusso.capture.replication import Replication, open_replication
from flusso.capture.rows import RowAssembler
from flusso.capture.slot import busy, check_slot, check_witness, find_slot
from flusso.capture.transactions import Assembler, Held, Position
from flusso.change import WatchedTable
from flusso.errors import SlotAdvanced, SlotBusy, SlotLost, SourceUnavailable, SourceWentBack
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, Dsn, connect

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
    silence_s: float = 60.0
    """How long a server that answers nothing counts as alive, as a standby's wal_receiver_timeout does."""
    stuck_s: float = 5.0
    """How long a received transaction may stay invisible to new snapshots before that is told."""
    patience_s: float = _PATIENCE_S
    """How long a slot that another process reads is tried again."""
    known: Lineage | None = None
    """The server that was followed so far, and the position that was recorded: any other is refused."""
    has_full_rows: bool = False
    """Whole rows, nothing folded (`rows`), instead of the watched columns alone."""


class CaptureStream:
    """Reads a slot in the background. Making one opens nothing; `start` does."""

    def __init__(self, spec: CaptureSpec) -> None:
        self._spec = spec
        self._buffer: PieceBuffer | None = None
        self._reader: Reader | None = None

    def start(self, resume: Position | None = None) -> Position:
        """Connect, begin at the slot's confirmed position, or at `resume` if that is given, and give it.

        Raises a `SlotError`, `PublicationError` or `SourceUnavailable`; where the server is known, also
        `SourceReplaced`, `SourceWentBack`, `SourceCrashed` or `TimelineChanged`; with `resume` also
        `SlotAdvanced` if the slot has gone past it, and `SourceWentBack` if the server has not come to it.
        """
        wire.warm_up()
        # What the process has loaded so far stays anyway; without it the collections that follow from
        # decoding cost half as much as the decoding itself.
        gc.freeze()
        conn = connect(self._spec.dsn)
        try:
            replication, start = self._take_slot(conn, resume)
        except BaseException:
            conn.close()
            raise
        self._buffer = PieceBuffer(Position(start), resume)
        self._reader = self._make_reader(replication, conn, start, self._buffer)
        self._reader.start()
        return resume or Position(start)

    def _take_slot(self, conn: Connection, resume: Position | None) -> tuple[Replication, Lsn]:
        """Check the server and the slot, begin to read it, and give where it stands."""
        spec = self._spec
        if spec.known is not None:
            check_unchanged(spec.known, read_lineage(conn), f'what slot "{spec.slot}" gave')
        self._check_slot(conn)
        check_exists(conn, spec.publication, spec.slot)
        replication = self._open(conn)
        try:
            # Read again now that the slot is ours: its last owner may have moved it until a moment ago.
            start = self._check_slot(conn)
            if resume is not None:
                _check_resume(conn, spec.slot, start, resume)
        except BaseException:
            replication.close()
            raise
        return replication, start

    def _make_reader(
        self, replication: Replication, conn: Connection, start: Lsn, buffer: PieceBuffer
    ) -> Reader:
        spec = self._spec
        return Reader(
            replication,
            Fence(conn),
            self._make_assembler(start),
            buffer,
            admit=lambda oids: check_strangers(spec.dsn, spec.tables, oids),
            encode=row_wire.encode if spec.has_full_rows else wire.encode,
            limits=ReadLimits(
                piece_changes=spec.piece_changes,
                piece_bytes=spec.piece_bytes,
                buffer_bytes=spec.buffer_bytes,
                status_interval_s=spec.status_interval_s,
                silence_s=spec.silence_s,
                stuck_s=spec.stuck_s,
            ),
        )

    def _make_assembler(self, start: Lsn) -> Assembler:
        spec = self._spec
        make = RowAssembler if spec.has_full_rows else Assembler
        return make(spec.tables, piece_changes=spec.piece_changes, piece_bytes=spec.piece_bytes, start=start)

    def _check_slot(self, conn: Connection) -> Lsn:
        info = find_slot(conn, self._spec.slot)
        start = check_slot(info)
        if self._spec.known is not None:
            check_witness(info, self._spec.known.lsn, "changes were written")
        return start

    def _open(self, conn: Connection) -> Replication:
        spec = self._spec
        try:
            return open_replication(spec.dsn, spec.slot, spec.publication, patience_s=spec.patience_s)
        except SlotBusy as error:
            raise busy(conn, spec.slot) from error
        except SlotLost:
            self._check_slot(conn)  # the catalog often says better why
            raise

    def wait(self, after: Position, timeout_s: float) -> bool:
        """Wait for changes newer than `after`; raises what made the reader fail."""
        return self._opened().wait(after, timeout_s)

    def has(self, position: Position) -> bool:
        """Say whether all up to a position has been received."""
        return self._opened().has(position)

    def reach(self, position: Position, timeout_s: float) -> bool:
        """Wait until all up to a position has been received; False if the time is up first."""
        return self._opened().reach(position, timeout_s)

    def available(
        self, after: Position, *, max_changes: int, max_bytes: int, until: Position | None = None
    ) -> Position:
        """Find the furthest position within the limits and not past `until`, at least one piece on; `after`
        if there is none."""
        return self._opened().available(after, max_changes=max_changes, max_bytes=max_bytes, until=until)

    def pieces(self, after: Position, to: Position) -> list[EncodedPiece]:
        """Give the pieces between two positions that were given out, by this stream or an earlier one."""
        return self._opened().pieces(after, to)

    def confirm(self, position: Position) -> None:
        """Take note that all up to `position` is durable: the slot moves to its whole transactions."""
        self._opened().confirm(position)
        assert self._reader is not None
        self._reader.wake()

    @property
    def held(self) -> Held | None:
        """The transaction that holds back all behind it for too long, if there is one."""
        return self._opened().held

    def stop(self) -> None:
        """End the thread and release the slot. Idempotent."""
        if self._reader is not None:
            self._reader.stop(_STOP_S)

    def _opened(self) -> PieceBuffer:
        if self._buffer is None:
            raise SourceUnavailable("the stream was not started")
        return self._buffer


def _check_resume(conn: Connection, slot: str, start: Lsn, resume: Position) -> None:
    """Refuse a position from which the slot and the server cannot give all that follows."""
    if start > (resume.commit or resume.lsn):
        raise SlotAdvanced(
            f'slot "{slot}" stands at {start}, past {resume.lsn} where the checkpoint goes on: '
            "the changes between them are gone",
            hint="begin with a new checkpoint and a new slot, with a snapshot if the rows are needed",
        )
    if (end := read_end_of_wal(conn)) < resume.lsn:
        raise SourceWentBack(
            f"the WAL ends at {end}, before {resume.lsn} where the checkpoint goes on: "
            "the database was restored or is another one",
            hint="begin with a new checkpoint and a new slot, with a snapshot if the rows are needed",
        )
