"""Debts, and how they add up."""

from __future__ import annotations

import itertools

import pytest

from flusso.debt import Cursor, Debt, Scope, join

OLD = Debt(Scope.HELD, ("a was truncated",), 10, 2, Cursor(after="7"))


def test_the_first_debt_is_owed_as_it_is() -> None:
    assert join((), OLD) == (Debt(Scope.HELD, ("a was truncated",), 10, 2),)


def test_what_is_owed_again_is_paid_from_the_start() -> None:
    (joined,) = join((OLD,), Debt(Scope.HELD, ("a was truncated",), 20))
    assert joined == Debt(Scope.HELD, ("a was truncated",), 10, 3, Cursor())


@pytest.mark.parametrize(("old", "new"), list(itertools.product(Scope, Scope)))
def test_two_debts_together_are_as_wide_as_the_wider(old: Scope, new: Scope) -> None:
    (joined,) = join((Debt(old, ("a",), 1),), Debt(new, ("b",), 2))
    order = [Scope.GONE, Scope.HELD, Scope.WHOLE]
    assert joined.scope is order[max(order.index(old), order.index(new))]


def test_the_latest_reasons_are_kept() -> None:
    debts: tuple[Debt, ...] = ()
    for number in range(8):
        debts = join(debts, Debt(Scope.HELD, (f"t{number} was truncated",), number))
    assert debts[0].reasons == tuple(f"t{number} was truncated" for number in range(3, 8))
