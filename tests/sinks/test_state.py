"""State as JSON text."""

from __future__ import annotations

import json

import pytest

from flusso.debt import Cursor, Debt, Reach, Scope
from flusso.errors import SinkRefused
from flusso.sinks.base import IndexState, States
from flusso.sinks.state import state_from_json, state_key, state_to_json, states_of


def test_a_state_reads_back_as_it_was_written() -> None:
    state = IndexState("books", "d", 3, True, "slot", "7", 1 << 62, (1 << 63) - 1)
    assert state_from_json(state_to_json(state)) == state


def test_a_state_of_an_earlier_release_is_read_and_a_newer_one_of_that_generation_counts() -> None:
    text = json.dumps({"index": "books", "digest": "d", "generation": 1, "is_seeded": True})
    earlier = IndexState("books", "d", 1, is_seeded=True, serves=True)
    assert states_of({"books": text}) == States((earlier,))
    newer = IndexState("books", "d", 1, is_seeded=True, serves=False)
    key = state_key("books", 1)
    for entries in ({"books": text, key: state_to_json(newer)}, {key: state_to_json(newer), "books": text}):
        assert states_of(entries) == States((newer,))


def test_a_debt_reads_back_as_it_was_written() -> None:
    cursor = Cursor('"public"."users"', 16384, 40, are_rows_paid=True, after="0:17:99")
    debt = Debt(Scope.WHOLE, ("a was attached", "b was dropped"), 1 << 40, 3, cursor)
    reach = Reach('["orders", "public.orders", "id"]', (("1", "a"), ("2", "b")))
    reached = Debt(Scope.REACHED, ("rows changed",), 7, cursor=Cursor(has_begun=True), reach=reach)
    state = IndexState("books", "d", 3, debts=(debt, reached))
    assert state_from_json(state_to_json(state)) == state


@pytest.mark.parametrize("news", [{"scope": "fan_out"}, {"scope": "held", "path": 3}])
def test_a_debt_that_a_newer_release_made_is_one_for_the_whole_index(news: dict[str, object]) -> None:
    debt = {"scope": "held", "reasons": ["x"], "since": 7, "cursor": {"after": "9"}} | news
    text = json.dumps({"index": "books", "digest": "d", "generation": 1, "debts": [debt]})
    assert state_from_json(text).debts == (Debt(Scope.WHOLE, ("x",), 7),)


def test_keys_of_a_newer_release_are_passed_over_and_missing_ones_take_their_default() -> None:
    text = json.dumps({"index": "books", "digest": "d", "generation": 1, "debts": []})
    assert state_from_json(text) == IndexState("books", "d", 1)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"index": "books"}'])
def test_a_state_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SinkRefused, match="not readable"):
        state_from_json(text)
