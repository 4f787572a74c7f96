"""A capture of a database that is a list: small enough to be seen to keep the contract, so that the suite can
be seen to ask for no more than that."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from flusso.capture import row_wire
from flusso.capture.base import Lag
from flusso.capture.buffer import EncodedPiece
from flusso.capture.rows import READ, FullRow, RowChange, Shape, ShapeColumn
from flusso.capture.transactions import Position
from flusso.catalog import TableName
from flusso.errors import SlotAdvanced, SlotBusy, SlotExists, SnapshotLost, SourceError, SourceWentBack
from flusso.lsn import Lsn

SHAPE = Shape(TableName("public", "users"), (ShapeColumn("id", 23, True),), ("id",))
_numbers = itertools.count(1)
_takers: dict[int, MemoryDatabase] = {}
_held: set[int] = set()
"""Snapshots that someone holds."""


@dataclass(slots=True)
class MemoryDatabase:
    """Users that only grow in number, with everything that ever happened to them."""

    end: int = 100
    log: list[FullRow] = field(default_factory=list)
    confirmed: int | None = None
    unjoined: list[tuple[int, int]] = field(default_factory=list)
    """Number and position of the snapshots that were taken, the oldest that still counts first."""
    is_read: bool = False

    def write(self, *ids: int) -> None:
        """Commit a transaction."""
        commit, self.end = self.end, self.end + 10
        for ordinal, id_ in enumerate(ids, 1):
            self.log.append((SHAPE, "i", False, None, (str(id_),), commit, ordinal, 0, 7))


@dataclass(frozen=True, slots=True)
class MemoryCapture:
    """See `flusso.capture.base.Capture`."""

    database: MemoryDatabase
    piece_changes: int = 1000

    def identity(self) -> str:
        return f"memory {id(self.database)}"

    def end(self) -> Lsn:
        return Lsn(self.database.end)

    def begin(self) -> Position:
        if self.database.confirmed is None:
            self.database.confirmed = self.database.end
        return Position(Lsn(self.database.confirmed))

    def snapshot(self, part_bytes: int) -> MemorySnapshot:
        if self.database.confirmed is not None:
            raise SlotExists("there is a stream already")
        del self.database.unjoined[1:]
        ids = [row[4] for row in self.database.log]
        number = next(_numbers)
        _held.add(number)
        self.database.unjoined.append((number, self.database.end))
        _takers[number] = self.database
        step = max(1, part_bytes // 100)
        parts = [MemoryPart(number, pickle.dumps(ids[at : at + step])) for at in range(0, len(ids), step)]
        return MemorySnapshot(number, parts)

    def join(self) -> Position:
        if self.database.confirmed is None:
            self.database.confirmed = self.database.unjoined[0][1]
        return self.begin()

    def live(self) -> MemoryLive:
        return MemoryLive(self)

    def lag(self) -> Lag:
        return Lag(self.database.end - (self.database.confirmed or 0))


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """See `Part`."""

    number: int
    rows: bytes

    def read(self) -> Iterator[Sequence[RowChange]]:
        if self.number not in _held:
            raise SnapshotLost("nobody holds it")
        unjoined = _takers[self.number].unjoined
        unjoined[:] = [each for each in unjoined if each[0] == self.number]
        yield [RowChange(SHAPE, READ, False, None, values, Lsn(0), 0) for values in pickle.loads(self.rows)]


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """See `TableSnapshot`."""

    number: int
    parts: Sequence[MemoryPart]

    def close(self) -> None:
        _held.discard(self.number)


class MemoryLive:
    """See `Live`. Whoever waits looks again and again."""

    def __init__(self, capture: MemoryCapture) -> None:
        self._database = capture.database
        self._piece_changes = capture.piece_changes
        self._is_mine = False

    def start(self, resume: Position | None = None) -> Position:
        database = self._database
        if database.is_read:
            raise SlotBusy("someone reads it")
        confirmed = Position(Lsn(database.confirmed or 0))
        if resume is not None and resume < confirmed:
            raise SlotAdvanced("what follows was confirmed")
        if resume is not None and resume.lsn > database.end:
            raise SourceWentBack("never been there")
        database.is_read = self._is_mine = True
        return resume or confirmed

    def wait(self, after: Position, timeout_s: float) -> bool:
        return self._look(lambda: bool(self._rows(after, None)), timeout_s)

    def has(self, position: Position) -> bool:
        return position <= Position(Lsn(self._database.end))

    def reach(self, position: Position, timeout_s: float) -> bool:
        return self._look(lambda: self.has(position), timeout_s)

    def available(
        self, after: Position, *, max_changes: int, max_bytes: int, until: Position | None = None
    ) -> Position:
        end = Position(Lsn(self._database.end))
        if until is not None and until < end:
            end = until
        rows = self._rows(after, end)
        most = min(max_changes, max(1, max_bytes // 1000), self._piece_changes)
        if len(rows) <= most:
            return max(after, end)
        commit, ordinal = rows[most - 1][5], rows[most - 1][6]
        return Position(Lsn(commit), Lsn(commit), ordinal)

    def pieces(self, after: Position, to: Position) -> list[EncodedPiece]:
        rows = self._rows(after, to)
        return [EncodedPiece(to, len(rows), row_wire.encode(rows))] if rows else []

    def confirm(self, position: Position) -> None:
        self._database.confirmed = max(self._database.confirmed or 0, position.lsn)

    def stop(self) -> None:
        if self._is_mine:
            self._database.is_read = self._is_mine = False

    def _rows(self, after: Position, to: Position | None) -> list[FullRow]:
        if not self._is_mine:
            raise SourceError("the stream was stopped")
        return [
            row
            for row in self._database.log
            if (row[5], row[6]) > after.key and (to is None or (row[5], row[6]) <= to.key)
        ]

    def _look(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not (found := condition()) and time.monotonic() < deadline:
            time.sleep(0.01)  # between two looks
        return found
