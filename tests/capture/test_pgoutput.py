from __future__ import annotations

from struct import pack

import pytest
from encode_pgoutput import encode, name, values
from hypothesis import given
from hypothesis import strategies as st

from flusso.capture import pgoutput as m
from flusso.capture.pgoutput import decode
from flusso.catalog import IdentityKind
from flusso.change import UNCHANGED
from flusso.errors import DecodeError
from flusso.lsn import Lsn

_lsns = st.integers(0, 2**64 - 1).map(Lsn)
_times = st.integers(-(2**63), 2**63 - 1)
_u32 = st.integers(0, 2**32 - 1)
_names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
_rows = st.lists(st.none() | st.just(UNCHANGED) | _texts, max_size=5).map(tuple)
_columns = st.builds(m.RelationColumn, _names, _u32, st.integers(-(2**31), 2**31 - 1), st.booleans())
MESSAGES = st.one_of(
    st.builds(m.Begin, _lsns, _times, _u32),
    st.builds(m.Commit, _lsns, _lsns, _times),
    st.builds(m.Origin, _lsns, _names),
    st.builds(
        m.Relation,
        _u32,
        _names,
        _names,
        st.sampled_from(IdentityKind),
        st.lists(_columns, max_size=4).map(tuple),
    ),
    st.builds(m.Type, _u32, _names, _names),
    st.builds(m.Insert, _u32, _rows),
    st.builds(m.Update, _u32, st.sampled_from(["K", "O"]), _rows, _rows),
    st.builds(m.Update, _u32, st.none(), st.none(), _rows),
    st.builds(m.Delete, _u32, st.sampled_from(["K", "O"]), _rows),
    st.builds(m.Truncate, st.lists(_u32, max_size=4).map(tuple), st.booleans(), st.booleans()),
    st.builds(m.LogicalMessage, st.booleans(), _lsns, _names, st.binary(max_size=9)),
)


@given(MESSAGES)
def test_every_message_comes_back_as_it_was_written(message: m.Message) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=60))
def test_any_bytes_give_a_message_or_a_decode_error(data: bytes) -> None:
    _decode_or_refuse(data)


@given(st.sampled_from(b"BCORYIUDTM"), st.binary(max_size=60))
def test_any_bytes_after_a_known_kind_give_a_message_or_a_decode_error(kind: int, data: bytes) -> None:
    _decode_or_refuse(bytes([kind]) + data)


@given(MESSAGES, st.data())
def test_a_mutated_message_gives_a_message_or_a_decode_error(message: m.Message, data: st.DataObject) -> None:
    raw = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    _decode_or_refuse(bytes(raw))


@given(MESSAGES, st.data())
def test_a_truncated_message_raises_decode_error(message: m.Message, data: st.DataObject) -> None:
    raw = encode(message)
    with pytest.raises(DecodeError):
        decode(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(MESSAGES, st.binary(min_size=1, max_size=4))
def test_bytes_after_the_end_of_a_message_raise_decode_error(message: m.Message, rest: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(encode(message) + rest)


@pytest.mark.parametrize(
    "raw",
    [
        b"I" + pack(">I", 1) + b"N" + pack(">H", 1) + b"b" + pack(">i", 1) + b"x",
        b"I" + pack(">I", 1) + b"N" + pack(">H", 1) + b"t" + pack(">i", -1),
        b"I" + pack(">I", 1) + b"N" + pack(">H", 1) + b"t" + pack(">i", 1) + b"\xff",
        b"I" + pack(">I", 1) + b"N" + pack(">H", 1) + b"t" + pack(">i", 1) + b"\0",
        b"I" + pack(">I", 1) + b"K" + values(("1",)),
        b"D" + pack(">I", 1) + b"N" + values(("1",)),
        b"T" + pack(">iB", -1, 0),
        b"R" + pack(">I", 1) + b"\xff\0" + name("t") + b"d" + pack(">H", 0),
        b"R" + pack(">I", 1) + name("s") + name("t") + b"x" + pack(">H", 0),
        b"S" + pack(">IB", 1, 1),
    ],
    ids=[
        "binary",
        "negative",
        "not-utf8",
        "zero",
        "insert-old",
        "delete-new",
        "count",
        "name",
        "identity",
        "streaming",
    ],
)
def test_what_protocol_version_1_never_sends_raises_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(raw)


def test_an_empty_namespace_is_the_catalog() -> None:
    message = decode(b"Y" + pack(">I", 1) + b"\0" + name("int4"))
    assert isinstance(message, m.Type)
    assert message.namespace == "pg_catalog"


def _decode_or_refuse(data: bytes) -> None:
    try:
        message = decode(data)
    except DecodeError:
        return
    assert isinstance(message, m.Message.__args__)  # type: ignore[attr-defined]
