"""Where paying a debt goes on: tables of the root's tree one after the other, by blocks of one file."""

from __future__ import annotations

import pytest

from flusso.builder.extents import Extent
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import BlockRange, cut_ranges
from flusso.catalog import TableName
from flusso.debt import Cursor
from flusso.engine.debts import _first_done, _next_extent

A, B = (Extent(TableName("public", name), file, 10, 8192, file) for name, file in (("a", 5), ("b", 6)))


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [
        (Cursor(), (A, 0)),
        (Cursor('"public"."a"', 5, 7), (A, 7)),
        (Cursor('"public"."a"', 4, 7), (A, 0)),
        (Cursor('"public"."a"', -1), (A, 0)),
        (Cursor('"public"."a"'), (B, 0)),
        (Cursor('"public"."aa"', 9, 7), (B, 0)),
        (Cursor('"public"."b"'), (None, 0)),
    ],
    ids=["first", "same file", "another file", "moved", "done", "gone", "last"],
)
def test_paying_goes_on_in_the_same_file_or_with_the_next_table(
    cursor: Cursor, expected: tuple[Extent | None, int]
) -> None:
    assert _next_extent([B, A], cursor) == expected


@pytest.mark.parametrize(("done", "expected"), [([2, 2], 4), ([2, 1], 3), ([1, 2], 1), ([0, 2], 0)])
def test_only_ranges_without_a_gap_count_as_paid(done: list[int], expected: int) -> None:
    turn = [BlockRange("x", 0, 1), BlockRange("x", 1, 2)]
    assert _first_done(done, [turn, turn]) == expected


def test_a_table_is_cut_from_the_block_where_paying_goes_on() -> None:
    plan = IndexPlan.__new__(IndexPlan)
    object.__setattr__(plan, "root", TableName("public", "a"))
    object.__setattr__(plan, "index", "x")
    ranges = cut_ranges(plan, A, 4 * 8192 / 1024 / 1024, 6)
    assert [(each.start_block, each.end_block) for each in ranges] == [(6, None)]
    ranges = cut_ranges(plan, A, 4 * 8192 / 1024 / 1024, 4)
    assert [(each.start_block, each.end_block) for each in ranges] == [(4, 8), (8, None)]
