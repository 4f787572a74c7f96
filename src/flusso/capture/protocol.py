"""Frames inside a logical replication stream: what the server sends in COPY BOTH, and our status.

Pure functions over bytes. `replication` moves the bytes, `pgoutput` reads what an `XLogData` carries.
The reader's hot loop looks at the frame kind itself and comes here only for keepalives; the layout is
written down once, in the constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from flusso.errors import DecodeError
from flusso.lsn import Lsn

XLOG_DATA = 0x77
KEEPALIVE = 0x6B
PAYLOAD_START = 25
"""Where the payload of an `XLogData` frame begins: kind, start, end, send time."""

_XLOG_HEAD = Struct(">BQQq")
_KEEPALIVE = Struct(">BQqB")
_STATUS = Struct(">BQQQqB")
_STATUS_KIND = 0x72
_EPOCH_US = 946_684_800_000_000
"""Postgres counts microseconds from 2000-01-01, Unix from 1970-01-01."""


@dataclass(frozen=True, slots=True)
class XLogData:
    """A piece of the stream; `end` is where the server's WAL ended when it was sent."""

    start: Lsn
    end: Lsn
    payload: bytes
    sent_us: int
    """When it was sent, in microseconds of Unix time."""


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server has sent everything up to `end` and may ask for a sign of life."""

    end: Lsn
    reply_requested: bool
    sent_us: int
    """When it was sent, in microseconds of Unix time."""


Frame = XLogData | Keepalive


def decode_frame(data: bytes) -> Frame:
    """Read one frame; anything malformed is a `DecodeError`."""
    if not data:
        raise DecodeError("an empty replication frame")
    kind = data[0]
    if kind == XLOG_DATA:
        if len(data) < PAYLOAD_START:
            raise DecodeError(f"a WAL data frame of {len(data)} bytes is too short")
        _, start, end, sent = _XLOG_HEAD.unpack_from(data)
        return XLogData(Lsn(start), Lsn(end), bytes(data[PAYLOAD_START:]), to_unix_us(sent))
    if kind == KEEPALIVE:
        if len(data) != _KEEPALIVE.size:
            raise DecodeError(f"a keepalive frame of {len(data)} bytes, expected {_KEEPALIVE.size}")
        _, end, sent, reply = _KEEPALIVE.unpack(data)
        if reply > 1:
            raise DecodeError(f"a keepalive frame with the reply flag {reply}")
        return Keepalive(Lsn(end), bool(reply), to_unix_us(sent))
    raise DecodeError(f"a replication frame of unknown kind 0x{kind:02x}")


def encode_status(written: Lsn, flushed: Lsn, applied: Lsn, *, reply: bool, now_us: int) -> bytes:
    """Write a standby status update; `now_us` is Unix time, `reply` asks the server for a keepalive."""
    return _STATUS.pack(_STATUS_KIND, written, flushed, applied, to_postgres_us(now_us), reply)


def to_postgres_us(unix_us: int) -> int:
    """Convert Unix microseconds to Postgres's."""
    return unix_us - _EPOCH_US


def to_unix_us(postgres_us: int) -> int:
    """Convert Postgres's microseconds to Unix ones."""
    return postgres_us + _EPOCH_US
