"""Whether a generation goes on where it stood, or must be filled anew. Pure.

What a sink remembers of it is compared with the source as it is now. Anything that may have swallowed
changes is a break: another cluster, an older one, a slot that is gone or was moved on. A break stops with its
typed error, or begins a new generation beside the serving one; `generations` decides which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flusso.capture.fingerprint import Marks
from flusso.capture.lineage import Lineage, check_lineage
from flusso.capture.slot import SlotInfo, check_witness
from flusso.catalog import TableName
from flusso.debt import Debt, Scope, join
from flusso.errors import CoverageGap, FlussoError, IndexLeftBehind, SlotMissing, SourceWentBack
from flusso.lsn import Lsn, Version
from flusso.schema.stored import stored_name
from flusso.seeding import Seeding
from flusso.sinks.base import IndexState

_PLAN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Published:
    """What of the tables that the indexes read was published before this start changed anything."""

    marks: Marks
    reads: Mapping[str, Collection[TableName]]
    """By plan the tables that its documents read."""

    def find_gap(self, state: IndexState) -> CoverageGap | None:
        """Say whether changes that belong into an index were not sent; None when it holds nothing yet."""
        if is_unwritten(state):
            return None
        reads = self.reads.get(plan_of(state)) or self.reads.get(state.index, ())
        gap = self.marks.find_gap(state.publication, reads)
        return None if gap is None else gap.error(state.slot, state.index)


@dataclass(frozen=True, slots=True)
class Standing:
    """The source as it is now."""

    slot: SlotInfo
    is_new_slot: bool
    system_identifier: str
    version: Version
    """Just emitted: higher than any that was handed out, unless the database is an older one."""
    published: Published
    recovered_at: str = ""
    recorded: Mapping[str, int] = field(default_factory=dict)
    """By index how far the sink that came furthest was written from this slot."""

    @property
    def lineage(self) -> Lineage:
        """Which server it is, and how far its WAL goes."""
        return Lineage(self.system_identifier, self.version.timeline, self.version.lsn, self.recovered_at)

    @property
    def position(self) -> Lsn:
        """Where the slot stands."""
        return self.slot.confirmed_flush_lsn or Lsn(0)


def begun(fresh: IndexState, now: Standing) -> IndexState:
    """Give a state whose generation is to be filled from this source on."""
    return replace(
        fresh,
        is_seeded=False,
        serves=False,
        slot=now.slot.name,
        system_identifier=now.system_identifier,
        timeline=now.version.timeline,
        recovered_at=now.recovered_at,
        witness=now.position,
        highest_version=0,
        seeding=Seeding(),
        uuids=(),
        beat=0.0,
    )


def plan_of(state: IndexState) -> str:
    """Name the plan of the schema that a generation is made by; a declared one has its index's name too."""
    name = stored_name(state.schema)
    return f"{state.index}#{name[:_PLAN_DIGITS]}" if name else state.index


def index_of(plan: str) -> str:
    """Give the index that a plan is of, by the plan's name."""
    return plan.partition("#")[0]


def is_unwritten(state: IndexState) -> bool:
    """Whether nothing can have been written to the generation: no run has begun it."""
    return not state.slot


def is_another(before: IndexState, uuids: Sequence[str]) -> bool:
    """Whether a sink holds something else than what was written to, in its place and under its name.

    A generation may keep less beside its documents than it did; that makes no other of it.
    """
    return any(was != found for was, found in zip(before.uuids, uuids, strict=False))


def find_other_server(before: IndexState, found: Lineage) -> FlussoError | None:
    """Say whether an index was written from another server, or from a later state of this one."""
    if is_unwritten(before):
        return None
    try:
        check_lineage(_lineage(before), found, f'index "{before.index}"')
    except FlussoError as error:
        return error
    return None


def find_break(before: IndexState, now: Standing) -> FlussoError | None:
    """Say why an index cannot go on where it stood; None when it can."""
    what = f'index "{before.index}"'
    try:
        check_lineage(_lineage(before), now.lineage, what)
        check_clock(before.highest_version, now.version)
        _check_owner(before, now)
        _check_witness(before, now)
        gap = now.published.find_gap(before)
        if gap is not None:
            raise gap
    except FlussoError as error:
        return error
    return None


def _check_witness(before: IndexState, now: Standing) -> None:
    """Refuse a slot beyond what was written. Anything else that was written so far shows that we moved it."""
    written = f'index "{before.index}" was written up to {Lsn(before.witness)}'
    furthest = Lsn(now.recorded.get(before.index, 0))
    if before.witness < now.position <= furthest:
        raise IndexLeftBehind(
            f"{written} here, but up to {furthest} in another sink: this one was put back to an older state, "
            "or left out for a while"
        )
    others = Lsn(max(now.recorded.values(), default=0))
    if before.witness < now.position <= others:
        raise IndexLeftBehind(f"{written}, but others up to {others}: it was left out for a while")
    check_witness(now.slot, Lsn(before.witness), f'index "{before.index}" was written')


def continued(before: IndexState, now: Standing) -> IndexState:
    """Give the state of an index that goes on.

    When a standby has taken over, the old witness says nothing any more; and documents may have been written
    of rows that the new server never received, which no WAL tells: so all of them are owed. The same goes for
    a server that crashed: it may have lost commits that were visible but not yet on disk.
    """
    was, timeline = _lineage(before), now.version.timeline
    state = replace(before, timeline=timeline, recovered_at=now.recovered_at)
    if was.timeline != timeline:
        state = replace(state, witness=now.position)
        reason = f"a standby took over: timeline {was.timeline} became {timeline}" if was.timeline else ""
    else:
        reason = "the server recovered from a crash" if now.lineage.has_crashed_since(was) else ""
    if not reason:
        return state
    return replace(state, debts=join(state.debts, Debt(Scope.WHOLE, (reason,), now.position)))


def check_clock(known: int, fresh: Version) -> None:
    """Refuse a database whose WAL is behind what was written from it before."""
    if known > fresh:
        raise SourceWentBack(
            f"the database is at {fresh!r} but documents were written at {Version(known)!r}: it was "
            "restored, replaced or rewound",
            hint='run flusso reindex --all, or set source.on_slot_lost = "reseed"',
        )


def _lineage(state: IndexState) -> Lineage:
    timeline = state.timeline or Version(state.highest_version).timeline
    return Lineage(state.system_identifier, timeline, Lsn(state.witness), state.recovered_at)


def _check_owner(before: IndexState, now: Standing) -> None:
    reindex = f'run flusso reindex {before.index}, or set source.on_slot_lost = "reseed"'
    if before.slot != now.slot.name:
        raise SlotMissing(
            f'index "{before.index}" was kept by slot "{before.slot}", not by "{now.slot.name}"',
            hint=f"name the old slot in source.slot; if it is gone, {reindex}",
        )
    if now.is_new_slot:
        raise SlotMissing(
            f'index "{before.index}" was kept by slot "{before.slot}", which is gone, '
            "and all changes since with it",
            hint=reindex,
        )
