"""The replication connection: START_REPLICATION, frames in, status out.

Owned by the stream's reader. Speaks libpq through psycopg's `pq` layer, never blocks longer than a
short poll, and turns the server's errors into ours.
"""

from __future__ import annotations

import os
import random
import select
import time

import psycopg
from psycopg import pq

from flusso.capture.protocol import encode_status
from flusso.errors import PublicationError, SlotBusy, SlotLost, SourceError, SourceRefused, SourceUnavailable
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, Dsn, connect_replication, translate
from flusso.postgres.identifiers import literal, quote

_POLL_MS = 250
_ANSWER_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


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
        """Read what the socket has and give the whole frames, at most about `limit` of them."""
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
        """Tell the server how far we are; `reply` asks it for a keepalive."""
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

    def begin(self, publication: str) -> None:
        """Ask for the stream; raises `SlotBusy` at once when the slot has a reader."""
        names = literal(quote(publication))
        command = (
            f"START_REPLICATION SLOT {quote(self._slot)} LOGICAL 0/0 "
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


def open_replication(dsn: Dsn, slot: str, publication: str, *, patience_s: float) -> Replication:
    """Connect and start; a slot that is still busy is tried again, its reader may be dying."""
    parent = os.getppid()
    deadline = time.monotonic() + patience_s
    replication = Replication(connect_replication(dsn), slot)
    pause_s = _FIRST_PAUSE_S
    try:
        while True:
            try:
                replication.begin(publication)
                return replication
            except SlotBusy:
                if time.monotonic() + pause_s > deadline or os.getppid() != parent:
                    raise
            # The server tells nobody when a slot becomes free: ask again, and not all at the same moment.
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    except BaseException:
        replication.close()
        raise


def error_of(result: pq.abc.PGresult, slot: str) -> SourceError:
    """Turn the server's error into ours."""
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"no detail").decode(errors="replace")
    doing = f'cannot follow slot "{slot}": {text}'
    if state == "55006":
        return SlotBusy(doing, hint="stop that reader, or choose another slot name")
    if state == "42704" and text.startswith("publication"):
        return PublicationError(
            doing, hint="the publication must exist since before the slot: drop the slot and seed anew"
        )
    if state in ("42704", "55000", "58P01"):
        return SlotLost(doing, hint="drop the slot, then run flusso reindex --all")
    if state.startswith(("08", "53", "57", "58")) or not state:
        return SourceUnavailable(doing)
    return SourceRefused(doing)
