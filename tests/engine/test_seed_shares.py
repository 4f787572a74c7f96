"""How a seed cuts its ranges into turns, without Spark."""

from types import SimpleNamespace
from typing import Any

from flusso.builder.read import BlockRange
from flusso.engine.seed import _MOST_RANGES, Seeder, _Progress
from flusso.engine.turns import Turns


def _seeder(parallelism: int, *ranges: BlockRange) -> Seeder:
    nothing: Any = SimpleNamespace()
    seeder = Seeder(Turns(nothing, {}, 1.0, parallelism, nothing, nothing, nothing), nothing, nothing)
    seeder._ranges.extend(ranges)
    return seeder


def _ranges(index: str, count: int) -> list[BlockRange]:
    return [BlockRange(index, number, number + 1) for number in range(count)]


def test_a_turn_of_a_huge_table_carries_only_so_many_ranges() -> None:
    assert len(_seeder(1, *_ranges("users", 10 * _MOST_RANGES))._take_turn()) == _MOST_RANGES


def test_a_turn_has_ranges_of_one_index_only() -> None:
    turn = _seeder(1, *_ranges("users", 3), *_ranges("orders", 3))._take_turn()
    assert [block_range.index for block_range in turn] == ["users"] * 3


def test_turns_side_by_side_leave_each_other_enough() -> None:
    seeder = _seeder(3, *_ranges("users", 60))
    assert [len(seeder._take_turn()) for _ in range(3)] == [10, 8, 7]


def test_the_last_range_is_taken_alone_and_then_there_is_none() -> None:
    seeder = _seeder(3, *_ranges("users", 1))
    assert [len(seeder._take_turn()), len(seeder._take_turn())] == [1, 0]


def test_most_of_an_index_is_refreshed_once_and_not_when_all_is_there() -> None:
    progress = _Progress(ranges=10, started_s=0.0)
    due = []
    for done in range(1, 11):
        progress.done = done
        due.append(progress.take_refresh())
    assert due == [done == 7 for done in range(1, 11)]


def test_an_index_of_one_range_has_no_refresh_but_the_last() -> None:
    assert not _Progress(ranges=1, started_s=0.0, done=1).take_refresh()
