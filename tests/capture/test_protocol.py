from __future__ import annotations

from struct import pack, unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flusso.capture.protocol import (
    Keepalive,
    XLogData,
    decode_frame,
    encode_status,
    to_postgres_us,
    to_unix_us,
)
from flusso.errors import DecodeError
from flusso.lsn import Lsn


def test_a_wal_data_frame_gives_its_positions_and_payload() -> None:
    frame = b"w" + pack(">QQq", 5, 9, 1) + b"payload"
    assert decode_frame(frame) == XLogData(Lsn(5), Lsn(9), b"payload", to_unix_us(1))


def test_a_keepalive_frame_gives_its_end_and_whether_a_reply_is_wanted() -> None:
    assert decode_frame(b"k" + pack(">QqB", 7, -2, 1)) == Keepalive(Lsn(7), True, to_unix_us(-2))


@pytest.mark.parametrize("frame", [b"", b"w", b"w" + bytes(23), b"k", b"k" + bytes(18), b"x" + bytes(40)])
def test_a_malformed_frame_is_a_decode_error(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_frame(frame)


@given(st.binary(max_size=40))
def test_any_bytes_give_a_frame_or_a_decode_error(data: bytes) -> None:
    try:
        frame = decode_frame(data)
    except DecodeError:
        return
    assert isinstance(frame, XLogData | Keepalive)


def test_a_status_carries_three_positions_the_clock_and_the_reply_flag() -> None:
    status = encode_status(Lsn(3), Lsn(2), Lsn(1), reply=True, now_us=946_684_800_000_007)
    assert unpack(">cQQQqB", status) == (b"r", 3, 2, 1, 7, 1)


def test_postgres_time_starts_in_the_year_2000() -> None:
    assert to_unix_us(0) == 946_684_800_000_000
    assert to_postgres_us(to_unix_us(123)) == 123
