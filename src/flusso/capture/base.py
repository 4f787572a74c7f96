"""The contract of a capture: where rows and their changes come from.

A seam. `PostgresCapture` reads them from a logical replication slot; another mechanism may take its place if
it keeps what is written here, and `tests/contract/` says whether it does. Its callers are the Spark source on
its own, and through `CaptureStream`, which is a `Live`, the pipeline.

**Positions.** A position names a place between two rows of the stream. It is the same for every reader, in
every process and after every restart, so a checkpoint may keep it. Positions compare in stream order; the
rows between two of them are always the same ones, in the same order, however they are cut into pieces.

**Nothing is lost, nothing comes twice.** What was not confirmed can be read again, by a reader that starts
later from the confirmed position or from any later one that was given out. What was confirmed is gone.
Nothing but `confirm` moves the confirmed position.

**Failures** are errors of `flusso.errors`; `retryable` says whether starting again may help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from flusso.capture.buffer import EncodedPiece
from flusso.capture.rows import RowChange
from flusso.capture.transactions import Position
from flusso.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the confirmed position is behind."""

    bytes: int


class Live(Protocol):
    """One reader of the stream; there is at most one at a time, in any process.

    Its calls come one after the other. It reads ahead on its own, within a limit of bytes, and holds the
    source's connection even if no call comes for long.
    """

    def start(self, resume: Position | None = None) -> Position:
        """Connect, and give where the stream begins: the confirmed position, or `resume`.

        Waits a while for a reader that is about to end, then raises `SlotBusy`. Raises `SlotAdvanced` if what
        follows `resume` was confirmed, and `SourceWentBack` if the source has never been there.
        """

    def wait(self, after: Position, timeout_s: float) -> bool:
        """Wait for rows after a position; False if the time is up first. Raises what ended the reader."""

    def has(self, position: Position) -> bool:
        """Say whether all rows up to a position have been received."""

    def reach(self, position: Position, timeout_s: float) -> bool:
        """Wait until all rows up to a position have been received; False if the time is up first.

        For positions that an earlier reader gave out: no limit of bytes holds it up on the way.
        """

    def available(
        self, after: Position, *, max_changes: int, max_bytes: int, until: Position | None = None
    ) -> Position:
        """Find the furthest position within the limits, and not past `until`; `after` if there is none.

        If there are rows, at least one piece of them is within reach whatever the limits. The position may be
        further on without any row between: then there was nothing to tell until there.
        """

    def pieces(self, after: Position, to: Position) -> list[EncodedPiece]:
        """Give the rows between two positions that were given out, by this reader or an earlier one.

        In stream order. The same call gives the same rows until `after` is passed by what is confirmed.
        """

    def confirm(self, position: Position) -> None:
        """Take note that all up to a position is durable elsewhere. An older position changes nothing."""

    def stop(self) -> None:
        """Let go of the stream, so that another reader can start. Idempotent."""


class Part(Protocol):
    """Some rows of a snapshot. Picklable: read in any process, as long as the snapshot is held."""

    def read(self) -> Iterator[Sequence[RowChange]]:
        """Give the rows, some at a time, in bounded memory; a second reading gives the same ones.

        Raises `SnapshotLost` when the snapshot is no longer held.
        """


class TableSnapshot(Protocol):
    """All rows as they stand at the place where the stream will go on. Held by the process that took it."""

    @property
    def parts(self) -> Sequence[Part]:
        """Parts that together have every row once."""

    def close(self) -> None:
        """Let go of it. Idempotent."""


class Capture(Protocol):
    """A source of rows and changes. Making one opens nothing."""

    def identity(self) -> str:
        """Name the source: positions of one mean nothing to another."""

    def end(self) -> Lsn:
        """Give a position after everything that has been committed so far."""

    def begin(self) -> Position:
        """Make sure that changes are kept from now on, if they are not already; give where they begin."""

    def snapshot(self, part_bytes: int) -> TableSnapshot:
        """Keep changes from now on, and read the rows as they stand at that very place.

        In parts of about so many bytes. Every change is either in the rows or comes later in the stream,
        never both. Once there is a stream, raises `SlotExists`. An earlier snapshot that was not joined is
        given up for the new one when the first part of the new one is read, and not before: if none is, the
        rows of the earlier one are durable elsewhere, although whoever has them did not come to say so.
        """

    def join(self) -> Position:
        """Let the stream go on where the last snapshot stands: its rows are durable elsewhere.

        Idempotent, also after a crash in its midst and in another process.
        """

    def live(self) -> Live:
        """Make a reader of the stream, which has begun or been joined."""

    def lag(self) -> Lag:
        """Measure how far the confirmed position is behind the source."""
