"""A debt: documents of an index that must be built anew, too many for one batch.

What cannot be named change by change (TRUNCATE, a partition that came or went, values that DDL rewrote, a
repair), or would hold up others for too long, is owed instead: remembered in the state of every sink before
the position that caused it is confirmed, and paid beside the batches. `engine/ledger.py` keeps debts,
`engine/debts.py` pays them; docs/internals/debts.md says why that is enough. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

_REASONS_KEPT = 5
MOST_KEYS = 1000
"""Values that one debt names. They lie in the sink's state, which is written with every batch."""
_MOST_REACHED = 20
"""Debts of an index that name values; more of them are all that is held."""
BY_REFERENCES = "references"
"""In place of a path: the values are tokens, and lead to what the sink finds by them."""


class Scope(StrEnum):
    """Which documents are owed; each covers those before it, except that `GONE` does not cover `REACHED`."""

    REACHED = "reached"
    """Those that some values lead to, along one path or by references; `Debt.reach` says which and how."""
    GONE = "gone"
    """Those that the sink holds of rows that are no longer there."""
    HELD = "held"
    """Every document that the sink holds: rows may have gone, or what they show may have changed."""
    WHOLE = "whole"
    """Every row of the root table, and then all that is held: there may be rows that no document shows."""


_WIDTH = list(Scope)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a debt is paid; all before it is written. First by blocks of the root, then by ids held."""

    table: str = ""
    """The table of the root's tree whose blocks are being read, or were read last."""
    filenode: int = 0
    """The file that `block` counts in; another one has its rows elsewhere. 0 once the table is done."""
    block: int = 0
    are_rows_paid: bool = False
    after: str = ""
    """Where the sink goes on with its ids."""
    has_begun: bool = False
    """Whether a turn has been taken, though none may have ended: what it read is from before now."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where paths begin: tuples of values, of the row that changed or of the one that it refers to."""

    place: str
    """The path, as `builder/paths.py` names it, or `BY_REFERENCES`."""
    keys: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Owed:
    """Documents of an index that some changes touch and do not name."""

    index: str
    scope: Scope
    reason: str
    reach: Reach | None = None

    def to_text(self) -> str:
        """Write it as text, for a way that takes nothing else."""
        reach = self.reach and [self.reach.place, self.reach.keys]
        return json.dumps([self.index, self.scope, self.reason, reach])

    @classmethod
    def from_text(cls, text: str) -> Owed:
        """Read what `to_text` gave."""
        index, scope, reason, reach = json.loads(text)
        found = Reach(reach[0], tuple(map(tuple, reach[1]))) if reach else None
        return cls(index, Scope(scope), reason, found)


@dataclass(frozen=True, slots=True)
class Debt:
    """What one sink is owed of one index."""

    scope: Scope
    reasons: tuple[str, ...]
    """What happened, the latest last."""
    since: int
    """The WAL position from which on the index may not be exact."""
    times: int = 1
    """How often it was owed anew: whoever pays can tell that what is under way no longer counts."""
    cursor: Cursor = Cursor()
    reach: Reach | None = None
    """Of `REACHED`: what leads to them."""


def join(debts: Iterable[Debt], new: Debt) -> tuple[Debt, ...]:
    """Add a debt to those there are. What is owed again is paid again, from the start.

    What some values reach is a debt of its own: it waits its turn, joined with what waits for the same path.
    One that has begun goes on to its end, however often its documents are owed again meanwhile, so a row that
    changes all the time cannot keep those far down its table from ever being written.
    """
    every = tuple(debts)
    if new.reach is not None:
        return _join_reached(every, new, new.reach)
    kept = tuple(debt for debt in every if debt.reach is not None)
    covered = tuple(debt for debt in every if debt.reach is None)
    if max((new, *covered), key=_width).scope is not Scope.GONE:
        kept, covered = (), every
    for old in covered:
        new = replace(_added(old, new), scope=max(old, new, key=_width).scope)
    return (*kept, replace(new, cursor=Cursor()))


def _join_reached(debts: tuple[Debt, ...], new: Debt, reach: Reach) -> tuple[Debt, ...]:
    for place, old in enumerate(debts):
        if old.reach is None or old.reach.place != reach.place or old.cursor != Cursor():
            continue
        keys = tuple(dict.fromkeys((*old.reach.keys, *reach.keys)))
        if len(keys) > MOST_KEYS:
            break
        joined = replace(_added(old, new), reach=replace(reach, keys=keys))
        return (*debts[:place], joined, *debts[place + 1 :])
    else:
        if sum(debt.reach is not None for debt in debts) < _MOST_REACHED:
            times = max((debt.times for debt in debts), default=0) + 1
            return (*debts, replace(new, times=times, cursor=Cursor()))
    return join(debts, replace(new, scope=Scope.HELD, reach=None))


def _added(old: Debt, new: Debt) -> Debt:
    kept = [reason for reason in old.reasons if reason not in new.reasons]
    reasons = (*kept, *new.reasons)[-_REASONS_KEPT:]
    return replace(new, reasons=reasons, since=min(old.since, new.since), times=max(old.times, new.times) + 1)


def _width(debt: Debt) -> int:
    return _WIDTH.index(debt.scope)
