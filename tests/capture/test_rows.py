from __future__ import annotations

from collections.abc import Iterable

import pytest
from encode_pgoutput import encode
from hypothesis import given
from hypothesis import strategies as st

from flusso.capture import pgoutput as m
from flusso.capture import row_wire, wire
from flusso.capture.buffer import PieceBuffer, pack
from flusso.capture.rows import RowAssembler, RowChange
from flusso.capture.transactions import Assembler, Piece, Position
from flusso.catalog import IdentityKind, TableName
from flusso.change import UNCHANGED, WatchedTable
from flusso.errors import DecodeError, SourceUnavailable
from flusso.lsn import Lsn

USERS = WatchedTable(TableName("public", "users"), ("id",), (TableName("parts", "users_1"),))


def relation(
    columns: str,
    keys: str = "id",
    kind: IdentityKind = IdentityKind.DEFAULT,
    name: str = "users",
    oid: int = 1,
) -> m.Relation:
    return m.Relation(
        oid,
        "parts" if name == "users_1" else "public",
        name,
        kind,
        tuple(m.RelationColumn(column, 25, -1, column in keys.split()) for column in columns.split()),
    )


def assembler(piece_changes: int = 1000, piece_bytes: int = 1 << 20, start: int = 10) -> RowAssembler:
    made = RowAssembler((USERS,), piece_changes=piece_changes, piece_bytes=piece_bytes, start=Lsn(start))
    assert not made.feed(encode(relation("id name")))
    assert not made.feed(encode(relation("id", name="other", oid=3)))
    return made


def transaction(*changes: m.Message, final: int = 100, xid: int = 7) -> list[m.Message]:
    return [m.Begin(Lsn(final), 5, xid), *changes, m.Commit(Lsn(final), Lsn(final + 8), 5)]


def feed(made: Assembler, messages: Iterable[m.Message]) -> list[Piece]:
    return [piece for message in messages for piece in made.feed(encode(message))]


def changes(pieces: Iterable[Piece]) -> list[RowChange]:
    return [RowChange(*row) for piece in pieces for row in piece.changes]


def test_a_row_comes_with_all_its_columns_its_transaction_and_its_time() -> None:
    (row,) = changes(feed(assembler(), transaction(m.Insert(1, ("5", "Ann")))))
    assert [column.name for column in row.shape.columns] == ["id", "name"]
    assert (row.operation, row.old, row.new) == ("i", None, ("5", "Ann"))
    assert (row.commit_lsn, row.ordinal, row.commit_time_us, row.xid) == (100, 1, 5, 7)


def test_nothing_is_folded() -> None:
    repeated = [m.Update(1, None, None, ("5", "Ann"))] * 3
    assert len(changes(feed(assembler(), transaction(*repeated)))) == 3


def test_a_whole_old_row_stays_as_it_is_and_an_unchanged_value_is_not_filled_in() -> None:
    made = assembler()
    made.feed(encode(relation("id name", "id name", IdentityKind.FULL)))
    (row,) = changes(feed(made, transaction(m.Update(1, "O", ("5", "big"), ("5", UNCHANGED)))))
    assert (row.is_whole_old, row.old, row.new) == (True, ("5", "big"), ("5", UNCHANGED))


def test_an_old_key_is_known_to_be_no_more_than_that() -> None:
    (row,) = changes(feed(assembler(), transaction(m.Delete(1, "K", ("5", None)))))
    assert (row.is_whole_old, row.old, row.new) == (False, ("5", None), None)


def test_columns_are_those_of_the_last_relation_message() -> None:
    messages = [m.Insert(1, ("5", "Ann")), relation("title id"), m.Insert(1, ("Dr", "6"))]
    first, second = changes(feed(assembler(), transaction(*messages)))
    assert [column.name for column in first.shape.columns] == ["id", "name"]
    assert [column.name for column in second.shape.columns] == ["title", "id"]


def test_the_key_under_a_full_identity_is_the_primary_key() -> None:
    made = assembler()
    made.feed(encode(relation("id name", "id name", IdentityKind.FULL)))
    (row,) = changes(feed(made, transaction(m.Insert(1, ("5", "Ann")))))
    assert row.shape.key == ("id",)


def test_the_key_is_the_replica_identity_where_a_rename_hides_the_primary_key() -> None:
    made = assembler()
    made.feed(encode(relation("number name", "number name", IdentityKind.FULL)))
    (row,) = changes(feed(made, transaction(m.Insert(1, ("5", "Ann")))))
    assert row.shape.key == ("number", "name")


def test_a_row_of_a_partition_comes_under_the_name_of_its_table() -> None:
    made = assembler()
    made.feed(encode(relation("id name", name="users_1", oid=4)))
    (row,) = changes(feed(made, transaction(m.Insert(4, ("5", "Ann")))))
    assert row.shape.table == USERS.name


def test_a_truncate_is_a_row_of_its_own() -> None:
    (row,) = changes(feed(assembler(), transaction(m.Truncate((3, 1), False, False))))
    assert (row.shape.table, row.operation, row.old, row.new) == (USERS.name, "t", None, None)


def test_ordinals_count_what_is_not_watched_and_not_folded_as_the_thin_way_does() -> None:
    messages = transaction(
        m.Insert(1, ("5", "a")), m.Insert(3, ("1",)), m.Insert(1, ("5", "a")), m.Insert(1, ("6", "b"))
    )
    thin = Assembler((USERS,), piece_changes=9, piece_bytes=1 << 20, start=Lsn(10))
    for message in (relation("id name"), relation("id", name="other", oid=3)):
        thin.feed(encode(message))
    assert [row.ordinal for row in changes(feed(assembler(), messages))] == [1, 3, 4]
    assert [row[5] for piece in feed(thin, messages) for row in piece.changes] == [1, 4]


@pytest.mark.parametrize("limits", [{"piece_changes": 3}, {"piece_bytes": 1500}])
def test_a_large_transaction_is_handed_on_in_pieces(limits: dict[str, int]) -> None:
    rows = [m.Insert(1, (str(number), "x")) for number in range(10)]
    pieces = feed(assembler(**limits), transaction(*rows))
    assert max(piece.count for piece in pieces) == (3 if "piece_changes" in limits else 2)
    assert [row.ordinal for row in changes(pieces)] == list(range(1, 11))


_row = st.tuples(
    st.sampled_from("iud"), st.none() | st.just(("1", None)), st.none() | st.just(("é", UNCHANGED))
)


@given(st.lists(_row, max_size=5))
def test_rows_come_back_as_they_were_sent(drawn: list[tuple[str, None, None]]) -> None:
    (given_row,) = changes(feed(assembler(), transaction(m.Insert(1, ("5", "Ann")))))
    rows = [(given_row.shape, op, False, old, new, 100, n, None, 7) for n, (op, old, new) in enumerate(drawn)]
    assert list(row_wire.decode(row_wire.encode(rows))) == [RowChange(*row) for row in rows]


def test_bytes_that_are_no_rows_raise_decode_error() -> None:
    thin = wire.encode([(TableName("public", "t"), "i", None, ("1",), 5, 1, -1)])
    for payload in (b"not arrow at all", thin):
        with pytest.raises(DecodeError):
            list(row_wire.decode(payload))


# Positions of an earlier reader


_MESSAGES = [
    *transaction(*(m.Insert(1, (str(number), "a")) for number in range(7)), final=100),
    *transaction(m.Insert(1, ("7", "b")), final=200),
    *transaction(*(m.Insert(1, (str(number), "c")) for number in range(8, 12)), final=300),
]
_POINTS = [
    Position(Lsn(10)),
    Position(Lsn(10), Lsn(100), 3),
    Position(Lsn(10), Lsn(100), 6),
    Position(Lsn(108)),
    Position(Lsn(150)),
    Position(Lsn(208)),
    # An earlier reader may have met a keepalive that this one did not.
    Position(Lsn(250), Lsn(300), 2),
    Position(Lsn(308)),
]


def buffer_of(piece_changes: int, resume: Position | None = None) -> PieceBuffer:
    buffer = PieceBuffer(Position(Lsn(10)), resume)
    made = assembler(piece_changes=piece_changes)
    for message in _MESSAGES:
        pieces = made.feed(encode(message))
        if pieces:
            buffer.expose(pack(pieces, row_wire.encode, piece_changes=piece_changes, piece_bytes=1 << 20))
    return buffer


def taken(buffer: PieceBuffer, after: Position, to: Position) -> list[tuple[int, int]]:
    return [
        (row.commit_lsn, row.ordinal)
        for piece in buffer.pieces(after, to)
        for row in row_wire.decode(piece.payload)
    ]


_ALL = taken(buffer_of(1000), _POINTS[0], _POINTS[-1])


@pytest.mark.parametrize("piece_changes", [1, 2, 5, 1000])
@pytest.mark.parametrize("point", _POINTS[1:-1], ids=str)
def test_any_position_of_another_reader_parts_the_rows_in_the_same_place(
    point: Position, piece_changes: int
) -> None:
    buffer = buffer_of(piece_changes)
    before, after = taken(buffer, _POINTS[0], point), taken(buffer, point, _POINTS[-1])
    assert before + after == _ALL
    assert before == [key for key in _ALL if key <= point.key]


@pytest.mark.parametrize("piece_changes", [1, 5, 1000])
@pytest.mark.parametrize("point", _POINTS[1:-1], ids=str)
def test_a_buffer_that_resumes_holds_what_follows_and_nothing_else(
    point: Position, piece_changes: int
) -> None:
    buffer = buffer_of(piece_changes, point)
    assert taken(buffer, point, _POINTS[-1]) == [key for key in _ALL if key > point.key]
    with pytest.raises(SourceUnavailable):
        buffer.pieces(_POINTS[0], _POINTS[-1])


def test_nothing_past_a_bound_is_given_even_where_a_piece_reaches_over_it() -> None:
    buffer = buffer_of(1000)
    bound = Position(Lsn(150))
    end = buffer.available(_POINTS[0], max_changes=1000, max_bytes=1 << 20, until=bound)
    assert taken(buffer, _POINTS[0], end) == [key for key in _ALL if key <= bound.key]
    assert buffer.available(bound, max_changes=1000, max_bytes=1 << 20, until=bound) == bound


def test_a_buffer_is_awaited_until_it_reaches_what_was_asked_for() -> None:
    buffer = PieceBuffer(Position(Lsn(10)))
    assert not buffer.reach(Position(Lsn(50)), 0)
    assert buffer.is_awaited
    buffer.expose(pack([Piece(Position(Lsn(60)), None)], row_wire.encode, piece_changes=1, piece_bytes=1))
    assert buffer.reach(Position(Lsn(50)), 0)
    assert not buffer.is_awaited
