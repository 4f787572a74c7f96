"""When an index goes on where it stood, when it is filled anew, and when that is for the user to say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flusso.capture.fingerprint import Marks
from flusso.capture.slot import SlotInfo
from flusso.debt import Scope
from flusso.engine.continuity import Published, Standing, find_break
from flusso.engine.generations import Fate, decide
from flusso.errors import (
    FlussoError,
    SlotAdvanced,
    SlotMissing,
    SourceReplaced,
    SourceWentBack,
    TimelineBehind,
)
from flusso.lsn import Lsn, Version
from flusso.sinks.base import IndexState

STATE = IndexState(
    "users", "abc", 3, True, "shop", "77", 2, "Monday", witness=1000, highest_version=Version.of(2, Lsn(990))
)
STATE = replace(STATE, serves=True)
FRESH = IndexState("users", "abc", 1)


def newest(fate: Fate) -> IndexState:
    return fate.written[-1]


def standing(*, confirmed: int = 1000, timeline: int = 2, end: int = 2000, **changes: Any) -> Standing:
    slot = SlotInfo("shop", "pgoutput", "logical", "db", None, Lsn(1), Lsn(confirmed), "reserved", None)
    published = Published(Marks("flusso", "p1.1", {}), {})
    return replace(
        Standing(slot, False, "77", Version.of(timeline, Lsn(end)), published, "Monday"), **changes
    )


OTHER_SLOT = replace(standing(), slot=replace(standing().slot, name="other"))
BREAKS: dict[str, tuple[Standing, type[FlussoError]]] = {
    "another cluster": (standing(system_identifier="78"), SourceReplaced),
    "an older timeline": (standing(timeline=1), TimelineBehind),
    "a WAL that ends before the witness": (standing(confirmed=500, end=995), SourceWentBack),
    "a new slot": (standing(is_new_slot=True), SlotMissing),
    "another slot": (OTHER_SLOT, SlotMissing),
    "a slot ahead of its witness": (standing(confirmed=1001), SlotAdvanced),
    "a slot ahead of its witness after a takeover": (standing(confirmed=1001, timeline=3), SlotAdvanced),
}
MENDED = {name: found for name, found in BREAKS.items() if found[1] is not TimelineBehind}


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_is_recognised_as_what_it_is(name: str) -> None:
    now, kind = BREAKS[name]
    assert type(find_break(STATE, now)) is kind


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_stops_a_served_index(name: str) -> None:
    now, kind = BREAKS[name]
    with pytest.raises(kind) as raised:
        decide([STATE], FRESH, now, reseeds=False)
    assert raised.value.hint


@pytest.mark.parametrize("name", MENDED)
def test_a_break_begins_a_new_generation_where_reseeding_is_wanted(name: str) -> None:
    now, kind = MENDED[name]
    found = decide([STATE], FRESH, now, reseeds=True)
    assert type(found.because) is kind
    assert (newest(found).generation, newest(found).is_seeded, newest(found).highest_version) == (4, False, 0)
    assert (newest(found).slot, newest(found).witness) == (now.slot.name, now.position)


@pytest.mark.parametrize("name", MENDED)
def test_a_break_in_an_index_that_nobody_sees_yet_begins_it_again(name: str) -> None:
    found = decide([replace(STATE, is_seeded=False, serves=False)], FRESH, MENDED[name][0], reseeds=False)
    assert (newest(found).generation, found.because) == (4, None)


@pytest.mark.parametrize("is_seeded", [True, False])
def test_a_server_that_another_took_over_from_is_never_seeded_from(is_seeded: bool) -> None:
    with pytest.raises(TimelineBehind):
        decide(
            [replace(STATE, is_seeded=is_seeded, serves=is_seeded)], FRESH, standing(timeline=1), reseeds=True
        )


def test_versions_alone_show_a_database_that_went_back() -> None:
    state = replace(STATE, witness=500, highest_version=Version.of(2, Lsn(3000)))
    assert type(find_break(state, standing(confirmed=400))) is SourceWentBack


def test_a_slot_behind_its_witness_goes_on() -> None:
    assert decide([STATE], FRESH, standing(confirmed=10), reseeds=False).written == (
        replace(STATE, term=standing().version),
    )


def test_a_state_from_before_timelines_were_kept_knows_its_timeline_by_its_versions() -> None:
    state = replace(STATE, timeline=0)
    assert type(find_break(state, standing(timeline=1))) is TimelineBehind
    assert newest(decide([state], FRESH, standing(timeline=3), reseeds=False)).debts


def test_a_standby_that_took_over_is_followed_and_owes_a_repair() -> None:
    found = decide([STATE], FRESH, standing(confirmed=900, timeline=3), reseeds=False)
    (debt,) = newest(found).debts
    assert (debt.scope, debt.since) == (Scope.WHOLE, 900)
    assert (newest(found).timeline, newest(found).witness, newest(found).generation) == (3, 900, 3)


def test_the_same_timeline_owes_nothing() -> None:
    assert not newest(decide([STATE], FRESH, standing(), reseeds=False)).debts


def test_a_reason_from_outside_begins_every_index_anew() -> None:
    reason = SourceWentBack("a document is newer than the database")
    found = decide([STATE], FRESH, standing(), reseeds=True, anew=reason)
    assert (found.because, newest(found).generation) == (reason, 4)


def test_a_generation_that_no_run_has_begun_is_filled_whatever_happened_to_the_source() -> None:
    now = standing(is_new_slot=True, system_identifier="78")
    found = decide([IndexState("users", "abc", 4)], FRESH, now, reseeds=False)
    assert (newest(found).generation, newest(found).system_identifier, found.because) == (4, "78", None)


def test_a_changed_schema_begins_a_new_generation_without_a_break() -> None:
    found = decide([replace(STATE, digest="old")], FRESH, standing(is_new_slot=True), reseeds=False)
    assert (newest(found).digest, newest(found).generation, found.because) == ("abc", 4, None)


def test_a_server_that_recovered_from_a_crash_owes_a_repair_once() -> None:
    now = standing(recovered_at="Tuesday")
    state = newest(decide([STATE], FRESH, now, reseeds=False))
    assert [(debt.scope, debt.since) for debt in state.debts] == [(Scope.WHOLE, 1000)]
    assert newest(decide([replace(state, debts=())], FRESH, now, reseeds=False)).debts == ()


def test_a_state_from_before_crashes_were_noticed_owes_nothing() -> None:
    state = newest(decide([replace(STATE, recovered_at="")], FRESH, standing(), reseeds=False))
    assert (state.debts, state.recovered_at) == ((), "Monday")
