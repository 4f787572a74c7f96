"""How far whoever follows has come: waited for before a difference counts.

Everything up to a position is written or owed once the slot was confirmed past it, or once the sink remembers
it as its witness, which comes a little earlier. Then what is owed has to be paid, too. Inside a large
transaction neither position moves for a long time, but the highest version that was handed out does. `Watch`
decides and is pure; `Follow` looks and waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from flusso.capture.slot import SlotInfo
from flusso.debt import Debt
from flusso.lsn import Lsn
from flusso.sinks.base import IndexState

_POLL_S = 0.1
_STATE_EVERY = 5
"""Looks at the slot for each look at the sink, which costs it more."""


class Pace(StrEnum):
    """Whether someone keeps the index in step."""

    FOLLOWED = "followed"
    UNFOLLOWED = "unfollowed"
    """Nobody reads the slot: changes since it was last read are not in the index."""
    OWED = "owed"
    """Someone follows, and has documents still to build anew."""
    STUCK = "stuck"
    """Someone reads the slot, but does not come on."""

    @property
    def proves(self) -> bool:
        """Whether what still differs then counts: it was waited for, or there is nobody to wait for."""
        return self in (Pace.FOLLOWED, Pace.UNFOLLOWED)


@dataclass(frozen=True, slots=True)
class Stand:
    """Whoever follows, as seen at one look."""

    is_read: bool
    """Whether someone reads the slot."""
    reached: Lsn
    """Everything up to here is written or owed."""
    version: int = 0
    """The highest version handed out: it rises while documents are written, also within a transaction."""
    debts: tuple[Debt, ...] = ()
    beat: float = 0.0
    """Changes while someone is there, between two readers of the slot too; zero after an end in order."""
    is_noticed: bool = True
    """Whether the tables are as whoever follows knows them; DDL is noticed only after some seconds."""

    @property
    def progress(self) -> tuple[int, int, tuple[Debt, ...]]:
        """What changes while it comes on."""
        return self.reached, self.version, self.debts


@dataclass(frozen=True, slots=True)
class Stood:
    """How whoever follows stood when it was waited for in vain. While that is so nobody waits again."""

    pace: Pace
    stand: Stand
    since: int = -1
    """Of the debts that were waited for, the latest."""

    def is_so_still(self, stand: Stand, mark: Lsn) -> bool:
        """Whether waiting would be in vain once more."""
        match self.pace:
            case Pace.UNFOLLOWED:
                return not stand.is_read and stand.beat == self.stand.beat
            case Pace.OWED:
                return stand.reached >= mark and _is_owed(stand, self.since)
            case _:
                return stand.progress == self.stand.progress


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is too long."""

    absent_s: float = 5.0
    """Nobody reads the slot: between two queries a reader is gone for a moment."""
    silent_s: float = 15.0
    """The same, of one that has not said that it ends: three of its beats."""
    stuck_s: float = 120.0
    """A reader stands still."""
    owed_s: float = 600.0
    """Documents are owed, though some are paid all the time."""


@dataclass(slots=True)
class Watch:
    """Decides at each look whether to wait for a position any longer."""

    mark: Lsn
    limits: Limits
    before: Stood | None = None
    since: int = -1
    """Debts up to here belong to what is waited for."""
    _last: Stand | None = None
    _moved_s: float = 0.0
    _seen_s: float = 0.0
    _passed_s: float | None = None
    _is_known: bool = False

    def judge(self, stand: Stand, now_s: float) -> Pace | None:
        """Give the pace that ends the wait; None: wait on."""
        self._note(stand, now_s)
        is_passed = stand.reached >= self.mark
        if is_passed and self._is_all_paid(stand, now_s):
            return Pace.FOLLOWED
        if self.before is not None and self.before.is_so_still(stand, self.mark):
            return self.before.pace
        self.before = None
        if now_s - self._seen_s >= (self.limits.silent_s if stand.beat else self.limits.absent_s):
            return Pace.UNFOLLOWED
        if self._passed_s is not None:
            is_late = now_s - self._passed_s >= self.limits.owed_s
            return Pace.OWED if is_late or self._is_still(now_s) else None
        return Pace.STUCK if self._is_still(now_s) else None

    def _note(self, stand: Stand, now_s: float) -> None:
        last = self._last
        if last is None or stand.progress != last.progress:
            self._moved_s = now_s
        if last is None or stand.is_read or stand.beat != last.beat:
            self._seen_s = now_s
        if stand.reached >= self.mark and self._passed_s is None:
            self._passed_s = now_s
        self._last = stand

    def _is_still(self, now_s: float) -> bool:
        return now_s - self._moved_s >= self.limits.stuck_s

    def _is_all_paid(self, stand: Stand, now_s: float) -> bool:
        """Whether nothing is owed of what was caused before the position, at which it was all known."""
        if not self._is_known:
            waited_s = now_s - (now_s if self._passed_s is None else self._passed_s)
            # Another flusso may write down tables in another way: then they never become the same.
            if not stand.is_noticed and waited_s < self.limits.stuck_s:
                return False
            self._is_known = True
            self.since = max((debt.since for debt in stand.debts), default=-1)
        return not _is_owed(stand, self.since)


def _is_owed(stand: Stand, since: int) -> bool:
    """Whether a debt of then is there: one that is joined with a later one keeps the earlier position."""
    return any(debt.since <= since for debt in stand.debts)


@dataclass(slots=True)
class Follow:
    """Waits for whoever writes a generation."""

    slot: Callable[[], SlotInfo | None]
    """The slot that it is written through."""
    state: Callable[[], IndexState]
    """What the sink remembers of it."""
    catalog: Callable[[], str] | None = None
    """What its tables look like now, as the state has it too."""
    limits: Limits = field(default=Limits())
    stood: Stood | None = None
    """How it was waited for in vain last; nothing when it was not."""
    met: Stood | None = None
    """The same, whatever came after."""
    reasons: dict[str, None] = field(default_factory=dict)
    """Why documents were owed that were not waited for."""

    def wait(self, mark: Lsn) -> Pace:
        """Wait until all up to a position is written, or it is clear that nobody will, or not soon."""
        watch = Watch(mark, self.limits, self.stood)
        state: IndexState | None = None
        looks, known = 0, Lsn(0)
        while True:
            info = self.slot()
            confirmed = (info.confirmed_flush_lsn if info is not None else None) or Lsn(0)
            if state is None or looks % _STATE_EVERY == 0 or known < mark <= confirmed:
                # After the slot, so that it has all that was owed before the position was confirmed.
                state, known = self.state(), confirmed
            looks += 1
            stand = self._stand(info, state, max(confirmed, Lsn(state.witness)), mark)
            pace = watch.judge(stand, time.monotonic())
            if pace is not None:
                return self._end(pace, stand, watch)
            time.sleep(_POLL_S)  # between two looks: nobody tells when a slot moves

    def _stand(self, info: SlotInfo | None, state: IndexState, reached: Lsn, mark: Lsn) -> Stand:
        is_noticed = True
        if self.catalog is not None and state.catalog and reached >= mark:
            is_noticed = self.catalog() == state.catalog
        is_read = info is not None and info.active_pid is not None
        return Stand(is_read, reached, state.highest_version, state.debts, state.beat, is_noticed)

    def _end(self, pace: Pace, stand: Stand, watch: Watch) -> Pace:
        if pace is Pace.OWED:
            self.reasons |= dict.fromkeys(reason for debt in stand.debts for reason in debt.reasons)
        if watch.before is None or pace is not watch.before.pace:
            self.stood = None if pace is Pace.FOLLOWED else Stood(pace, stand, watch.since)
        self.met = self.stood or self.met
        return pace
