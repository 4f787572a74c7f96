"""What becomes of the generations of an index in one sink, at a start or at a new look. Pure.

At most one generation serves readers, at most one is being filled to take its place, and some that readers
saw before may be kept so that they can be led back. All of them are written, as long as their documents can
be built and no change was lost on the way; one that readers see and that can be written no more stays as it
is until the new one is whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flusso.engine.continuity import Standing, begun, continued, find_break, is_unwritten
from flusso.engine.policy import is_mended_by_reseed
from flusso.errors import FlussoError, IndexLeftBehind, SlotAdvanced
from flusso.sinks.base import IndexState, States


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of each generation."""

    written: tuple[IndexState, ...]
    """Those that take documents from now on, oldest first."""
    frozen: IndexState | None = None
    """Readers see it, and nothing is written to it any more; its state says why."""
    dropped: tuple[IndexState, ...] = ()
    """Of no use to anybody: left half-made, or past keeping."""
    because: FlussoError | None = None
    """Why a new generation takes the place of one that readers see, when that was lost."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The generations of an index by what they are for."""

    serving: IndexState | None
    filling: IndexState | None
    kept: tuple[IndexState, ...]
    """Those that readers saw last come last: that need not be the newest, as after a rollback."""
    leftovers: tuple[IndexState, ...]
    is_half_moved: bool = False
    """Whether readers have moved, and what becomes of those that they left was not decided yet."""

    @classmethod
    def of(cls, states: Sequence[IndexState]) -> Roles:
        """Sort them; `states` has the oldest first.

        What served before readers moved, and does not say yet that they left, counts as kept: a crash came in
        between.
        """
        serving = States.serving_of(states)
        others = [_left(state) if state.serves else state for state in states if state is not serving]
        kept = tuple(sorted((state for state in others if state.is_kept), key=lambda state: state.move))
        rest = [state for state in others if not state.is_kept]
        after = serving.generation if serving else 0
        filling = next((each for each in reversed(rest) if each.generation > after and not each.stale), None)
        leftovers = tuple(state for state in rest if state is not filling)
        return cls(serving, filling, kept, leftovers, sum(state.serves for state in states) > 1)

    def back(self) -> IndexState | None:
        """Give the generation that a rollback leads to: of the older ones what readers saw last.

        Not a newer one: readers were led back from it, and a second rollback does not undo the first.
        """
        if self.serving is None:
            return None
        older = [state for state in self.kept if state.generation < self.serving.generation]
        return older[-1] if older else None


def _left(state: IndexState) -> IndexState:
    return replace(state, serves=False, is_kept=not state.stale)


def decide(
    states: Sequence[IndexState],
    fresh: IndexState,
    now: Standing,
    *,
    reseeds: bool,
    is_asked: bool = False,
    anew: FlussoError | None = None,
    unfit: Mapping[int, str] | None = None,
    gone: Collection[int] = (),
    put_back: Collection[int] = (),
    above: int = 0,
    keeps: int = 0,
) -> Fate:
    """Decide which generations go on and whether a new one begins; raise when neither may be.

    `states` is what the sink remembers, `fresh` what is declared. `anew` breaks every generation, for that
    reason; `is_asked` wants a new one whatever the others are, unless one is being filled; `unfit` says of
    some why they cannot be written any more, and those that are `gone` were deleted by someone else; those of
    the unfit that are `put back` may have lost what their states say as well. A new one is numbered `above`
    what the sink holds without remembering it. After a move that a crash cut short, so many are kept as
    `keeps` says.
    """
    roles = Roles.of([state for state in states if state.generation not in gone])
    kept, dropped = _split_kept(roles, keeps)
    dropped += [state for state in states if state.generation in gone] + list(roles.leftovers)
    may_replace = is_asked or reseeds
    written, frozen, because = _served(roles.serving, fresh, now, anew, unfit or {}, put_back, may_replace)
    for state in kept:
        is_lost = anew or find_break(state, now) or (unfit or {}).get(state.generation)
        dropped.append(state) if is_lost else written.append(continued(state, now))
    number = 1 + max([above, *(state.generation for state in states)])
    fresh = replace(fresh, generation=number)
    next_ = _next(roles, fresh, now, anew, unfit or {}, is_current=frozen is None, is_asked=is_asked)
    if next_ is not None:
        written.append(next_)
    if roles.filling is not None and (next_ is None or next_.generation != roles.filling.generation):
        dropped.append(roles.filling)
    term = max([int(now.version), *(state.term + 1 for state in states)])
    frozen = frozen and replace(frozen, term=term, beat=0.0)
    numbered = sorted(written, key=lambda each: each.generation)
    return Fate(tuple(replace(state, term=term) for state in numbered), frozen, tuple(dropped), because)


def _split_kept(roles: Roles, keeps: int) -> tuple[Sequence[IndexState], list[IndexState]]:
    """Tell what is kept from what is past keeping, which a move decides: here one that was cut short."""
    first = len(roles.kept) - keeps if roles.is_half_moved else 0
    return roles.kept[max(first, 0) :], list(roles.kept[: max(first, 0)])


def _served(
    serving: IndexState | None,
    fresh: IndexState,
    now: Standing,
    anew: FlussoError | None,
    unfit: Mapping[int, str],
    put_back: Collection[int],
    reseeds: bool,
) -> tuple[list[IndexState], IndexState | None, FlussoError | None]:
    """Say whether what readers see is written on or frozen, and what it has lost if a new one replaces it."""
    if serving is None or serving.stale:
        return [], serving, None
    is_put_back = serving.generation in put_back
    broken = _judged(serving, fresh, now, anew, reseeds=reseeds, is_put_back=is_put_back)
    because = broken if serving.digest == fresh.digest else None
    why = broken.message if broken else unfit.get(serving.generation)
    if why:
        return [], replace(serving, stale=why), because
    return [continued(serving, now)], None, because


def _judged(
    serving: IndexState,
    fresh: IndexState,
    now: Standing,
    anew: FlussoError | None,
    *,
    reseeds: bool,
    is_put_back: bool,
) -> FlussoError | None:
    """Say why the serving generation cannot go on; raise when nothing may take its place unasked.

    With another schema it is replaced anyway. So is what a sink holds that was put back: nothing was lost,
    and if its state went back with it, it was we who moved the slot beyond.
    """
    broken = anew or find_break(serving, now)
    if broken is None:
        return None
    is_behind = isinstance(broken, IndexLeftBehind) or (is_put_back and isinstance(broken, SlotAdvanced))
    is_replaced = reseeds or serving.digest != fresh.digest or is_behind
    if not is_mended_by_reseed(broken) or not is_replaced:
        raise broken
    return broken


def _next(
    roles: Roles,
    fresh: IndexState,
    now: Standing,
    anew: FlussoError | None,
    unfit: Collection[int],
    *,
    is_current: bool,
    is_asked: bool,
) -> IndexState | None:
    """Give the generation that is filled, or waits for readers; None when there is no need of one.

    Who asks for one while another is whole and waits does not want that one: as when it differs from its
    tables.
    """
    filling = roles.filling
    if filling is not None and (filling.generation in unfit or (is_asked and filling.is_seeded)):
        filling = None
    if filling is not None and filling.digest == fresh.digest:
        if is_unwritten(filling):
            return begun(replace(filling, references=fresh.references), now)
        if not _refers(filling, fresh):
            return begun(fresh, now)
        broken = anew or find_break(filling, now)
        if broken is None:
            return continued(filling, now)
        if not is_mended_by_reseed(broken):
            raise broken
    if (
        is_current
        and not is_asked
        and any(_stands_for(state, fresh, roles) for state in (roles.serving, *roles.kept))
    ):
        return None
    return begun(fresh, now)


def _stands_for(state: IndexState | None, fresh: IndexState, roles: Roles) -> bool:
    """Whether readers have what is declared, or were led back from it on purpose."""
    if state is None or roles.serving is None or state.digest != fresh.digest or not _refers(state, fresh):
        return False
    return state is roles.serving or state.generation > roles.serving.generation


def _refers(state: IndexState, fresh: IndexState) -> bool:
    """Whether a generation has the references that are needed now; more do no harm.

    Those it has are kept although an identity shows the links by now: what was written to the WAL before that
    is still to come, and is found by them alone.
    """
    return set(fresh.references) <= set(state.references)
