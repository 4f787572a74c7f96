"""Documents compared: what is the same, what differs, where, and when that is proven."""

from __future__ import annotations

import pytest

from flusso.engine.verify.compare import MORE, differing_paths, is_same
from flusso.engine.verify.judge import ABSENT, Difference, Kind, Sight, judge, mark_of, seems_right
from flusso.sinks.base import Stored


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1}', b'{"a":1}'),
        (b'{"a":[1,\n2]}', b'{"a":[1, 2]}'),
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}'),
        (b'{"a":"\xc3\xa9"}', b'{"a":"\\u00e9"}'),
    ],
)
def test_space_order_of_members_and_escapes_mean_nothing(one: bytes, other: bytes) -> None:
    assert is_same(one, other)
    assert differing_paths(one, other) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1.10}', b'{"a":1.1}'),
        (b'{"a":12345678901234567890.1}', b'{"a":12345678901234567890.2}'),
        (b'{"a":1}', b'{"a":"1"}'),
        (b'{"a":1}', b'{"a":true}'),
        (b'{"a":0}', b'{"a":false}'),
        (b'{"a":null}', b"{}"),
        (b'{"a":[1,2]}', b'{"a":[2,1]}'),
        (b'{"a":{"b":1,"b":2}}', b'{"a":{"b":2}}'),
        (b'{"a":1}', b'{"a":'),
        (b'{"a":1}', b"\xff"),
    ],
)
def test_another_number_type_order_or_name_is_a_difference(one: bytes, other: bytes) -> None:
    assert not is_same(one, other)
    assert not is_same(other, one)
    assert differing_paths(one, other)


def test_paths_name_members_and_places_in_the_order_of_the_document() -> None:
    expected = b'{"id":7,"name":"a","orders":[{"total":1.0},{"total":2.0,"at":null}],"tags":[1],"odd key":1}'
    held = b'{"id":7,"name":"b","orders":[{"total":1.0},{"total":2.00}],"tags":[1,2],"odd key":2,"more":1}'
    assert differing_paths(expected, held) == (
        *("$.name", "$.orders[1].total", "$.orders[1].at", "$.tags", '$["odd key"]', "$.more"),
    )


def test_many_paths_are_cut_and_that_is_told() -> None:
    expected = b"[" + b",".join(b"1" for _ in range(30)) + b"]"
    assert differing_paths(expected, expected.replace(b"1", b"2"), most=3) == ("$[0]", "$[1]", "$[2]", MORE)


def test_what_cannot_be_read_differs_as_a_whole() -> None:
    assert differing_paths(b'{"a":1}', b"no json") == ("$",)
    deep = b"[" * 100_000 + b"]" * 100_000
    assert differing_paths(deep, deep + b" ") == ("$",)
    assert is_same(deep, deep)


def test_neither_row_nor_document_is_right() -> None:
    assert seems_right(Sight("1", None, None))
    assert not seems_right(Sight("1", b"{}", None))
    assert not seems_right(Sight("1", None, Stored(1, b"{}")))


def test_a_sink_that_had_to_mend_a_document_holds_it_rightly() -> None:
    sight = Sight("1", b'{"a":{"b":1,"b":2}}', Stored(1, b'{"a":"{\\"b\\":1,\\"b\\":2}"}'))
    assert not seems_right(sight)
    assert seems_right(Sight("1", sight.expected, sight.held, mended=b'{"a":"{\\"b\\":1,\\"b\\":2}"}'))


def test_where_only_ids_count_another_content_is_right() -> None:
    assert seems_right(Sight("1", b"{}", Stored(1, b'{"a":1}')), compares_content=False)
    assert not seems_right(Sight("1", b"{}", None), compares_content=False)


def test_a_document_that_stays_as_it_was_differs() -> None:
    held = Stored(100, b'{"a":2}')
    found = judge(Sight("1", b'{"a":1}', held), mark_of(held))
    assert found == Difference("1", Kind.DIFFERENT, ("$.a",))
    assert judge(Sight("1", None, held), mark_of(held)) == Difference("1", Kind.EXTRA)


def test_a_document_that_was_written_since_proves_nothing() -> None:
    held = Stored(100, b'{"a":2}')
    assert judge(Sight("1", b"{}", held), mark_of(Stored(99, b'{"a":2}'))) is None
    assert judge(Sight("1", b"{}", held), mark_of(Stored(100, b'{"a":3}'))) is None
    assert judge(Sight("1", b"{}", held), ABSENT) is None
    assert judge(Sight("1", b"{}", held), None) is None


def test_a_missing_document_counts_when_it_was_missing_before() -> None:
    assert judge(Sight("1", b"{}", None), None) is None
    assert judge(Sight("1", b"{}", None), mark_of(Stored(1, b"{}"))) is None
    assert judge(Sight("1", b"{}", None), ABSENT) == Difference("1", Kind.MISSING)


def test_the_paths_of_a_mended_document_are_those_that_differ_from_what_would_be_held() -> None:
    sight = Sight("1", b'{"a":{},"b":1}', Stored(1, b'{"a":"{}","b":2}'), mended=b'{"a":"{}","b":1}')
    found = judge(sight, mark_of(sight.held))
    assert found == Difference("1", Kind.DIFFERENT, ("$.b",))
