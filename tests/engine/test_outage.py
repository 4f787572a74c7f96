from __future__ import annotations

import threading

import pytest

from flusso.engine.events import Event, Recovered, Retrying
from flusso.engine.outage import Outage
from flusso.engine.policy import Patience
from flusso.engine.retry import retrying
from flusso.errors import SinkUnavailable, SourceRefused, SourceUnavailable, TaskLost
from flusso.ops.logs import describe

_AWAY = SourceUnavailable("the server is away")
_QUICK = Patience(first_delay_s=0.001, longest_delay_s=0.002)


def _outage(events: list[Event], patience: Patience = _QUICK) -> Outage:
    return Outage(patience, events.append, threading.Event())


def test_each_wait_is_told_with_its_number_and_the_time_of_the_first_failure() -> None:
    events: list[Event] = []
    outage = _outage(events)
    assert outage.wait(_AWAY)
    assert outage.wait(_AWAY)
    first, second = events
    assert isinstance(first, Retrying)
    assert isinstance(second, Retrying)
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.since == second.since


def test_the_end_is_told_once_and_the_next_failure_begins_anew() -> None:
    events: list[Event] = []
    outage = _outage(events)
    outage.wait(_AWAY)
    outage.end()
    outage.end()
    outage.wait(_AWAY)
    assert [type(event) for event in events] == [Retrying, Recovered, Retrying]
    assert isinstance(events[2], Retrying)
    assert events[2].attempt == 1


def test_what_cannot_heal_is_raised_at_once() -> None:
    events: list[Event] = []
    with pytest.raises(SourceRefused):
        _outage(events).wait(SourceRefused("no privilege"))
    assert events == []


def test_what_lasts_for_too_long_is_raised_and_not_told_as_another_attempt() -> None:
    events: list[Event] = []
    outage = _outage(events, Patience(source_s=0.0, first_delay_s=0.001, longest_delay_s=0.002))
    with pytest.raises(SourceUnavailable):
        outage.wait(_AWAY)
    assert events == []


def test_a_stop_ends_the_wait() -> None:
    outage = _outage([], Patience(first_delay_s=60.0, longest_delay_s=60.0))
    threading.Timer(0.05, outage.stop.set).start()
    assert not outage.wait(_AWAY)


def test_a_stop_that_was_asked_for_before_is_not_told_as_another_attempt() -> None:
    events: list[Event] = []
    outage = _outage(events)
    outage.stop.set()
    assert not outage.wait(_AWAY)
    assert events == []


def test_retrying_gives_what_the_first_good_attempt_gives() -> None:
    answers = iter([_AWAY, _AWAY, 7])

    def attempt() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert retrying(attempt, _outage([])) == 7


def test_the_pauses_grow_up_to_a_limit_whatever_the_number() -> None:
    patience = Patience(first_delay_s=1.0, longest_delay_s=5.0)
    assert [patience.delay_s(number) for number in (1, 2, 3, 4, 100_000)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_source_is_given_up_after_its_time_and_not_before() -> None:
    patience = Patience(source_s=10.0)
    assert not patience.is_exhausted(_AWAY, 1000, 9.9)
    assert patience.is_exhausted(_AWAY, 2, 10.0)


def test_without_a_time_a_source_is_never_given_up() -> None:
    assert not Patience(source_s=None).is_exhausted(_AWAY, 10**6, 10.0**9)


def test_the_time_of_the_source_is_not_that_of_a_sink() -> None:
    assert not Patience(source_s=1.0).is_exhausted(SinkUnavailable("away"), 5, 30.0)


def test_a_process_that_is_lost_again_and_again_is_given_up_by_number() -> None:
    patience = Patience(losses=3)
    assert not patience.is_exhausted(TaskLost("lost"), 2, 10.0**6)
    assert patience.is_exhausted(TaskLost("lost"), 3, 0.0)


def test_a_line_says_what_is_waited_for_since_when_and_when_the_next_attempt_comes() -> None:
    line = describe(Retrying("cannot connect", 3, 1.25, since=1_700_000_000.0))
    assert line == "retrying attempt=3 delay_s=1.2 since=2023-11-14T22:13:20Z because: cannot connect"


def test_a_sink_that_is_away_is_noted_where_others_can_read_it() -> None:
    noted: list[tuple[str, float]] = []
    outage = Outage(_QUICK, lambda event: None, threading.Event(), lambda *said: noted.append(said))
    for _ in range(2):
        outage.wait(SinkUnavailable("the cluster is away"))
    outage.end()
    assert [reason for reason, _ in noted] == ["the cluster is away", ""]


def test_a_sink_may_be_away_for_longer_than_ten_minutes() -> None:
    patience = Patience()
    assert not patience.is_exhausted(SinkUnavailable("x"), 200, 601)
    assert patience.is_exhausted(SinkUnavailable("x"), 900, 3601)
    assert not Patience(sink_s=None).is_exhausted(SinkUnavailable("x"), 10**6, 10**9)
