"""Pieces that may be used, waiting to be taken and confirmed.

Between the reader thread, which exposes pieces in stream order, and the source's calls, which come from
another thread. Everything here is short and under one lock.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flusso.capture import wire
from flusso.capture.transactions import Piece, Position, Row
from flusso.errors import FlussoError, SourceUnavailable
from flusso.lsn import Lsn


@dataclass(frozen=True, slots=True)
class EncodedPiece:
    """Changes up to `end`, as Arrow. Without changes it only moves the position."""

    end: Position
    count: int
    payload: bytes


def pack(pieces: Iterable[Piece], *, piece_changes: int, piece_bytes: int) -> list[EncodedPiece]:
    """Join neighbours as far as the limits allow and encode them: a thousand one-row transactions
    should not become a thousand Arrow streams."""
    packed: list[EncodedPiece] = []
    rows: list[Row] = []
    size = 0
    end: Position | None = None
    for piece in pieces:
        if rows and (len(rows) + piece.count > piece_changes or size + piece.bytes > piece_bytes):
            assert end is not None
            packed.append(EncodedPiece(end, len(rows), wire.encode(rows)))
            rows, size = [], 0
        rows.extend(piece.changes)
        size += piece.bytes
        end = piece.end
    if end is not None:
        packed.append(EncodedPiece(end, len(rows), wire.encode(rows)))
    return packed


class PieceBuffer:
    """Exposed pieces from `start` on, until they are confirmed."""

    def __init__(self, start: Position) -> None:
        self._changed = threading.Condition()
        self._pieces: list[EncodedPiece] = []
        self._floor = start
        self._issued = start
        self._confirmed = start.lsn
        self._failure: FlussoError | None = None
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """What the payloads hold, for the reader's limit."""
        return self._bytes

    @property
    def confirmed(self) -> Lsn:
        """The highest position that was confirmed: whole transactions only, never backwards."""
        return self._confirmed

    def expose(self, pieces: Sequence[EncodedPiece]) -> None:
        """Let pieces be taken, in stream order."""
        with self._changed:
            for piece in pieces:
                last = self._pieces[-1] if self._pieces else None
                # Nobody has been told of that position, so a later one can stand in for it.
                if last is not None and not last.count and not piece.count and last.end > self._issued:
                    self._pieces[-1] = piece
                else:
                    self._pieces.append(piece)
                    self._bytes += len(piece.payload)
            self._changed.notify_all()

    def fail(self, error: FlussoError) -> None:
        """Let every later call of `wait` and `available` raise."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def wait(self, after: Position, timeout_s: float) -> bool:
        """Wait until there is a piece after that position; False if the time is up first."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._is_past(after), timeout_s)
            self._raise_failure()
            return self._is_past(after)

    def available(self, after: Position, *, max_changes: int, max_bytes: int) -> Position:
        """Find how far the limits reach: at least one piece if there is one, else `after` itself."""
        with self._changed:
            self._raise_failure()
            end, changes, size = after, 0, 0
            for piece in self._pieces[self._index(after) :]:
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
            found = self._pieces[self._index(after) : self._index(to)]
            if after < self._floor or not found or found[-1].end != to:
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

    def _index(self, position: Position) -> int:
        return bisect_right(self._pieces, position, key=lambda piece: piece.end)

    def _is_past(self, after: Position) -> bool:
        return bool(self._pieces) and self._pieces[-1].end > after

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
