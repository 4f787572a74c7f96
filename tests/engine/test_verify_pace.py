"""Whoever follows is waited for, as long as there is someone who comes on."""

from __future__ import annotations

from collections.abc import Iterator

from flusso.capture.slot import SlotInfo
from flusso.engine.verify.pace import Follow, Pace
from flusso.lsn import Lsn


def slot_at(lsn: int, pid: int | None = 1) -> SlotInfo:
    return SlotInfo("s", "pgoutput", "logical", "d", pid, None, Lsn(lsn), "", None)


def test_a_slot_that_comes_on_is_waited_for() -> None:
    positions = iter([slot_at(1), slot_at(5), slot_at(9)])
    follow = Follow(lambda: next(positions), lambda: 0)
    assert follow.wait(Lsn(9)) is Pace.FOLLOWED
    assert list(positions) == []


def test_what_the_sink_remembers_is_enough() -> None:
    assert Follow(lambda: slot_at(1), lambda: 10).wait(Lsn(9)) is Pace.FOLLOWED


def test_without_a_reader_it_is_said_and_not_waited_for_again() -> None:
    looks = 0

    def look() -> SlotInfo:
        nonlocal looks
        looks += 1
        return slot_at(1, None)

    follow = Follow(look, lambda: 0, absent_s=0.0)
    assert follow.wait(Lsn(9)) is Pace.UNFOLLOWED
    assert follow.wait(Lsn(99)) is Pace.UNFOLLOWED
    assert looks == 1


def test_a_slot_that_is_gone_has_no_reader() -> None:
    assert Follow(lambda: None, lambda: 0, absent_s=0.0).wait(Lsn(9)) is Pace.UNFOLLOWED


def test_a_position_that_is_passed_already_needs_no_reader() -> None:
    assert Follow(lambda: slot_at(9, None), lambda: 0, absent_s=0.0).wait(Lsn(9)) is Pace.FOLLOWED


def test_a_reader_that_stands_still_is_stuck() -> None:
    assert Follow(lambda: slot_at(1), lambda: 0, stuck_s=0.0).wait(Lsn(9)) is Pace.STUCK


def test_a_reader_between_two_queries_is_not_missed() -> None:
    def positions() -> Iterator[SlotInfo]:
        yield slot_at(1)
        yield slot_at(1, None)
        yield slot_at(9)

    found = positions()
    assert Follow(lambda: next(found), lambda: 0).wait(Lsn(9)) is Pace.FOLLOWED
