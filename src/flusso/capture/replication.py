"""The replication connection: START_REPLICATION, frames in, status out.

Owned by the stream's reader. Speaks libpq through psycopg's `pq` layer, never blocks longer than a
short poll, and turns the server's errors into ours.
"""

from __future__ import annotations

import os
import select
import time

import psycopg
from psycopg import pq
from tenacity import Retrying, retry_if_exception_type, stop_before_delay, wait_random_exponential

from flusso.capture.fingerprint import Gap
from flusso.capture.protocol import encode_status
from flusso.errors import (
    SlotBusy,
    SlotInvalidated,
    SlotMissing,
    SourceError,
    SourceRefused,
    SourceUnavailable,
)
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, Dsn, connect_replication, translate
from flusso.postgres.identifiers import literal, quote

_POLL_MS = 250
_ANSWER_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_RESEED = 'run flusso reindex --all, or set source.on_slot_lost = "reseed"'


class Replication:
    """An open replication stream of one slot. Not thread-safe."""

    def __init__(self, conn: Connection, slot: str) -> None:
        self._conn = conn
        self._pgconn = conn.pgconn
        self._slot = slot
        self._has_ended = False
        self.has_more = True
        """Whether libpq may hold frames already read from the socket, which a poll does not show."""

    def fileno(self) -> int:
        """The socket, for polling."""
        return self._pgconn.socket

    def receive(self, limit: int) -> list[memoryview]:
        """Read what the socket has and give the whole frames, at most `limit` of them; never waits.

        Call it again while `has_more`, else when the socket is readable. A stream that has ended gives what
        it had, and then raises: `SourceUnavailable` for a lost connection, else what the server said.
        """
        frames: list[memoryview] = []
        take, get = frames.append, self._pgconn.get_copy_data
        if self._has_ended:
            raise self._end_of_stream()
        try:
            size, frame = get(1)
            if size == 0:
                self._pgconn.consume_input()
                size, frame = get(1)
            while size > 0:
                take(frame)
                if len(frames) >= limit:
                    break
                size, frame = get(1)
        except psycopg.Error as error:
            raise translate(error, f'lost the stream of slot "{self._slot}"') from error
        self._has_ended = size < 0
        self.has_more = size != 0
        return frames

    def send_status(self, written: Lsn, confirmed: Lsn, *, reply: bool) -> None:
        """Tell the server how far we are; `reply` asks it for a keepalive. Never waits.

        The slot moves to `confirmed`, never backwards; before that everything must be durable elsewhere.
        """
        status = encode_status(written, confirmed, confirmed, reply=reply, now_us=time.time_ns() // 1000)
        try:
            # What the socket does not take now goes out with the next status.
            self._pgconn.put_copy_data(status)
            self._pgconn.flush()
        except psycopg.Error as error:
            raise translate(error, f'lost the stream of slot "{self._slot}"') from error

    def close(self) -> None:
        """Close the socket, which releases the slot."""
        self._conn.close()

    def begin(self, publication: str, start: Lsn | None = None) -> None:
        """Ask for the stream from where the slot stands, or from a later `start`.

        The server takes a `start` behind the slot for the slot's own position, and leaves out transactions
        that committed before a later one. Raises `SlotBusy` at once when the slot has a reader.
        """
        names = literal(quote(publication))
        command = (
            f"START_REPLICATION SLOT {quote(self._slot)} LOGICAL {start or Lsn(0)} "
            f"(proto_version '1', publication_names {names})"
        )
        try:
            self._pgconn.send_query(command.encode())
            result = self._await_result()
            if result.status == pq.ExecStatus.COPY_BOTH:
                self._pgconn.nonblocking = 1
                return
            while self._pgconn.get_result() is not None:
                pass
        except psycopg.Error as error:
            raise translate(error, f'cannot follow slot "{self._slot}"') from error
        raise error_of(result, self._slot)

    def _await_result(self) -> pq.abc.PGresult:
        deadline = time.monotonic() + _ANSWER_S
        poll = select.poll()
        poll.register(self._pgconn.socket, select.POLLIN)
        while self._pgconn.is_busy():
            if time.monotonic() > deadline:
                raise SourceUnavailable(f'the server does not answer for slot "{self._slot}"')
            if poll.poll(_POLL_MS):
                self._pgconn.consume_input()
        result = self._pgconn.get_result()
        if result is None:
            raise SourceUnavailable(f'the server ended the stream of slot "{self._slot}"')
        return result

    def _end_of_stream(self) -> SourceError:
        try:
            result = self._await_result()
        except psycopg.Error as error:
            return translate(error, f'lost the stream of slot "{self._slot}"')
        except SourceError as error:
            return error
        if result.status == pq.ExecStatus.FATAL_ERROR:
            return error_of(result, self._slot)
        return SourceUnavailable(f'the server ended the stream of slot "{self._slot}"')


def open_replication(
    dsn: Dsn, slot: str, publication: str, *, patience_s: float, start: Lsn | None = None
) -> Replication:
    """Connect and start, from where the slot stands or from `start`, whichever is later.

    A slot that is still busy is tried again with growing pauses, its reader may be dying; after `patience_s`,
    or at once when our own parent is gone, that raises `SlotBusy`. Raises `SlotMissing`, `SlotInvalidated`,
    `PublicationError`, `SourceRefused` or `SourceUnavailable` at once.
    """
    parent = os.getppid()
    replication = Replication(connect_replication(dsn), slot)
    is_late = stop_before_delay(patience_s)
    # The server tells nobody when a slot becomes free: ask again, and not all at the same moment.
    attempts = Retrying(
        retry=retry_if_exception_type(SlotBusy),
        wait=wait_random_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S),
        stop=lambda state: is_late(state) or os.getppid() != parent,
        reraise=True,
    )
    try:
        attempts(replication.begin, publication, start)
    except BaseException:
        replication.close()
        raise
    return replication


def error_of(result: pq.abc.PGresult, slot: str) -> SourceError:
    """Turn the server's error into ours."""
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"no detail").decode(errors="replace")
    doing = f'cannot follow slot "{slot}": {text}'
    if state == "55006":
        return SlotBusy(doing, hint="stop that reader, or choose another slot name")
    if state == "42704" and text.startswith("publication"):
        return Gap(doing, is_replaced=True).error(slot)
    if state == "42704":
        return SlotMissing(doing, hint=_RESEED)
    if state in ("55000", "58P01"):
        return SlotInvalidated(doing, hint=f"run flusso slot drop, then {_RESEED}")
    if state.startswith(("08", "53", "57", "58")) or not state:
        return SourceUnavailable(doing)
    return SourceRefused(doing)
