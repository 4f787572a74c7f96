"""Debts, and how they add up."""

from __future__ import annotations

import itertools

import pytest

from flusso.debt import MOST_KEYS, Cursor, Debt, Owed, Reach, Scope, join

OLD = Debt(Scope.HELD, ("a was truncated",), 10, 2, Cursor(after="7"))


def test_the_first_debt_is_owed_as_it_is() -> None:
    assert join((), OLD) == (Debt(Scope.HELD, ("a was truncated",), 10, 2),)


def test_what_is_owed_again_is_paid_from_the_start() -> None:
    (joined,) = join((OLD,), Debt(Scope.HELD, ("a was truncated",), 20))
    assert joined == Debt(Scope.HELD, ("a was truncated",), 10, 3, Cursor())


WIDE = [Scope.GONE, Scope.HELD, Scope.WHOLE]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(WIDE, WIDE)))
def test_two_debts_together_are_as_wide_as_the_wider(old: Scope, new: Scope) -> None:
    (joined,) = join((Debt(old, ("a",), 1),), Debt(new, ("b",), 2))
    order = WIDE
    assert joined.scope is order[max(order.index(old), order.index(new))]


def test_the_latest_reasons_are_kept() -> None:
    debts: tuple[Debt, ...] = ()
    for number in range(8):
        debts = join(debts, Debt(Scope.HELD, (f"t{number} was truncated",), number))
    assert debts[0].reasons == tuple(f"t{number} was truncated" for number in range(3, 8))


def reached(*keys: str, place: str = "p", cursor: Cursor | None = None, times: int = 1) -> Debt:
    reach = Reach(place, tuple((key,) for key in keys))
    return Debt(Scope.REACHED, ("rows changed",), 10, times, cursor or Cursor(), reach)


def test_values_that_are_owed_again_before_they_are_paid_wait_together() -> None:
    assert join((reached("a", "b"),), reached("b", "c")) == (reached("a", "b", "c", times=2),)


def test_values_of_another_path_are_a_debt_of_their_own() -> None:
    other = reached("a", place="q")
    assert join((reached("a"),), other) == (reached("a"), reached("a", place="q", times=2))


@pytest.mark.parametrize("cursor", [Cursor(has_begun=True), Cursor("t", 5, 7)], ids=["a turn", "some blocks"])
def test_a_debt_that_has_begun_goes_on_and_what_is_owed_again_comes_after_it(cursor: Cursor) -> None:
    begun = reached("a", cursor=cursor)
    once = join((begun,), reached("a"))
    assert once == (begun, reached("a", times=2))
    assert join(once, reached("a")) == (begun, reached("a", times=3))


@pytest.mark.parametrize("scope", [Scope.HELD, Scope.WHOLE])
def test_all_that_is_held_covers_what_values_reach(scope: Scope) -> None:
    begun = reached("a", cursor=Cursor("t", 5, 7))
    (joined,) = join((begun, reached("b", place="q", times=2)), Debt(scope, ("it was truncated",), 20))
    assert joined == Debt(scope, ("rows changed", "it was truncated"), 10, 3)


def test_rows_that_are_gone_do_not_cover_what_values_reach() -> None:
    gone = Debt(Scope.GONE, ("it was truncated",), 20)
    assert join((reached("a"),), gone) == (reached("a"), gone)
    assert join((gone,), reached("a")) == (gone, reached("a", times=2))


def test_more_values_than_a_state_should_hold_become_all_that_is_held() -> None:
    many = reached(*(str(n) for n in range(MOST_KEYS)))
    assert [debt.scope for debt in join((many,), reached("more"))] == [Scope.HELD]


def test_more_paths_than_a_state_should_hold_become_all_that_is_held() -> None:
    debts: tuple[Debt, ...] = ()
    for number in range(20):
        debts = join(debts, reached("a", place=str(number)))
    assert len(debts) == 20
    assert [debt.scope for debt in join(debts, reached("a", place="one more"))] == [Scope.HELD]


@pytest.mark.parametrize(
    "owed",
    [
        Owed("users", Scope.HELD, "it was truncated"),
        Owed("users", Scope.REACHED, "rows changed", Reach("p", (("a", "b"), ('"ä\\', "")))),
    ],
)
def test_what_is_owed_travels_as_text(owed: Owed) -> None:
    assert Owed.from_text(owed.to_text()) == owed
