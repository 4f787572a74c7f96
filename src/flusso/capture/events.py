"""Follow a slot message by message: for whoever wants the changes themselves, without Spark and an index.

A small client of its own over `replication`: typed events come out, keepalives are absorbed, and a position
is confirmed when the caller says so. Inside flusso `CaptureStream` does more (a buffer, the visibility fence,
pieces of large transactions); this is the plain way for a library user, one thread, nothing kept in memory.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from flusso.capture.pgoutput import Begin, Commit, Message, decode
from flusso.capture.protocol import Keepalive, decode_frame, to_unix_us
from flusso.capture.replication import Replication, open_replication
from flusso.errors import SlotError
from flusso.lsn import Lsn
from flusso.postgres.connect import Dsn

_STATUS_INTERVAL_S = 1.0
_FRAMES = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """One message of the stream, with where it stands in the WAL and when the server sent it."""

    lsn: Lsn
    sent_us: int
    """Microseconds of Unix time, by the server's clock."""
    message: Message


def follow_slot(
    dsn: Dsn, slot: str, publication: str, *, start: Lsn | None = None, patience_s: float = 30.0
) -> EventStream:
    """Connect and begin to read a slot, from where it stands or from `start`.

    The slot and the publication exist, the publication since before the slot. Transactions that committed
    before `start` are left out. A `start` behind the slot counts as the slot's own position: what was
    confirmed is gone. A slot that another process reads is tried again for `patience_s`, then raises
    `SlotBusy`; for other errors see `open_replication`.
    """
    return EventStream(open_replication(dsn, slot, publication, patience_s=patience_s, start=start), slot)


class EventStream:
    """The stream of one slot, which is its own until `close`. Not thread-safe; closes itself in a `with`."""

    def __init__(self, replication: Replication, slot: str) -> None:
        self._replication = replication
        self._slot = slot
        self._is_open_transaction = False
        self._status_at = 0.0
        self.received = Lsn(0)
        """Everything before it was handed out, in whole transactions; what may be confirmed at most."""
        self.confirmed = Lsn(0)
        """What was confirmed through this stream."""
        self.lag_s: float | None = None
        """How long before it arrived the last transaction had committed; None before the first."""

    def receive(self, timeout_s: float) -> list[Event]:
        """Wait for messages up to so long and give those that have come, in stream order; none is no error.

        Keepalives are absorbed: answered when the server asks, and moving `received` on where no transaction
        is open. Also tells the server once a second that we are alive, so call it more often than half of the
        server's `wal_sender_timeout`. Raises `DecodeError` for a message of a kind that is not known or was
        not asked for, and what `Replication.receive` raises when the stream ends.
        """
        self._send_status_when_due()
        if not self._replication.has_more:
            poll = select.poll()
            poll.register(self._replication.fileno(), select.POLLIN)
            if not poll.poll(max(0.0, min(timeout_s, _STATUS_INTERVAL_S) * 1000)):
                return []
        return list(self._events())

    def confirm(self, lsn: Lsn) -> None:
        """Let the slot move to a position: what lies before it is durable elsewhere and never comes again.

        An older position changes nothing; one that was not received is refused with a `SlotError`. Use
        `Commit.end_lsn`, or `received` once all that was handed out is durable.
        """
        if lsn > self.received:
            raise SlotError(
                f'slot "{self._slot}" cannot be confirmed up to {lsn}: only {self.received} was received',
                hint="confirm the end of a transaction that was handed out",
            )
        if lsn > self.confirmed:
            self.confirmed = lsn
            self._send_status()

    def close(self) -> None:
        """Let go of the slot. What was not confirmed comes again to the next reader. Idempotent."""
        self._replication.close()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _events(self) -> Iterator[Event]:
        for data in self._replication.receive(_FRAMES):
            frame = decode_frame(bytes(data))
            if isinstance(frame, Keepalive):
                self._take(frame)
                continue
            message = decode(frame.payload)
            if isinstance(message, Begin):
                self._is_open_transaction = True
            elif isinstance(message, Commit):
                self._is_open_transaction = False
                self.received = max(self.received, message.end_lsn)
                self.lag_s = lag_seconds(to_unix_us(message.commit_time_us), time.time_ns() // 1000)
            yield Event(frame.start, frame.sent_us, message)

    def _take(self, keepalive: Keepalive) -> None:
        if not self._is_open_transaction:
            self.received = max(self.received, keepalive.end)
        if keepalive.reply_requested:
            self._send_status()

    def _send_status_when_due(self) -> None:
        if time.monotonic() >= self._status_at:
            self._send_status()

    def _send_status(self) -> None:
        """Position 0 says nothing to the server: the slot stays where it is."""
        self._replication.send_status(self.received, self.confirmed, reply=False)
        self._status_at = time.monotonic() + _STATUS_INTERVAL_S


def lag_seconds(then_us: int, now_us: int) -> float:
    """Say how long ago it was, in Unix microseconds; clocks that disagree do not make it negative."""
    return max(0.0, (now_us - then_us) / 1_000_000)
