"""What `status` says of a seed: how far it has come, what is being done for it now, and how long that takes.

A sink remembers how fast it went, but not whether anyone goes on with it: only the slot shows that.
"""

from __future__ import annotations

from dataclasses import dataclass

from flusso.cli.progress import describe_pace
from flusso.sinks.base import IndexState

_DOING = {
    "looking up": "looking up what changed meanwhile",
    "building again": "more changed meanwhile than is remembered, all of it is built once more",
}


@dataclass(frozen=True, slots=True)
class SeedFacts:
    """How far the filling of a generation has come, as it was remembered last."""

    stage: str
    """`reading` the tables, `looking up` what changed beside that, `building again` when that was too much to
    be remembered, or `stopped` when nobody reads the slot."""
    percent: float
    documents: int
    bytes: int
    documents_per_s: float | None
    """None unless tables are read now; so it is with the other two."""
    bytes_per_s: float | None
    left_s: float | None
    """How long the rest will take; None also when nothing is known of that."""
    described: str
    """The same for a reader."""


def seed_facts(state: IndexState, *, is_followed: bool) -> SeedFacts:
    """Tell of the seed of a generation; nobody goes on with it while the slot is not followed."""
    seeding, stage = state.seeding, _stage(state, is_followed)
    is_reading = stage == "reading"
    left_s = seeding.left_s if is_reading else None
    return SeedFacts(
        stage,
        round(100 * seeding.share, 1),
        seeding.documents,
        seeding.bytes,
        round(seeding.documents_per_s, 1) if is_reading else None,
        round(seeding.bytes_per_s, 1) if is_reading else None,
        None if left_s is None else round(left_s, 1),
        _describe(state, stage),
    )


def _stage(state: IndexState, is_followed: bool) -> str:
    if not is_followed:
        return "stopped"
    if state.seeding.share < 1:
        return "reading"
    return "building again" if state.is_all_due else "looking up"


def _describe(state: IndexState, stage: str) -> str:
    seeding = state.seeding
    if stage == "reading":
        return f"is being filled: {describe_pace(seeding).strip()}"
    done = f"{seeding.share:.0%}  {seeding.documents:,} docs"
    if stage == "stopped":
        return f"is filled in part: {done}  nobody goes on with it, flusso run does"
    return f"is being filled: {done}  {_DOING[stage]}"
