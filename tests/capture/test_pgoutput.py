from __future__ import annotations

import random
from struct import pack
from typing import get_args

import pytest
from encode_pgoutput import encode, name, values
from fuzz_decoder import SEEDS, damaged, fuzz
from hypothesis import given
from hypothesis import strategies as st
from pgoutput_messages import KINDS, columns, messages, rows

from flusso.capture import pgoutput as m
from flusso.capture.pgoutput import decode
from flusso.capture.rows import RowAssembler, RowChange
from flusso.catalog import IdentityKind, TableName
from flusso.change import Values, WatchedTable
from flusso.errors import DecodeError
from flusso.lsn import Lsn
from sizes import SIZES


def test_messages_of_every_kind_are_made_up() -> None:
    assert set(KINDS) == set(get_args(m.Message))


@given(messages)
def test_every_message_comes_back_as_it_was_written(message: m.Message) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=60))
def test_any_bytes_give_a_message_or_a_decode_error(data: bytes) -> None:
    _decode_or_refuse(data)


@given(st.sampled_from(b"BCORYIUDTM"), st.binary(max_size=60))
def test_any_bytes_after_a_known_kind_give_a_message_or_a_decode_error(kind: int, data: bytes) -> None:
    _decode_or_refuse(bytes([kind]) + data)


@given(messages, st.data())
def test_a_mutated_message_gives_a_message_or_a_decode_error(message: m.Message, data: st.DataObject) -> None:
    raw = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    _decode_or_refuse(bytes(raw))


@given(messages, st.data())
def test_a_truncated_message_raises_decode_error(message: m.Message, data: st.DataObject) -> None:
    raw = encode(message)
    with pytest.raises(DecodeError):
        decode(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(messages, st.binary(min_size=1, max_size=4))
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


@pytest.mark.parametrize("kind", [*"SEcAp", *"bPKr"])
def test_a_message_of_streamed_or_two_phase_transactions_is_refused_by_name(kind: str) -> None:
    with pytest.raises(
        DecodeError, match=r"a (stream|begin|commit|rollback)?.* message, which was not asked for"
    ):
        decode(kind.encode() + bytes(30))


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


@given(st.lists(columns, min_size=1, max_size=5), st.integers(0, 255))
def test_only_the_first_flag_of_a_column_makes_it_a_key(made: list[m.RelationColumn], flags: int) -> None:
    relation = m.Relation(1, "public", "t", IdentityKind.DEFAULT, tuple(made))
    raw = bytearray(encode(relation))
    at = raw.index(b"public\0t\0") + len(b"public\0t\0") + 3
    raw[at] = flags
    found = decode(bytes(raw))
    assert isinstance(found, m.Relation)
    assert found.columns[0].is_key == bool(flags & 1)
    assert found.columns[1:] == relation.columns[1:]


@given(rows(), st.data())
def test_a_binary_value_is_refused_wherever_it_stands(row: Values, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(row)))
    width = pack(">H", len(row) + 1)
    written = [values((each,))[2:] for each in row]
    written.insert(at, b"b" + pack(">i", 2) + b"\0\1")
    with pytest.raises(DecodeError, match="binary"):
        decode(b"I" + pack(">I", 1) + b"N" + width + b"".join(written))


@given(st.lists(rows(3), min_size=1, max_size=4), st.sampled_from(["K", "O"]))
def test_full_rows_are_those_of_the_strict_decoder(drawn: list[Values], kind: str) -> None:
    table = WatchedTable(TableName("public", "t"), ("a",))
    made = RowAssembler((table,), piece_changes=2, piece_bytes=1 << 20, start=Lsn(1))
    named = tuple(m.RelationColumn(each, 25, -1, kind == "O" or each == "a") for each in "abc")
    changes: list[m.Insert | m.Update | m.Delete] = []
    for row in drawn:
        changes += [m.Insert(1, row), m.Update(1, kind, row, drawn[0]), m.Delete(1, kind, row)]
    stream = [m.Relation(1, "public", "t", IdentityKind.FULL, named), m.Begin(Lsn(5), 0, 7), *changes]
    stream.append(m.Commit(Lsn(5), Lsn(6), 0))
    found = [RowChange(*row) for each in stream for piece in made.feed(encode(each)) for row in piece.changes]
    assert [(row.old, row.new) for row in found] == [
        (_old(getattr(change, "old", None), kind), getattr(change, "new", None)) for change in changes
    ]
    assert [row.ordinal for row in found] == list(range(1, len(changes) + 1))


def _old(old: Values | None, kind: str) -> Values | None:
    return old if old is None or kind == "O" else (old[0], None, None)


@pytest.mark.sized
def test_damaged_messages_of_every_kind_are_read_or_refused() -> None:
    chance = random.Random(7)
    for data in SEEDS:
        fuzz(data)
    for _ in range(SIZES.fuzzed_messages):
        fuzz(damaged(chance))
