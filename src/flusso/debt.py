"""A debt: documents of an index that must be built anew, too many for one batch.

What cannot be named change by change (TRUNCATE, a partition that came or went, values that DDL rewrote, a
repair) is owed instead: remembered in the state of every sink before the position that caused it is
confirmed, and paid beside the batches. `engine/ledger.py` keeps debts, `engine/debts.py` pays them;
docs/internals/debts.md says why that is enough. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

_REASONS_KEPT = 5


class Scope(StrEnum):
    """Which documents are owed; each covers those before it."""

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


def join(debts: Iterable[Debt], new: Debt) -> tuple[Debt, ...]:
    """Add a debt to those there are. What is owed again is paid again, from the start."""
    for old in debts:
        scope = max(old.scope, new.scope, key=_WIDTH.index)
        kept = [reason for reason in old.reasons if reason not in new.reasons]
        reasons = (*kept, *new.reasons)[-_REASONS_KEPT:]
        new = replace(new, scope=scope, reasons=reasons, since=min(old.since, new.since), times=old.times + 1)
    return (replace(new, cursor=Cursor()),)
