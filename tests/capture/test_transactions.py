from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from encode_pgoutput import encode
from hypothesis import given
from hypothesis import strategies as st

from flusso.capture import pgoutput as m
from flusso.capture.transactions import Assembler, Piece, Position, Row
from flusso.catalog import IdentityKind, TableName
from flusso.change import ALL, UNCHANGED, Values, WatchedTable
from flusso.errors import DecodeError
from flusso.lsn import Lsn

USERS = WatchedTable(TableName("public", "users"), ("id", "boss"))
TAGS = WatchedTable(TableName("public", "tags"), ("id",))


def relation(
    oid: int, name: str, columns: str, keys: str = "id", kind: IdentityKind = IdentityKind.DEFAULT
) -> m.Relation:
    return m.Relation(
        oid,
        "public",
        name,
        kind,
        tuple(m.RelationColumn(column, 25, -1, column in keys.split()) for column in columns.split()),
    )


RELATIONS = (
    relation(1, "users", "name boss id"),
    relation(2, "tags", "id label", "id label", IdentityKind.FULL),
    relation(3, "other", "id"),
)


def assembler(
    piece_changes: int = 1000, piece_bytes: int = 1 << 20, *, fold: bool = True, start: int = 10
) -> Assembler:
    made = Assembler(
        (USERS, TAGS), piece_changes=piece_changes, piece_bytes=piece_bytes, fold=fold, start=Lsn(start)
    )
    for message in RELATIONS:
        assert not made.feed(encode(message))
    return made


def feed(made: Assembler, messages: Iterable[m.Message]) -> list[Piece]:
    return [piece for message in messages for piece in made.feed(encode(message))]


def transaction(*changes: m.Message, final: int = 100, xid: int = 7) -> list[m.Message]:
    return [m.Begin(Lsn(final), 0, xid), *changes, m.Commit(Lsn(final), Lsn(final + 8), 0)]


def images(pieces: Sequence[Piece]) -> list[tuple[str, str, Values | None, Values | None]]:
    return [(row[0].name, row[1], row[2], row[3]) for piece in pieces for row in piece.changes]


def test_only_watched_columns_are_taken_in_the_order_asked_for() -> None:
    pieces = feed(assembler(), transaction(m.Insert(1, ("Ann", None, "5"))))
    assert images(pieces) == [("users", "i", None, ("5", None))]


def test_what_follows_the_last_watched_column_is_not_even_looked_at() -> None:
    made = assembler()
    made.feed(encode(m.Begin(Lsn(100), 0, 7)))
    raw = encode(m.Update(2, "K", ("1", None), ("2", "label")))
    made.feed(raw[: -len("label")] + b"\xff" * len("label"))
    assert images(feed(made, [m.Commit(Lsn(100), Lsn(108), 0)])) == [("tags", "u", ("1",), ("2",))]


def test_a_whole_transaction_ends_at_the_end_of_its_commit() -> None:
    (piece,) = feed(assembler(), transaction(m.Insert(2, ("1", "x")), final=100))
    assert (piece.end, piece.xid, piece.count) == (Position(Lsn(108)), 7, 1)


def test_an_old_key_leaves_columns_outside_the_identity_unknown() -> None:
    pieces = feed(assembler(), transaction(m.Delete(1, "K", (None, "stray", "5"))))
    assert images(pieces) == [("users", "d", ("5", None), None)]


def test_a_key_change_carries_the_old_and_the_new_key() -> None:
    update = m.Update(1, "K", (None, None, "5"), ("Ann", "2", "6"))
    assert images(feed(assembler(), transaction(update))) == [("users", "u", ("5", None), ("6", "2"))]


def test_a_full_old_row_fills_an_unchanged_value() -> None:
    made = assembler()
    made.feed(encode(relation(1, "users", "name boss id", "name boss id", IdentityKind.FULL)))
    update = m.Update(1, "O", ("Ann", "big", "5"), ("Bob", UNCHANGED, "6"))
    assert images(feed(made, transaction(update))) == [("users", "u", ("5", "big"), ("6", "big"))]


def test_an_unchanged_value_without_an_old_row_stays_marked() -> None:
    update = m.Update(1, None, None, ("Bob", UNCHANGED, "5"))
    assert images(feed(assembler(), transaction(update))) == [("users", "u", None, ("5", UNCHANGED))]


def test_a_full_update_that_leaves_the_watched_columns_keeps_one_image() -> None:
    update = m.Update(2, "O", ("1", "a"), ("1", "b"))
    assert images(feed(assembler(), transaction(update))) == [("tags", "u", None, ("1",))]


def test_a_full_update_that_moves_a_row_keeps_both_images() -> None:
    update = m.Update(2, "O", ("1", "a"), ("2", "a"))
    assert images(feed(assembler(), transaction(update))) == [("tags", "u", ("1",), ("2",))]


def test_a_truncate_is_one_change_for_each_watched_table() -> None:
    pieces = feed(assembler(), transaction(m.Truncate((1, 3, 2), False, False)))
    assert images(pieces) == [("users", "t", None, None), ("tags", "t", None, None)]


def test_a_truncate_of_several_tables_is_never_cut_in_two() -> None:
    pieces = feed(assembler(piece_changes=1), transaction(m.Truncate((1, 2), False, False)))
    assert [piece.count for piece in pieces] == [2]


def test_repeated_images_are_kept_once_in_a_piece() -> None:
    repeated = [m.Update(1, None, None, (str(number), "2", "5")) for number in range(10)]
    assert len(images(feed(assembler(), transaction(*repeated)))) == 1


def test_folding_never_reaches_across_a_piece() -> None:
    rows = [m.Insert(2, (key, "x")) for key in "ababcaa"]
    pieces = feed(assembler(piece_changes=2), transaction(*rows))
    assert [[row[3] for row in piece.changes] for piece in pieces] == [[("a",), ("b",)], [("c",), ("a",)]]


def test_a_large_transaction_is_handed_on_in_pieces_that_leave_the_position_behind_it() -> None:
    rows = [m.Insert(2, (str(number), "x")) for number in range(10)]
    pieces = feed(assembler(piece_changes=4, start=10), transaction(*rows, final=100))
    assert [piece.end for piece in pieces] == [
        Position(Lsn(10), Lsn(100), 4),
        Position(Lsn(10), Lsn(100), 8),
        Position(Lsn(108)),
    ]


def test_a_piece_is_bounded_by_bytes_and_a_row_above_the_bound_stands_alone() -> None:
    rows = [m.Insert(2, (str(number) * 3000, "x")) for number in range(3)]
    pieces = feed(assembler(piece_bytes=1000), transaction(*rows))
    assert [piece.count for piece in pieces] == [1, 1, 1]


def test_positions_compare_in_stream_order() -> None:
    rows = [m.Insert(2, (str(number), "x")) for number in range(5)]
    made = assembler(piece_changes=2, start=10)
    ends = [piece.end for piece in feed(made, transaction(*rows, final=100) + transaction(*rows, final=200))]
    assert sorted(ends) == ends
    assert Position(Lsn(10)) < ends[0]


def test_relations_do_not_count_so_that_a_replay_numbers_alike() -> None:
    rows = [m.Insert(2, ("1", "x")), RELATIONS[1], m.Insert(2, ("2", "x"))]
    (piece,) = feed(assembler(), transaction(*rows))
    assert [row[5] for row in piece.changes] == [1, 2]


def test_a_transaction_without_watched_changes_still_moves_the_position() -> None:
    assert feed(assembler(), transaction(m.Insert(3, ("1",)))) == [Piece(Position(Lsn(108)), None)]


def test_a_keepalive_moves_the_position_when_no_transaction_is_open() -> None:
    assert assembler(start=10).keepalive(Lsn(50)) == (Piece(Position(Lsn(50)), None),)


def test_a_keepalive_inside_a_transaction_moves_nothing() -> None:
    made = assembler()
    made.feed(encode(m.Begin(Lsn(100), 0, 7)))
    assert not made.keepalive(Lsn(99))


def test_a_keepalive_behind_the_position_moves_nothing() -> None:
    assert not assembler(start=10).keepalive(Lsn(10))


def test_rows_that_lack_a_watched_column_are_told_as_rows_that_could_not_be_read() -> None:
    made = assembler()
    made.feed(encode(relation(1, "users", "id name")))
    pieces = feed(
        made,
        transaction(m.Insert(1, ("5", "Ann")), m.Insert(1, ("6", "Bob")), m.Truncate((1,), False, False)),
    )
    assert images(pieces) == [("users", "x", None, None), ("users", "t", None, None)]


def test_a_relation_that_changes_its_shape_is_read_by_its_new_one() -> None:
    made = assembler()
    first = feed(made, transaction(m.Insert(1, ("Ann", "2", "5"))))
    made.feed(encode(relation(1, "users", "boss age id")))
    second = feed(made, transaction(m.Insert(1, ("3", "40", "6")), final=200))
    assert images([*first, *second]) == [
        ("users", "i", None, ("5", "2")),
        ("users", "i", None, ("6", "3")),
    ]


def test_a_table_is_known_by_its_oid_under_any_name() -> None:
    made = Assembler([replace(TAGS, oid=2)], piece_changes=10, piece_bytes=1 << 20, start=Lsn(10))
    made.feed(encode(relation(2, "labels", "id label")))
    assert images(feed(made, transaction(m.Insert(2, ("1", "x"))))) == [("tags", "i", None, ("1",))]
    assert made.strangers == []


def test_another_table_of_a_watched_name_is_a_stranger() -> None:
    made = Assembler([replace(TAGS, oid=2)], piece_changes=10, piece_bytes=1 << 20, start=Lsn(10))
    made.feed(encode(relation(7, "tags", "id label")))
    assert made.strangers == [7]


@pytest.mark.parametrize(
    "messages",
    [
        [m.Insert(2, ("1", "x"))],
        [m.Truncate((2,), False, False)],
        [m.Begin(Lsn(100), 0, 7), m.Insert(9, ("1",))],
        [m.Begin(Lsn(100), 0, 7), m.Truncate((9,), False, False)],
        [m.Begin(Lsn(100), 0, 7), m.Insert(2, ("1",))],
        [m.Begin(Lsn(100), 0, 7), m.Begin(Lsn(100), 0, 7)],
        [m.Commit(Lsn(100), Lsn(108), 0)],
        [m.Begin(Lsn(100), 0, 7), m.Commit(Lsn(101), Lsn(108), 0)],
        [m.Begin(Lsn(1), 0, 7), m.Commit(Lsn(1), Lsn(2), 0)],
    ],
    ids=["row", "truncate", "relation", "truncated", "width", "begin", "commit", "other", "backwards"],
)
def test_messages_out_of_order_raise_decode_error(messages: list[m.Message]) -> None:
    with pytest.raises(DecodeError):
        feed(assembler(), messages)


_texts = st.none() | st.sampled_from(["", "a", "b", "é" * 40])
_values = st.none() | st.just(UNCHANGED) | st.sampled_from(["1", "2", "3", "long" * 90])


def _rows(width: int) -> st.SearchStrategy[Values]:
    return st.tuples(*([_values] * width))


def _changes(oid: int, width: int) -> st.SearchStrategy[m.Message]:
    rows = _rows(width)
    kinds = st.sampled_from(["K", "O"])
    return st.one_of(
        st.builds(m.Insert, st.just(oid), rows),
        st.builds(m.Update, st.just(oid), st.none(), st.none(), rows),
        st.builds(m.Update, st.just(oid), kinds, rows, rows),
        st.builds(m.Delete, st.just(oid), kinds, rows),
    )


_bodies = st.lists(
    st.one_of(
        _changes(1, 3),
        _changes(2, 2),
        _changes(3, 1),
        st.builds(
            m.Truncate,
            st.lists(st.sampled_from([1, 2, 3]), unique=True).map(tuple),
            st.booleans(),
            st.booleans(),
        ),
        st.just(m.Origin(Lsn(1), "elsewhere")),
        st.just(m.LogicalMessage(True, Lsn(1), "x", b"y")),
    ),
    max_size=12,
)


PEOPLE = WatchedTable(TableName("public", "people"), ("id", "boss"), read=("boss", "id", "name"))


def compared(
    *changes: m.Message, columns: str = "id note name boss", table: WatchedTable = PEOPLE
) -> tuple[list[Values | None], list[int], int]:
    """New rows and changed columns that an assembler hands on of a table with a full identity, and how many
    updates it leaves out."""
    made = Assembler((table,), piece_changes=100, piece_bytes=1 << 20)
    made.feed(encode(relation(1, "people", columns, columns, IdentityKind.FULL)))
    pieces = feed(made, transaction(*changes))
    rows = [row for piece in pieces for row in piece.changes]
    return [row[3] for row in rows], [row[6] for row in rows], sum(piece.unchanged for piece in pieces)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (("1", "n", "ann", None), 0),
        (("1", "other", "ann", None), 0),
        (("1", UNCHANGED, UNCHANGED, None), 0),
        (("1", "n", "bea", None), 0b100),
        (("1", "n", "ann", "7"), 0b001),
        (("1", "n", None, None), 0b100),
        (("1", "n", "", None), 0b100),
        (("2", "n", "an", "7"), 0b111),
    ],
    ids=["nothing", "not read", "not in the log", "text", "null", "to null", "to empty", "all"],
)
def test_an_update_tells_which_of_the_columns_read_it_changed_and_without_any_is_left_out(
    new: Values, expected: int
) -> None:
    _, changed, unchanged = compared(m.Update(1, "O", ("1", "n", "ann", None), new))
    assert (changed, unchanged) == (([expected], 0) if expected else ([], 1))


def test_each_update_is_compared_with_the_row_before_it_so_there_and_back_is_not_nothing() -> None:
    here, there = ("1", "n", "ann", None), ("1", "n", "bea", None)
    back = (m.Update(1, "O", here, there), m.Update(1, "O", there, here))
    assert compared(*back)[1:] == ([0b100], 0), "both have the same key: folded to one, which still counts"
    renamed = m.Update(1, "O", there, ("1", "n", "ann", "7"))
    assert compared(back[0], renamed)[1] == [0b100, 0b101]


def test_where_a_column_that_is_read_is_not_in_the_log_no_update_is_left_out() -> None:
    row = ("1", "n", None)
    assert compared(m.Update(1, "O", row, row), columns="id note boss")[1:] == ([ALL], 0)


def test_an_update_without_its_whole_old_row_is_never_left_out() -> None:
    row = ("1", "n", "ann", None)
    assert compared(m.Update(1, None, None, row))[1:] == ([ALL], 0)
    assert compared(m.Update(1, "K", row, row))[1:] == ([ALL], 0)


def test_inserts_and_deletes_count_whatever_is_read() -> None:
    row = ("1", "n", "ann", None)
    assert compared(m.Insert(1, row), m.Delete(1, "O", row))[1:] == ([ALL, ALL], 0)


def test_columns_beyond_the_last_bit_share_it() -> None:
    names = [f"c{n:03}" for n in range(100)]
    wide = WatchedTable(TableName("public", "people"), ("c000",), read=tuple(names))
    old = ("1",) * 100
    for place, bit in ((0, 0), (60, 60), (61, 61), (99, 61)):
        new = (*old[:place], "2", *old[place + 1 :])
        assert compared(m.Update(1, "O", old, new), columns=" ".join(names), table=wide)[1] == [1 << bit]


def test_updates_that_were_left_out_are_counted_over_pieces_and_transactions() -> None:
    row = ("1", "n", "ann", None)
    made = Assembler((PEOPLE,), piece_changes=1, piece_bytes=1 << 20)
    columns = "id note name boss"
    made.feed(encode(relation(1, "people", columns, columns, IdentityKind.FULL)))
    same = m.Update(1, "O", row, row)
    inserts = [m.Insert(1, (str(n), "", "", None)) for n in range(2)]
    pieces = feed(
        made, [*transaction(same, inserts[0], same, inserts[1], same), *transaction(same, final=200)]
    )
    assert sum(piece.unchanged for piece in pieces) == 4
    assert pieces[-1] == Piece(Position(Lsn(208)), None, unchanged=1)


@given(st.lists(_bodies, max_size=4), st.integers(1, 4), st.sampled_from([400, 1500, 1 << 20]), st.booleans())
def test_the_thin_reader_agrees_with_a_naive_one_over_decoded_messages(
    bodies: list[list[m.Message]], piece_changes: int, piece_bytes: int, fold: bool
) -> None:
    stream = [
        message
        for number, body in enumerate(bodies)
        for message in transaction(*body, final=100 * (number + 1), xid=number)
    ]
    pieces = feed(assembler(piece_changes, piece_bytes, fold=fold), stream)
    rows = [row for piece in pieces for row in piece.changes]
    assert all(piece.count == len(piece.changes) <= piece_changes + 1 for piece in pieces)
    ends = [piece.end for piece in pieces]
    assert ends == sorted(set(ends)), "each piece ends at a position of its own"
    expected = list(_naive(stream))
    if not fold:
        assert rows == expected
    assert [row for row in expected if row in rows] == rows
    assert {(row[0], row[2], row[3], row[4]) for row in rows} == {
        (row[0], row[2], row[3], row[4]) for row in expected
    }


@given(_changes(1, 3), st.data())
def test_the_thin_reader_refuses_what_the_strict_one_refuses(change: m.Message, data: st.DataObject) -> None:
    """With all columns watched: the text of others is skipped unread."""
    everything = WatchedTable(TableName("public", "users"), ("name", "boss", "id"))
    made = Assembler((everything,), piece_changes=9, piece_bytes=1 << 20)
    made.feed(encode(relation(1, "users", "name boss id", "name boss id")))
    made.feed(encode(m.Begin(Lsn(100), 0, 7)))
    raw = bytearray(encode(change))
    raw[data.draw(st.integers(5, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        made.feed(bytes(raw))
    except DecodeError:
        return
    m.decode(bytes(raw))


def _naive(stream: Sequence[m.Message]) -> Iterable[Row]:
    """What the assembler gives without folding, written for clarity from decoded messages."""
    described = {message.oid: message for message in RELATIONS}
    watched = {1: USERS, 2: TAGS}
    final, ordinal = Lsn(0), 0
    for raw in stream:
        message = m.decode(encode(raw))
        if isinstance(message, m.Begin):
            final, ordinal = message.final_lsn, 0
        if not isinstance(message, m.Insert | m.Update | m.Delete | m.Truncate):
            continue
        ordinal += 1
        for oid in message.oids if isinstance(message, m.Truncate) else (message.oid,):
            if oid not in watched:
                continue
            old = _pick(watched[oid], described[oid], getattr(message, "old", None), message)
            new = _pick(watched[oid], described[oid], getattr(message, "new", None))
            if old is not None and new is not None:
                new = tuple(
                    b if v == UNCHANGED and b is not None else v for b, v in zip(old, new, strict=True)
                )
                if getattr(message, "old_kind", None) == "O" and old == new:
                    old = None
            letter = type(message).__name__[0].lower()
            yield (watched[oid].name, letter, old, new, final, ordinal, ALL)


def _pick(
    table: WatchedTable, shape: m.Relation, row: Values | None, message: m.Message | None = None
) -> Values | None:
    if row is None:
        return None
    is_key_only = getattr(message, "old_kind", None) == "K"
    by_name = {
        column.name: None if is_key_only and not column.is_key else value
        for column, value in zip(shape.columns, row, strict=True)
    }
    return tuple(by_name[column] for column in table.columns)
