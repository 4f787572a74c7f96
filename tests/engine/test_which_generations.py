"""What becomes of the generations of an index: which are written, which go, when a new one begins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_continuity import FRESH, STATE, standing

from flusso.engine.continuity import is_another
from flusso.engine.generations import Fate, Roles, decide
from flusso.errors import IndexLeftBehind, SlotAdvanced, SlotMissing, SourceReplaced
from flusso.sinks.base import IndexState

SERVING = STATE
OLD_SCHEMA = replace(STATE, digest="old")
FILLING = replace(STATE, generation=4, is_seeded=False, serves=False)
KEPT = replace(STATE, generation=2, serves=False, is_kept=True)
LOST = standing(is_new_slot=True)


def numbers(states: tuple[IndexState, ...]) -> list[int]:
    return [state.generation for state in states]


def shown(fate: Fate) -> tuple[list[int], list[int]]:
    return numbers(fate.written), sorted(numbers(fate.dropped))


def test_the_first_generation_begins_where_nothing_is_remembered() -> None:
    fate = decide([], FRESH, standing(), reseeds=False)
    assert shown(fate) == ([1], [])
    assert not fate.written[0].serves


def test_where_nothing_is_remembered_a_generation_is_numbered_above_what_the_sink_holds() -> None:
    assert shown(decide([], FRESH, standing(), reseeds=False, above=7)) == ([8], [])


def test_a_changed_schema_is_filled_beside_the_old_one_and_both_are_written() -> None:
    fate = decide([OLD_SCHEMA], FRESH, standing(), reseeds=False)
    assert shown(fate) == ([3, 4], [])
    assert [(state.digest, state.serves) for state in fate.written] == [("old", True), ("abc", False)]


def test_an_old_schema_that_cannot_be_built_any_more_stays_as_it_is_for_readers() -> None:
    fate = decide([OLD_SCHEMA], FRESH, standing(), reseeds=False, unfit={3: "a column is gone"})
    assert shown(fate) == ([4], [])
    assert fate.frozen == replace(OLD_SCHEMA, stale="a column is gone", term=fate.written[0].term)
    assert fate.because is None


def test_a_request_fills_a_new_generation_of_the_same_schema_beside_the_old_one() -> None:
    assert shown(decide([SERVING], FRESH, standing(), reseeds=False, is_asked=True)) == ([3, 4], [])


def test_a_second_request_while_one_is_being_filled_begins_no_other() -> None:
    assert shown(decide([SERVING, FILLING], FRESH, standing(), reseeds=False, is_asked=True)) == ([3, 4], [])


def test_a_request_while_one_is_whole_and_waits_for_readers_begins_another_in_its_place() -> None:
    waiting = replace(FILLING, is_seeded=True)
    assert shown(decide([SERVING, waiting], FRESH, standing(), reseeds=False, is_asked=True)) == ([3, 5], [4])
    assert shown(decide([waiting], FRESH, standing(), reseeds=False, is_asked=True)) == ([5], [4])


def test_a_request_is_reason_enough_to_replace_what_lost_its_slot() -> None:
    with pytest.raises(SlotMissing):
        decide([SERVING], FRESH, LOST, reseeds=False)
    fate = decide([SERVING], FRESH, LOST, reseeds=False, is_asked=True)
    assert shown(fate) == ([4], [])
    assert fate.frozen is not None
    assert "which is gone" in fate.frozen.stale


def test_what_is_frozen_stays_so_and_is_no_reason_to_stop_again() -> None:
    frozen = replace(SERVING, stale="it lost its slot", slot="gone", beat=7.0)
    fate = decide([frozen, FILLING], FRESH, standing(), reseeds=False)
    assert (shown(fate), fate.because) == (([4], []), None)
    assert fate.frozen == replace(frozen, term=fate.written[0].term, beat=0.0)


def test_a_frozen_generation_is_replaced_even_if_its_schema_is_the_declared_one() -> None:
    fate = decide([replace(SERVING, stale="it lost its slot")], FRESH, standing(), reseeds=False)
    assert shown(fate) == ([4], [])


def test_a_generation_that_was_being_filled_goes_on() -> None:
    fate = decide([SERVING, replace(FILLING, witness=1000)], FRESH, standing(), reseeds=False)
    assert shown(fate) == ([3, 4], [])


def test_one_that_is_whole_and_waits_for_readers_goes_on() -> None:
    fate = decide([SERVING, replace(FILLING, is_seeded=True)], FRESH, standing(), reseeds=False)
    assert fate.written[-1].is_seeded


def test_what_was_being_filled_and_cannot_be_written_any_more_goes_and_a_new_one_begins() -> None:
    fate = decide([SERVING, FILLING], FRESH, standing(), reseeds=False, unfit={4: "it has other ids"})
    assert shown(fate) == ([3], [4])
    fate = decide([FILLING], FRESH, standing(), reseeds=False, unfit={4: "it has other ids"})
    assert shown(fate) == ([5], [4])


def test_what_was_being_filled_for_another_schema_goes_and_a_new_one_begins() -> None:
    fate = decide([OLD_SCHEMA, replace(FILLING, digest="other")], FRESH, standing(), reseeds=False)
    assert shown(fate) == ([3, 5], [4])


def test_a_schema_that_is_put_back_ends_the_filling_of_the_other() -> None:
    fate = decide([SERVING, replace(FILLING, digest="other")], FRESH, standing(), reseeds=False)
    assert shown(fate) == ([3], [4])


def test_what_a_crash_left_half_made_goes() -> None:
    half = replace(FILLING, generation=2)
    assert shown(decide([half, SERVING], FRESH, standing(), reseeds=False)) == ([3], [2])


@pytest.mark.parametrize(("newest", "serving"), [(2, 4), (1, 3), (0, 4)], ids=["on", "back", "no numbers"])
def test_of_two_that_serve_after_a_crash_the_one_counts_that_readers_were_to_see_last(
    newest: int, serving: int
) -> None:
    states = [
        replace(SERVING, published=newest and 3 - newest),
        replace(SERVING, generation=4, published=newest),
    ]
    other = 7 - serving
    fate = decide(states, FRESH, standing(), reseeds=False)
    assert shown(fate) == ([serving], [other])
    assert not any(state.serves for state in fate.dropped)
    fate = decide(states, FRESH, standing(), reseeds=False, keeps=1)
    assert shown(fate) == ([3, 4], [])
    assert {state.generation: (state.serves, state.is_kept) for state in fate.written} == {
        serving: (True, False),
        other: (False, True),
    }


def test_a_move_that_a_crash_cut_short_keeps_the_newest_of_those_that_were_kept() -> None:
    newer = replace(SERVING, generation=4, published=2)
    assert shown(decide([KEPT, SERVING, newer], FRESH, standing(), reseeds=False, keeps=1)) == ([3, 4], [2])


def test_a_move_that_a_crash_cut_short_after_a_rollback_keeps_what_readers_saw_last() -> None:
    good = replace(KEPT, serves=True, is_kept=False, published=4)
    bad = replace(SERVING, serves=False, is_kept=True, published=3)
    newer = replace(SERVING, generation=4, published=5)
    assert shown(decide([good, bad, newer], FRESH, standing(), reseeds=False, keeps=1)) == ([2, 4], [3])


def test_what_is_kept_stays_though_fewer_are_to_be_kept_from_now_on() -> None:
    assert shown(decide([KEPT, SERVING], FRESH, standing(), reseeds=False, keeps=0)) == ([2, 3], [])


def test_what_was_frozen_when_readers_moved_on_goes() -> None:
    frozen = replace(SERVING, stale="it lost its slot")
    newer = replace(SERVING, generation=4, published=1)
    assert shown(decide([frozen, newer], FRESH, standing(), reseeds=False, keeps=1)) == ([4], [3])


@pytest.mark.parametrize("gone", [{3}, {3, 4}])
def test_a_generation_that_someone_deleted_is_filled_anew_under_a_new_number(gone: set[int]) -> None:
    fate = decide([SERVING, FILLING], FRESH, standing(), reseeds=False, gone=gone)
    assert shown(fate) == (([4], [3]) if gone == {3} else ([5], [3, 4]))


def test_what_is_kept_is_written_and_what_lost_changes_is_kept_no_more() -> None:
    assert shown(decide([KEPT, SERVING], FRESH, standing(), reseeds=False)) == ([2, 3], [])
    assert shown(decide([KEPT, SERVING], FRESH, LOST, reseeds=True)) == ([4], [2])


def test_a_rollback_holds_until_another_schema_or_a_request() -> None:
    back = replace(KEPT, serves=True, is_kept=False, digest="old")
    from_ = replace(SERVING, serves=False, is_kept=True)
    assert Roles.of([back, from_]).serving == back
    assert shown(decide([back, from_], FRESH, standing(), reseeds=False)) == ([2, 3], [])
    other = replace(FRESH, digest="new")
    assert shown(decide([back, from_], other, standing(), reseeds=False)) == ([2, 3, 4], [])
    assert shown(decide([back, from_], FRESH, standing(), reseeds=False, is_asked=True)) == ([2, 3, 4], [])


def test_a_rollback_leads_to_the_newest_that_is_older_and_kept() -> None:
    oldest = replace(KEPT, generation=1)
    assert Roles.of([oldest, KEPT, SERVING]).back() == KEPT
    assert Roles.of([SERVING, FILLING]).back() is None


def test_a_rollback_does_not_lead_to_what_readers_were_led_back_from() -> None:
    good = replace(KEPT, published=4)
    bad = replace(KEPT, generation=3, published=3)
    assert Roles.of([good, bad, replace(SERVING, generation=4, published=5)]).back() == good
    assert Roles.of([replace(good, serves=True, is_kept=False), bad]).back() is None


def test_every_start_has_a_higher_term_than_the_one_before() -> None:
    first = decide([SERVING, FILLING], FRESH, standing(), reseeds=False)
    again = decide(first.written, FRESH, standing(), reseeds=False)
    terms = {state.term for state in first.written} | {state.term for state in again.written}
    assert len(terms) == 2
    assert min(terms) == first.written[0].term


@pytest.mark.parametrize("recorded", [{"users": 1500}, {"others": 1500}])
def test_what_was_put_back_or_left_out_while_others_went_on_is_replaced_unasked(
    recorded: dict[str, int],
) -> None:
    fate = decide([SERVING], FRESH, standing(confirmed=1500, recorded=recorded), reseeds=False)
    assert shown(fate) == ([4], [])
    assert isinstance(fate.because, IndexLeftBehind)
    assert fate.frozen is not None


@pytest.mark.parametrize("recorded", [{}, {"users": 1400}, {"others": 1400}])
def test_a_slot_beyond_what_everything_that_it_feeds_has_stops(recorded: dict[str, int]) -> None:
    with pytest.raises(SlotAdvanced):
        decide([SERVING], FRESH, standing(confirmed=1500, recorded=recorded), reseeds=False)


def test_what_was_put_back_with_its_state_is_replaced_unasked_but_not_from_another_database() -> None:
    ahead = standing(confirmed=1500)
    fate = decide([SERVING], FRESH, ahead, reseeds=False, unfit={3: "it was put back"}, put_back={3})
    assert shown(fate) == ([4], [])
    assert isinstance(fate.because, SlotAdvanced)
    other = replace(ahead, system_identifier="78")
    with pytest.raises(SourceReplaced):
        decide([SERVING], FRESH, other, reseeds=False, unfit={3: "it was put back"}, put_back={3})


@pytest.mark.parametrize(
    ("was", "found", "is_other"),
    [
        ((), ("a",), False),
        (("a",), ("a",), False),
        (("a", "b"), ("a",), False),
        (("a",), ("a", "b"), False),
        (("a",), ("c",), True),
        (("a", "b"), ("a", "c"), True),
    ],
)
def test_a_generation_is_another_when_a_part_that_is_known_has_another_uuid(
    was: tuple[str, ...], found: tuple[str, ...], is_other: bool
) -> None:
    assert is_another(replace(STATE, uuids=was), found) is is_other
