"""Pieces that may be used, waiting to be taken and confirmed.

Between the reader thread, which exposes pieces in stream order, and the source's calls, which come from
another thread. Everything here is short and under one lock.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flusso.capture import wire
from flusso.capture.transactions import Held, Piece, Position
from flusso.errors import FlussoError, SourceUnavailable
from flusso.lsn import Lsn


@dataclass(frozen=True, slots=True)
class EncodedPiece:
    """Changes up to `end`, as Arrow. Without changes it only moves the position."""

    end: Position
    count: int
    payload: bytes
    unchanged: int = 0
    """Updates left out because they changed nothing that documents are made from."""


Encode = Callable[[Sequence[Any]], bytes]
"""Writes the rows of an assembler as one Arrow stream."""


def pack(
    pieces: Iterable[Piece], encode: Encode, *, piece_changes: int, piece_bytes: int
) -> list[EncodedPiece]:
    """Join neighbours as far as the limits allow and encode them: a thousand one-row transactions
    should not become a thousand Arrow streams."""
    packed: list[EncodedPiece] = []
    rows: list[Any] = []
    size = unchanged = 0
    end: Position | None = None
    for piece in pieces:
        if rows and (len(rows) + piece.count > piece_changes or size + piece.bytes > piece_bytes):
            assert end is not None
            packed.append(EncodedPiece(end, len(rows), encode(rows), unchanged))
            rows, size, unchanged = [], 0, 0
        rows.extend(piece.changes)
        size += piece.bytes
        unchanged += piece.unchanged
        end = piece.end
    if end is not None:
        packed.append(EncodedPiece(end, len(rows), encode(rows), unchanged))
    return packed


class PieceBuffer:
    """Exposed pieces from `start` on, until they are confirmed. What lies before `resume` was taken by an
    earlier reader and is left out."""

    def __init__(self, start: Position, resume: Position | None = None) -> None:
        self._changed = threading.Condition()
        self._pieces: list[EncodedPiece] = []
        self._floor = start if resume is None else max(start, resume)
        self._end = start
        self._awaited = start
        self._issued = self._floor
        self._last_change = start
        self._confirmed = start.lsn
        self._failure: FlussoError | None = None
        self._bytes = 0
        self.held: Held | None = None
        """What the reader holds back for too long; set by it alone."""

    @property
    def bytes(self) -> int:
        """What the payloads hold, for the reader's limit."""
        return self._bytes

    @property
    def is_awaited(self) -> bool:
        """Whether someone waits for a position that is still to come, so that no limit may hold it up."""
        return self._end < self._awaited

    @property
    def confirmed(self) -> Lsn:
        """The highest position that was confirmed: whole transactions only, never backwards."""
        return self._confirmed

    def expose(self, pieces: Sequence[EncodedPiece]) -> None:
        """Let pieces be taken, in stream order."""
        with self._changed:
            if self.is_awaited:
                self._changed.notify_all()
            for exposed in pieces:
                piece = self._left_out(exposed)
                self._end = max(self._end, exposed.end)
                if piece is None:
                    continue
                last = self._pieces[-1] if self._pieces else None
                # Nobody has been told of that position, so a later one can stand in for it.
                if last is not None and not last.count and not piece.count and last.end > self._issued:
                    self._pieces[-1] = replace(piece, unchanged=piece.unchanged + last.unchanged)
                else:
                    self._pieces.append(piece)
                    self._bytes += len(piece.payload)
                if piece.count:
                    self._last_change = piece.end
                    self._changed.notify_all()

    def _left_out(self, piece: EncodedPiece) -> EncodedPiece | None:
        """Give what is left of a piece without all that lies before the floor."""
        if self._end >= self._floor:
            return piece
        if piece.end <= self._floor:
            return None
        return _split(piece, self._floor)[1]

    def fail(self, error: FlussoError) -> None:
        """Let every later call of `wait` and `available` raise."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def wait(self, after: Position, timeout_s: float) -> bool:
        """Wait until there are changes after that position; False if the time is up first.

        A position without changes wakes nobody: where others write, one comes with every moment.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._last_change > after, timeout_s)
            self._raise_failure()
            return self._last_change > after

    def has(self, position: Position) -> bool:
        """Say whether all up to a position has been exposed."""
        with self._changed:
            self._raise_failure()
            return self._end >= position

    def reach(self, position: Position, timeout_s: float) -> bool:
        """Wait until all up to a position has been exposed, however much that is; False if time is up."""
        with self._changed:
            self._awaited = max(self._awaited, position)
            self._changed.wait_for(lambda: self._failure or self._end >= position, timeout_s)
            self._raise_failure()
            return self._end >= position

    def available(
        self, after: Position, *, max_changes: int, max_bytes: int, until: Position | None = None
    ) -> Position:
        """Find how far the limits reach: at least one piece if there is one, else `after` itself."""
        with self._changed:
            self._raise_failure()
            if until is not None:
                self._cut(until)
            end, changes, size = after, 0, 0
            for piece in self._pieces[self._index(after) :]:
                if until is not None and piece.end > until:
                    break
                changes += piece.count
                size += len(piece.payload)
                if end != after and (changes > max_changes or size > max_bytes):
                    break
                end = piece.end
            self._issued = max(self._issued, end)
            return end

    def pieces(self, after: Position, to: Position) -> list[EncodedPiece]:
        """Give the pieces between two positions; refuse what is no longer, or not yet, here."""
        with self._changed:
            if to <= after:
                return []
            self._cut(after)
            self._cut(to)
            found = self._pieces[self._index(after) : self._index(to)]
            if after < self._floor or not found or found[-1].end.key != to.key:
                raise SourceUnavailable(
                    f"the stream does not hold the changes from {after.lsn} to {to.lsn}",
                    hint="start again from the slot's position",
                )
            return found

    def confirm(self, position: Position) -> None:
        """Drop what is durable elsewhere and let the slot move to its whole transactions."""
        with self._changed:
            index = self._index(position)
            self._bytes -= sum(len(piece.payload) for piece in self._pieces[:index])
            del self._pieces[:index]
            self._floor = max(self._floor, position)
            self._issued = max(self._issued, position)
            self._confirmed = max(self._confirmed, position.lsn)

    def _cut(self, position: Position) -> None:
        """Let a piece end at that position, where an earlier reader's pieces ended otherwise than ours."""
        index = self._index(position)
        if index == len(self._pieces) or position <= self._floor:
            return
        if index and self._pieces[index - 1].end >= position:
            return
        piece = self._pieces[index]
        before, after = _split(piece, position)
        self._pieces[index : index + 1] = [before, after]
        self._bytes += len(before.payload) + len(after.payload) - len(piece.payload)

    def _index(self, position: Position) -> int:
        return bisect_right(self._pieces, position, key=lambda piece: piece.end)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _split(piece: EncodedPiece, position: Position) -> tuple[EncodedPiece, EncodedPiece]:
    """Part the rows up to a position from those after it."""
    before, count, after = wire.split(piece.payload, position.key)
    return (
        EncodedPiece(position, count, before),
        replace(piece, count=piece.count - count, payload=after),
    )
