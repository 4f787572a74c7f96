"""The thread that reads the replication socket, and the only one that touches it.

One poll loop over three sockets: the stream, the fence's answers, and a wake-up from other threads. It
never waits longer than a quarter of a second, so that status goes out on time whatever happens, and so
that an orphan, whose parent process is gone, lets go of the slot.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flusso.capture.buffer import Encode, PieceBuffer, pack
from flusso.capture.fence import Fence
from flusso.capture.partitions import Admission
from flusso.capture.protocol import PAYLOAD_START, XLOG_DATA, Keepalive, decode_frame
from flusso.capture.replication import Replication
from flusso.capture.snapshot import Snapshot
from flusso.capture.transactions import Assembler, Held, Piece
from flusso.errors import FlussoError, SourceError, SourceUnavailable
from flusso.lsn import Lsn

_LONGEST_POLL_S = 0.25
_FRAMES = 2_000
_FIRST_ASK_PAUSE_S = 0.001
_LONGEST_ASK_PAUSE_S = 0.005

_log = logging.getLogger("flusso.capture")


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much is kept, and how long is too long; `CaptureSpec` says what each means."""

    piece_changes: int
    piece_bytes: int
    buffer_bytes: int
    status_interval_s: float
    silence_s: float
    stuck_s: float


class Reader:
    """Moves the stream into the buffer until it is stopped, orphaned or fails. `admit` is asked, before any
    of their rows are handed on, about relations that nobody watches, and raises if they matter after all."""

    def __init__(
        self,
        replication: Replication,
        fence: Fence,
        assembler: Assembler,
        buffer: PieceBuffer,
        *,
        admit: Callable[[Sequence[int]], None],
        encode: Encode,
        limits: ReadLimits,
    ) -> None:
        self._replication = replication
        self._fence = fence
        self._assembler = assembler
        self._buffer = buffer
        self._admission = Admission(admit, self.wake)
        self._encode = encode
        self._limits = limits
        self._held: deque[Piece] = deque()
        self._held_bytes = 0
        self._held_since = 0.0
        self._snapshot = Snapshot(0, 0, frozenset())
        self._received = buffer.confirmed
        self._sent = Lsn(0)
        self._status_at = self._ask_at = 0.0
        self._ask_pause_s = _FIRST_ASK_PAUSE_S
        self._heard_at = self._asked_at = time.monotonic()
        self._is_stopped = False
        self._parent = os.getppid()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._poll = select.poll()
        self._thread = threading.Thread(target=self._run, name="flusso-capture", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wake(self) -> None:
        """Let the loop look at once at what was confirmed."""
        with contextlib.suppress(OSError):
            self._wake_out.send(b"\0")

    def stop(self, timeout_s: float) -> None:
        """End the loop; the last confirmed position is sent and the slot released."""
        self._is_stopped = True
        self.wake()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            for sock in (self._replication, self._fence, self._wake_in):
                self._poll.register(sock.fileno(), select.POLLIN)
            while not self._is_stopped and os.getppid() == self._parent:
                self._turn()
            self._send_status(reply=False)
            self._buffer.fail(SourceError("the stream was stopped"))
        except FlussoError as error:
            self._buffer.fail(error)
        except Exception as error:
            failure = SourceError(f"the reader of the stream broke: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._buffer.fail(failure)
        finally:
            for part in (self._replication, self._fence, self._wake_in, self._wake_out):
                part.close()

    def _turn(self) -> None:
        now = time.monotonic()
        if now >= self._status_at or self._buffer.confirmed > self._sent:
            self._send_status(reply=now - self._heard_at >= self._limits.status_interval_s)
        is_full = (
            self._held_bytes + self._buffer.bytes >= self._limits.buffer_bytes and not self._buffer.is_awaited
        )
        if is_full:
            self._heard_at = now  # whoever does not listen cannot complain of silence
        self._check_silence(now)
        self._poll.modify(self._replication.fileno(), 0 if is_full else select.POLLIN)
        has_more = self._replication.has_more and not is_full
        ready = self._wait(now if has_more else min(self._status_at, now + _LONGEST_POLL_S))
        if self._wake_in.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                self._wake_in.recv(4096)
        if self._fence.fileno() in ready:
            self._take_answer()
        if has_more or self._replication.fileno() in ready:
            self._take_frames()
        if self._held and self._admission.is_settled:
            self._expose()

    def _check_silence(self, now: float) -> None:
        """Give a server up that answers nothing: its host may be gone without a word to the sockets."""
        since = min(self._heard_at, self._asked_at) if self._fence.is_asking else self._heard_at
        if now - since > self._limits.silence_s:
            raise SourceUnavailable(f"the server has said nothing for {self._limits.silence_s:.0f} s")

    def _wait(self, until: float) -> set[int]:
        if self._held and not self._fence.is_asking and self._admission.is_settled:
            until = min(until, self._ask_at)
        return {fd for fd, _ in self._poll.poll(max(0.0, (until - time.monotonic()) * 1000))}

    def _send_status(self, *, reply: bool) -> None:
        """The timer keeps wal_sender_timeout away even when nothing is read; the asked-for keepalive
        moves the position on a server without watched traffic."""
        confirmed = self._buffer.confirmed
        self._replication.send_status(max(self._received, confirmed), confirmed, reply=reply)
        self._sent = confirmed
        self._status_at = time.monotonic() + self._limits.status_interval_s

    def _take_frames(self) -> None:
        feed, held = self._assembler.feed, self._held
        self._heard_at = time.monotonic()
        was_empty = not held
        for frame in self._replication.receive(_FRAMES):
            pieces = (
                feed(frame, PAYLOAD_START) if frame[0] == XLOG_DATA else self._take_keepalive(bytes(frame))
            )
            if pieces:
                held.extend(pieces)
                self._held_bytes += sum(piece.bytes for piece in pieces)
        if self._assembler.strangers:
            self._admission.ask(self._assembler.strangers)
            self._assembler.strangers.clear()
        if was_empty and held:
            self._held_since = self._heard_at
            self._ask_at = self._heard_at
            self._ask_pause_s = _FIRST_ASK_PAUSE_S

    def _take_keepalive(self, data: bytes) -> tuple[Piece, ...]:
        frame = decode_frame(data)
        assert isinstance(frame, Keepalive)
        if frame.reply_requested:
            self._send_status(reply=False)
        return tuple(self._assembler.keepalive(frame.end))

    def _take_answer(self) -> None:
        snapshot = self._fence.answer()
        if snapshot is not None:
            self._snapshot = snapshot
            self._ask_at = time.monotonic() + self._ask_pause_s
            self._ask_pause_s = min(self._ask_pause_s * 2, _LONGEST_ASK_PAUSE_S)

    def _expose(self) -> None:
        """Hand on, in stream order, what a snapshot sees; ask for a newer snapshot for the rest."""
        held, sees = self._held, self._snapshot.sees
        visible: list[Piece] = []
        while held and (held[0].xid is None or sees(held[0].xid)):
            piece = held.popleft()
            self._held_bytes -= piece.bytes
            visible.append(piece)
        if visible:
            self._received = visible[-1].end.lsn
            self._buffer.held = None
            self._buffer.expose(
                pack(
                    visible,
                    self._encode,
                    piece_changes=self._limits.piece_changes,
                    piece_bytes=self._limits.piece_bytes,
                )
            )
            self._held_since = time.monotonic()
            self._ask_pause_s = _FIRST_ASK_PAUSE_S
        if held:
            self._ask_for_snapshot(held[0].xid)

    def _ask_for_snapshot(self, xid: int | None) -> None:
        now = time.monotonic()
        if not self._fence.is_asking and now >= self._ask_at:
            self._fence.ask()
            self._asked_at = now
        held_s = now - self._held_since
        if xid is not None and self._buffer.held is None and held_s > self._limits.stuck_s:
            self._buffer.held = Held(xid, time.time() - held_s)
            _log.warning("a received transaction is not visible yet: is a synchronous standby missing?",
                         extra={"xid": xid})  # fmt: skip
