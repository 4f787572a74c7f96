"""How an index is filled: which ranges a turn gets, and what comes of files that were replaced. No Spark."""

from __future__ import annotations

import pytest

from flusso.builder.extents import Extent
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import BlockRange
from flusso.catalog import TableName
from flusso.engine.filling import _FIRST_SHARE, _LARGEST_SHARE, _LEAST_SHARE, Filling
from flusso.engine.outcome import Totals
from flusso.seeding import OPEN, LeafSeed, Seeding

BLOCK = 8192


def _plan() -> IndexPlan:
    plan = IndexPlan.__new__(IndexPlan)
    object.__setattr__(plan, "root", TableName("public", "users"))
    object.__setattr__(plan, "index", "users")
    return plan


def _extent(oid: int, blocks: int, filenode: int = 0) -> Extent:
    return Extent(TableName("public", f"users_{oid}"), filenode or oid, blocks, BLOCK, oid)


def _filling(*extents: Extent, seeding: Seeding | None = None, blocks_in_a_range: int = 1) -> Filling:
    filling = Filling(_plan(), blocks_in_a_range * BLOCK / 1024 / 1024, seeding or Seeding())
    filling.begin(extents)
    return filling


def _run(filling: Filling, threads: int = 1) -> list[tuple[int, int, int | None]]:
    """Fill to the end; give what was written: table and blocks."""
    written = []
    while filling.has_ranges:
        turn = filling.take(threads)
        written += [(each.oid, each.start_block, each.end_block) for each in turn]
        filling.end(turn, len(turn), Totals(), 1.0)
    assert filling.is_whole
    return written


def _end(filling: Filling, turn: list[BlockRange], done: int) -> None:
    filling.end(turn, done, Totals(written=done), 1.0)


def test_every_table_is_written_from_its_first_block_to_wherever_it_ends() -> None:
    filling = _filling(_extent(2, 3), _extent(1, 4), _extent(3, 0), blocks_in_a_range=2)
    assert _run(filling) == [(1, 0, 2), (1, 2, None), (2, 0, 2), (2, 2, None), (3, 0, None)]
    assert filling.seeding.through == 3
    assert filling.seeding.done == filling.seeding.blocks == 8


def test_a_turn_gets_twice_what_the_last_one_managed() -> None:
    filling = _filling(_extent(1, 1000))
    sizes = []
    for _ in range(7):
        turn = filling.take(1)
        sizes.append(len(turn))
        _end(filling, turn, len(turn))
    assert sizes == [_FIRST_SHARE, _LEAST_SHARE, 32, 64, _LARGEST_SHARE, _LARGEST_SHARE, _LARGEST_SHARE]
    _end(filling, filling.take(1), 9)
    assert len(filling.take(1)) == 18
    _end(filling, filling.take(1), 1)
    assert len(filling.take(1)) == _LEAST_SHARE


@pytest.mark.parametrize(
    ("ranges", "first"), [(_LEAST_SHARE, _LEAST_SHARE), (_LEAST_SHARE + 1, _FIRST_SHARE)]
)
def test_the_first_turn_is_short_unless_one_may_do_for_all(ranges: int, first: int) -> None:
    assert len(_filling(_extent(1, ranges)).take(1)) == first


def test_turns_side_by_side_leave_each_other_enough() -> None:
    filling = _filling(_extent(1, 30))
    assert [len(filling.take(3)) for _ in range(6)] == [1, 4, 4, 3, 3, 2]


def test_what_a_turn_did_not_begin_waits_again_in_its_place() -> None:
    filling = _filling(_extent(1, 6))
    _end(filling, filling.take(1), 1)
    assert [start for _, start, _ in _run(filling)] == [1, 2, 3, 4, 5]


def test_a_seed_goes_on_with_the_blocks_that_are_missing() -> None:
    known = Seeding(through=1, leaves=(LeafSeed(2, 2, ((0, 2), (3, 4))),), documents=70, seconds=5.0)
    filling = _filling(_extent(1, 9), _extent(2, 6), _extent(3, 1), seeding=known)
    assert (filling.seeding.done, filling.seeding.blocks) == (12, 16)
    assert _run(filling) == [(2, 2, 3), (2, 4, 5), (2, 5, None), (3, 0, None)]
    assert filling.seeding.documents == 70


def test_a_seed_that_had_written_all_has_no_range_left() -> None:
    filling = _filling(_extent(1, 9), seeding=Seeding(leaves=(LeafSeed(1, 1, ((0, OPEN),)),)))
    assert filling.is_whole
    assert not filling.has_ranges


def test_a_table_with_another_file_is_written_from_its_first_block() -> None:
    known = Seeding(leaves=(LeafSeed(1, 1, ((0, 3),)),))
    assert [start for _, start, _ in _run(_filling(_extent(1, 4, filenode=9), seeding=known))] == [0, 1, 2, 3]


def test_a_table_that_is_whole_may_get_another_file() -> None:
    known = Seeding(leaves=(LeafSeed(2, 2, ((0, OPEN),)),))
    filling = _filling(_extent(1, 1), _extent(2, 4, filenode=9), seeding=known)
    assert _run(filling) == [(1, 0, None)]


def test_a_file_replaced_in_the_middle_begins_that_table_again() -> None:
    filling = _filling(_extent(1, 3), _extent(2, 1), _extent(3, 4))
    _end(filling, filling.take(1), 0)
    first = filling.take(1)
    second = [BlockRange("users", 2, None, None, 1, 1)]
    assert [each.oid for each in first] == [1, 1, 1, 2, 3, 3, 3, 3]
    filling.restart(1, [_extent(1, 2, filenode=9), _extent(2, 1), _extent(3, 4)])
    _end(filling, first, 1)
    filling.under_way += 1
    _end(filling, second, 1)  # what was read of the old file no longer counts
    assert not filling.is_whole
    assert {(2, 0, None), (1, 0, 1), (1, 1, None)} <= set(_run(filling))


def test_a_filling_is_not_over_while_a_turn_reads_a_file_that_was_replaced() -> None:
    filling = _filling(_extent(1, 8))
    late, other = filling.take(1), filling.take(1)
    filling.restart(1, [_extent(1, 2, filenode=9)])
    _end(filling, other, 0)
    _run(filling)
    assert not filling.is_over
    _end(filling, late, len(late))
    assert filling.is_over


def test_a_file_replaced_is_told_by_several_turns_and_counts_once() -> None:
    filling = _filling(_extent(1, 3))
    now = [_extent(1, 2, filenode=9)]
    filling.restart(1, now)
    _end(filling, filling.take(1)[:1], 1)
    filling.restart(1, now)
    assert filling.seeding.leaves == (LeafSeed(1, 9, ((0, 1),)),)


def test_a_table_that_is_gone_is_no_longer_waited_for() -> None:
    filling = _filling(_extent(1, 3), _extent(2, 1))
    filling.restart(1, [_extent(2, 1)])
    assert _run(filling) == [(2, 0, None)]


def test_without_any_table_there_is_nothing_to_write() -> None:
    filling = _filling()
    assert filling.is_whole
    assert not filling.has_ranges


def test_one_turn_at_a_time_takes_all_that_it_managed_before_to_the_last_range() -> None:
    filling = _filling(_extent(1, 56))
    sizes = []
    while filling.has_ranges:
        turn = filling.take(1)
        sizes.append(len(turn))
        _end(filling, turn, len(turn))
    assert sizes == [1, 16, 32, 7]
