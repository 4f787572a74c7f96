"""Debts in the ledger: remembered by every sink at once, and paid only by what began after they were owed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flusso.debt import Cursor, Debt, Reach, Scope
from flusso.engine import work
from flusso.engine.entry import Entry
from flusso.engine.ledger import Ledger
from flusso.engine.work import Destination
from flusso.lsn import Lsn
from flusso.sinks.base import IndexState, IndexTarget
from flusso.sinks.sqlite import SqliteSpec


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    entries = [
        Entry(
            Destination(SqliteSpec(sink, tmp_path / f"{sink}.db"), IndexTarget(index, "d", 1)),
            IndexState(index, "d", 1, is_seeded=True),
        )
        for index in ("users", "orders")
        for sink in ("a", "b")
    ]
    return Ledger(entries, Lsn(50))


def remembered(ledger: Ledger) -> dict[tuple[str, str], tuple[Debt, ...]]:
    return {
        (entry.state.index, entry.destination.sink.name): state.debts
        for entry in ledger.entries
        if (state := work.sink(entry.destination.sink).load_states().newest(entry.state.index))
    }


def test_a_debt_is_in_every_sink_of_the_index_when_owe_returns(ledger: Ledger) -> None:
    ledger.owe(["users"], Scope.HELD, "it was truncated", Lsn(40))
    debt = Debt(Scope.HELD, ("it was truncated",), 40)
    assert remembered(ledger) == {("users", "a"): (debt,), ("users", "b"): (debt,)}


def test_without_a_position_a_debt_is_owed_since_the_last_recorded_one(ledger: Ledger) -> None:
    ledger.owe(["users"], Scope.WHOLE, "it was attached")
    assert [debt.since for entry in ledger.owing() for debt in entry.state.debts] == [50, 50]


def test_how_far_a_debt_is_paid_is_remembered_by_its_sink(ledger: Ledger) -> None:
    ledger.owe(["users"], Scope.HELD, "it was truncated")
    entry = ledger.owing()[0]
    ledger.pay(entry, entry.state.debts[0], Cursor(after="9"), 77)
    assert remembered(ledger)["users", "a"][0].cursor == Cursor(after="9")
    assert remembered(ledger)["users", "b"][0].cursor == Cursor()
    assert entry.state.highest_version == 77


def test_a_paid_debt_is_forgotten_by_its_sink_alone(ledger: Ledger) -> None:
    ledger.owe(["users"], Scope.HELD, "it was truncated")
    entry = ledger.owing()[0]
    ledger.pay(entry, entry.state.debts[0], None, 77)
    assert {place: len(debts) for place, debts in remembered(ledger).items()} == {
        ("users", "a"): 0,
        ("users", "b"): 1,
    }


@pytest.mark.parametrize("cursor", [None, Cursor(after="9")])
def test_a_debt_that_was_owed_anew_is_not_paid_by_what_began_before(
    ledger: Ledger, cursor: Cursor | None
) -> None:
    ledger.owe(["users"], Scope.HELD, "it was truncated")
    entry = ledger.owing()[0]
    begun = entry.state.debts[0]
    ledger.owe(["users"], Scope.HELD, "it was truncated")
    ledger.pay(entry, begun, cursor, 77)
    assert remembered(ledger)["users", "a"] == (Debt(Scope.HELD, ("it was truncated",), 50, 2),)


def test_a_debt_of_values_that_has_begun_counts_as_paid_though_they_are_owed_again(ledger: Ledger) -> None:
    reach = Reach("a path", (("1",),))
    ledger.owe(["users"], Scope.REACHED, "rows changed", reach=reach)
    entry = ledger.owing()[0]
    begun = ledger.begin(entry, entry.state.debts[0])
    ledger.owe(["users"], Scope.REACHED, "rows changed", reach=reach)
    cursor = Cursor('"public"."users"', 5, 7)
    ledger.pay(entry, begun, cursor, 77)
    assert [(debt.cursor, debt.times) for debt in remembered(ledger)["users", "a"]] == [
        (cursor, 1),
        (Cursor(), 2),
    ]


def test_a_debt_that_was_owed_anew_just_before_its_turn_is_not_begun(ledger: Ledger) -> None:
    ledger.owe(["users"], Scope.REACHED, "rows changed", reach=Reach("a path", (("1",),)))
    entry = ledger.owing()[0]
    chosen = entry.state.debts[0]
    ledger.owe(["users"], Scope.REACHED, "rows changed", reach=Reach("a path", (("2",),)))
    assert ledger.begin(entry, chosen) == chosen
    ledger.pay(entry, chosen, None, 77)
    assert [debt.reach and debt.reach.keys for debt in entry.state.debts] == [(("1",), ("2",))]
