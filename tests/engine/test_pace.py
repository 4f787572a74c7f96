"""Turns get fewer and rarer while a sink cannot keep up, and grow again."""

from __future__ import annotations

import threading

from flusso.engine.pace import Pace
from flusso.engine.room import Room
from waiting import wait_until


def _after(pace: Pace, *turns: bool) -> Pace:
    """Turns of three seconds, hindered for one of them or not at all."""
    for is_hindered in turns:
        pace = pace.after(3.0, 1.0 if is_hindered else 0.0)
    return pace


def test_a_sink_that_pushes_back_gets_half_the_turns_each_time_and_then_pauses() -> None:
    assert _after(Pace(8, 8), True) == Pace(8, 4)
    assert _after(Pace(8, 8), True, True, True) == Pace(8, 1)
    assert _after(Pace(8, 8), *[True] * 4) == Pace(8, 1, rest=0.25)
    assert _after(Pace(8, 8), *[True] * 20) == Pace(8, 1, rest=2.0)


def test_turns_grow_again_one_by_one_once_they_go_through() -> None:
    slow = Pace(3, 1, rest=0.5)
    assert _after(slow, False) == Pace(3, 1, rest=0.25)
    assert _after(slow, False, False) == Pace(3, 1)
    assert _after(slow, *[False] * 9) == Pace(3, 3)


def test_a_short_hitch_changes_nothing() -> None:
    assert Pace(4, 4).after(3.0, 0.2) == Pace(4, 4)


def test_a_room_has_no_more_slots_than_the_pace_allows_and_gives_them_all_back() -> None:
    room = Room(4)
    assert room.take(3) == 3
    room.feel(3.0, 1.0)
    assert room.pace.slots == 2
    entered = threading.Event()

    def enter() -> None:
        room.take(1)
        entered.set()

    waiting = threading.Thread(target=enter, daemon=True)
    waiting.start()
    room.give(1)
    assert not entered.is_set()
    room.give(2)
    assert entered.wait(60)
    waiting.join()
    assert room.take(9) == 1


def test_a_room_that_rests_lets_someone_in_afterwards() -> None:
    room = Room(1)
    room.feel(0.2, 0.2)
    assert room.pace.rest
    assert wait_until(lambda: room.take(1), what="the end of the rest") == 1
