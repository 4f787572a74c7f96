"""Whoever follows is waited for, as long as there is someone who comes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flusso.capture.slot import SlotInfo
from flusso.debt import Debt, Scope
from flusso.engine.verify.pace import Follow, Limits, Pace, Stand, Stood, Watch
from flusso.lsn import Lsn
from flusso.sinks.base import IndexState

STATE = IndexState("users", "d", 1)
AWAY = Stand(False, Lsn(1), beat=7.0)
HERE = Stand(True, Lsn(1))
PASSED = Stand(True, Lsn(9))
MARK = Lsn(9)


def slot_at(lsn: int, pid: int | None = 1) -> SlotInfo:
    return SlotInfo("s", "pgoutput", "logical", "d", pid, None, Lsn(lsn), "", None)


def debt(since: int) -> Debt:
    return Debt(Scope.HELD, ("orders was truncated",), since)


def last(watch: Watch, *looks: tuple[float, Stand]) -> Pace | None:
    """What the last of some looks gives; those before it end nothing."""
    paces = [watch.judge(stand, now_s) for now_s, stand in looks]
    assert not any(paces[:-1])
    return paces[-1]


def test_a_slot_that_comes_on_is_waited_for() -> None:
    positions = iter([slot_at(1), slot_at(5), slot_at(9)])
    follow = Follow(lambda: next(positions), lambda: STATE)
    assert follow.wait(MARK) is Pace.FOLLOWED
    assert list(positions) == []


def test_what_the_sink_remembers_is_enough() -> None:
    assert Follow(lambda: slot_at(1), lambda: replace(STATE, witness=10)).wait(MARK) is Pace.FOLLOWED


def test_without_a_reader_it_is_said_and_not_waited_for_again() -> None:
    looks = 0

    def look() -> SlotInfo:
        nonlocal looks
        looks += 1
        return slot_at(1, None)

    follow = Follow(look, lambda: STATE, limits=Limits(absent_s=0.0))
    assert follow.wait(MARK) is Pace.UNFOLLOWED
    again = Follow(look, lambda: STATE, stood=follow.stood)
    assert again.wait(Lsn(99)) is Pace.UNFOLLOWED
    assert looks == 2


def test_a_slot_that_is_gone_has_no_reader() -> None:
    follow = Follow(lambda: None, lambda: STATE, limits=Limits(absent_s=0.0))
    assert follow.wait(MARK) is Pace.UNFOLLOWED


def test_a_position_that_is_passed_already_needs_no_reader() -> None:
    follow = Follow(lambda: slot_at(9, None), lambda: STATE, limits=Limits(absent_s=0.0))
    assert follow.wait(MARK) is Pace.FOLLOWED


def test_a_reader_that_stands_still_is_stuck() -> None:
    assert last(Watch(MARK, Limits()), (0.0, HERE), (119.0, HERE), (121.0, HERE)) is Pace.STUCK


def test_inside_a_large_transaction_versions_show_that_it_comes_on() -> None:
    looks = [(100.0 * number, replace(HERE, version=number)) for number in range(9)]
    assert last(Watch(MARK, Limits()), *looks, (810.0, PASSED)) is Pace.FOLLOWED


def test_a_reader_between_two_queries_is_not_missed() -> None:
    def positions() -> Iterator[SlotInfo]:
        yield slot_at(1)
        yield slot_at(1, None)
        yield slot_at(9)

    found = positions()
    assert Follow(lambda: next(found), lambda: STATE).wait(MARK) is Pace.FOLLOWED


def test_whoever_shows_that_it_is_there_may_be_away_from_the_slot_for_long() -> None:
    looks = [(10.0 * number, replace(AWAY, beat=number + 1.0)) for number in range(9)]
    assert last(Watch(MARK, Limits()), *looks, (85.0, PASSED)) is Pace.FOLLOWED
    assert last(Watch(MARK, Limits()), (0.0, AWAY), (14.0, AWAY), (16.0, AWAY)) is Pace.UNFOLLOWED


def test_one_that_is_back_or_comes_on_again_is_waited_for_again() -> None:
    for stood, now in (
        (Stood(Pace.UNFOLLOWED, AWAY), HERE),
        (Stood(Pace.UNFOLLOWED, AWAY), replace(AWAY, beat=8.0)),
        (Stood(Pace.STUCK, HERE), replace(HERE, version=5)),
    ):
        assert Watch(MARK, Limits(), stood).judge(now, 0.0) is None
    for stood in (Stood(Pace.UNFOLLOWED, AWAY), Stood(Pace.STUCK, HERE)):
        assert Watch(MARK, Limits(), stood).judge(stood.stand, 0.0) is stood.pace


def test_what_is_owed_at_the_position_is_waited_for_and_not_what_is_owed_later() -> None:
    first, later, both = debt(8), debt(12), replace(debt(8), times=2)
    looks = [(0.0, replace(PASSED, debts=(first,))), (1.0, replace(PASSED, debts=(both,)))]
    assert last(Watch(MARK, Limits()), *looks, (2.0, replace(PASSED, debts=(later,)))) is Pace.FOLLOWED


def test_a_debt_that_is_paid_for_too_long_is_told() -> None:
    watch = Watch(MARK, Limits())
    looks = [(100.0 * number, replace(PASSED, version=number, debts=(debt(8),))) for number in range(7)]
    assert last(watch, *looks) is Pace.OWED
    stood = Stood(Pace.OWED, looks[-1][1], watch.since)
    assert Watch(Lsn(5), Limits(), stood).judge(looks[-1][1], 0.0) is Pace.OWED
    assert Watch(Lsn(5), Limits(), stood).judge(replace(PASSED, debts=(debt(20),)), 0.0) is None


def test_a_debt_without_anyone_to_pay_it_is_not_waited_for() -> None:
    stand = replace(PASSED, is_read=False, debts=(debt(8),))
    assert last(Watch(MARK, Limits()), (0.0, stand), (6.0, stand)) is Pace.UNFOLLOWED


def test_tables_that_whoever_follows_does_not_know_yet_are_waited_for() -> None:
    unknown, owing = replace(PASSED, is_noticed=False), replace(PASSED, debts=(debt(11),))
    assert last(Watch(MARK, Limits()), (0.0, unknown), (5.0, owing), (6.0, PASSED)) is Pace.FOLLOWED
    assert last(Watch(MARK, Limits()), (0.0, unknown), (121.0, unknown)) is Pace.FOLLOWED
