"""What is remembered of a seed: blocks of tables, small whatever the number of partitions."""

from __future__ import annotations

import random

import pytest

from flusso.seeding import OPEN, LeafSeed, Seeding, summed_up
from flusso.sinks.base import IndexState
from flusso.sinks.state import state_from_json, state_to_json


@pytest.mark.parametrize(
    ("spans", "done", "missing"),
    [
        ([], (), [(0, OPEN)]),
        ([(0, 5)], ((0, 5),), [(5, OPEN)]),
        ([(5, 9), (0, 5)], ((0, 9),), [(9, OPEN)]),
        ([(3, 5), (7, 9)], ((3, 5), (7, 9)), [(0, 3), (5, 7), (9, OPEN)]),
        ([(3, 5), (7, 9), (4, 8)], ((3, 9),), [(0, 3), (9, OPEN)]),
        ([(0, 5), (0, 5)], ((0, 5),), [(5, OPEN)]),
        ([(9, OPEN), (0, 9)], ((0, OPEN),), []),
    ],
)
def test_blocks_that_are_done_join_up_and_leave_the_others(
    spans: list[tuple[int, int]], done: tuple[tuple[int, int], ...], missing: list[tuple[int, int]]
) -> None:
    leaf = LeafSeed(1, 1)
    for start, end in spans:
        leaf = leaf.with_done(start, end)
    assert (leaf.done, leaf.missing(), leaf.is_whole) == (done, missing, not missing)


def test_done_and_missing_blocks_are_the_whole_table_in_any_order() -> None:
    rng = random.Random(5)
    for _ in range(200):
        leaf, marked = LeafSeed(1, 1), set()
        for _ in range(rng.randrange(8)):
            start = rng.randrange(50)
            end = start + rng.randrange(1, 10)
            leaf = leaf.with_done(start, end)
            marked |= set(range(start, end))
        free = {block for start, end in leaf.missing() for block in range(start, min(end, 60))}
        assert free == set(range(60)) - marked
        assert leaf.count_done(40) == len([block for block in marked if block < 40])


def test_tables_that_are_whole_take_no_room_once_all_before_them_are() -> None:
    leaves = [LeafSeed(oid, oid, ((0, OPEN),)) for oid in range(1, 1001)]
    assert summed_up(leaves, Seeding()) == Seeding(through=1000)
    leaves[500] = LeafSeed(501, 501, ((0, 7),))
    kept = summed_up(leaves[:510], Seeding())
    assert (kept.through, [leaf.oid for leaf in kept.leaves]) == (500, list(range(501, 511)))


def test_a_table_of_which_nothing_is_done_is_not_kept() -> None:
    assert summed_up([LeafSeed(1, 1), LeafSeed(2, 2, ((0, 4),))], Seeding()).leaves == (
        LeafSeed(2, 2, ((0, 4),)),
    )


def test_the_rest_takes_as_long_as_what_is_done_took() -> None:
    assert Seeding(done=25, blocks=100, seconds=10).left_s == 30
    assert Seeding(done=0, blocks=100, seconds=10).left_s is None


def test_how_long_the_last_look_up_takes_is_not_known() -> None:
    assert Seeding(done=100, blocks=100, seconds=10).left_s is None


def test_progress_is_kept_with_the_state_of_the_index() -> None:
    leaf = LeafSeed(16400, 16500, ((0, 40), (90, OPEN)))
    state = IndexState("books", "d", 1, seeding=Seeding(16390, (leaf,), 50, 100, 7000, 1 << 40, 12.5))
    assert state_from_json(state_to_json(state)) == state
