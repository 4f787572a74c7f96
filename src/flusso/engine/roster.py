"""Who is written from now on: from what the sinks remember to the entries of a ledger.

Used while provisioning, once the slot is ours. A generation that readers see may have been made by a schema
that is declared no more; it is written beside the new one by the schema that its state keeps, under a plan of
its own: a *retained* one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from flusso.builder.plan import IndexPlan, Reference
from flusso.capture.fingerprint import Marks
from flusso.catalog import TableName
from flusso.engine import work
from flusso.engine.catalogs import find_rekeyed
from flusso.engine.continuity import Standing, is_another, is_unwritten, plan_of
from flusso.engine.entry import Entry
from flusso.engine.events import Listener, Reseeding, Waiting
from flusso.engine.fingerprint import Reads
from flusso.engine.generations import Fate, decide
from flusso.engine.ledger import Ledger
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.work import Destination
from flusso.errors import FlussoError, IndexTaken
from flusso.schema.digest import digest
from flusso.schema.mapping import text_field_names
from flusso.schema.model import IndexSchema
from flusso.schema.stored import schema_from_text, schema_name, schema_to_text, stored_name
from flusso.sinks.base import IndexState, Request, SinkSpec, States

_SILENT_BEATS = 3
_UNKNOWN_SCHEMA = "it was made by a schema that this release of flusso does not know"
_UNFIT_SCHEMA = "the database no longer has what its schema reads"
_PARTLY_GONE = "a part of it was deleted from its sink"
_PUT_BACK = "it was put back or made anew in its sink"
_LOST = (_PARTLY_GONE, _PUT_BACK)


@dataclass(slots=True)
class Roster:
    """What was decided for all indexes in all sinks."""

    ledger: Ledger
    dropped: list[tuple[SinkSpec, IndexState]] = field(default_factory=list)
    asked: list[tuple[SinkSpec, str, int | None]] = field(default_factory=list)
    """In which sink something is asked for an index; for a rollback the generation that it leads to."""

    def settle(self) -> None:
        """Do what is left once every state is saved: answer requests, and drop what is of no use."""
        for sink, index, back_to in self.asked:
            if back_to is not None:
                self.ledger.roll_back(index, sink.name, back_to)
            work.sink(sink).answer(index)
        for sink, state in self.dropped:
            work.sink(sink).drop(state.target)


def load_states(indexes: Iterable[IndexSpec]) -> dict[str, States]:
    """Read what each sink remembers, by its name."""
    return {
        sink.name: work.sink(sink).load_states() if sink.capabilities.keeps_state else States()
        for sink in sinks_of(indexes)
    }


def sinks_of(indexes: Iterable[IndexSpec]) -> list[SinkSpec]:
    """List the sinks, each once."""
    return list(dict.fromkeys(sink for index in indexes for sink in index.sinks))


def find_retained(indexes: Sequence[IndexSpec], known: Mapping[str, States]) -> tuple[IndexSpec, ...]:
    """List the schemas that are declared no more and by which a generation is still to be written."""
    found: dict[str, IndexSpec] = {}
    for index in indexes:
        declared = schema_name(index.schema)
        for sink in index.sinks:
            for state in known[sink.name].of(index.name):
                if (
                    not (state.serves or state.is_kept)
                    or state.stale
                    or stored_name(state.schema) == declared
                ):
                    continue
                schema = schema_from_text(state.schema)
                if schema is not None:
                    name = plan_of(state)
                    sinks = (*found[name].sinks, sink) if name in found else (sink,)
                    found[name] = replace(index, name=name, schema=schema, sinks=sinks)
    return tuple(found.values())


def reads_by_plan(
    plans: Iterable[IndexPlan], indexes: Iterable[IndexSpec]
) -> dict[str, frozenset[TableName]]:
    """Say which tables each plan reads; a declared one can also be asked for by the name of its schema."""
    reads = {plan.index: frozenset(plan.reads) for plan in plans}
    fresh = [fresh_state(index) for index in indexes if index.name in reads]
    return reads | {plan_of(state): reads[state.index] for state in fresh}


def fresh_state(
    index: IndexSpec, sink: SinkSpec | None = None, references: Iterable[Reference] = ()
) -> IndexState:
    """Give the state of what is declared, before anything is written."""
    shape = sink.shape if sink is not None else {}
    kept = tuple(map(str, references)) if sink is not None and sink.capabilities.keeps_references else ()
    text = schema_to_text(index.schema)
    return IndexState(index.name, digest(index.schema, shape), 1, schema=text, references=kept)


def enrol(
    spec: PipelineSpec,
    retained: Sequence[IndexSpec],
    plans: Mapping[str, IndexPlan],
    referring: Mapping[str, Sequence[Reference]],
    reads: Mapping[str, Reads],
    now: Standing,
    marks: Marks,
    tell: Listener,
    anew: FlussoError | None,
) -> Roster | None:
    """Compare what each sink remembers with what is declared; None when it has schemas nobody looked at.

    Of the retained ones those fit that have a plan. `referring` has by plan the references that are needed,
    the plans may have more; `reads` what each of them reads. `marks` is what is published from now on.
    """
    known = load_states(spec.indexes)  # once more: until the slot was ours, its last owner may have written
    needed = {each.name: each.schema for each in find_retained(spec.indexes, known)}
    if not needed.keys() <= {each.name for each in retained}:
        return None
    now = replace(now, recorded=_recorded(known.values(), now))
    roster = Roster(Ledger([], most_due=spec.batch.max_due))
    scribe = _Scribe(roster, needed, plans, reads, now, anew, spec.reseeds, tell)
    for index in spec.indexes:
        for sink in index.sinks:
            fresh = fresh_state(index, sink, referring[index.name])
            scribe.enrol(index, sink, fresh, known[sink.name])
    for entry in roster.ledger.entries:
        rows = marks.fingerprint(now.published.reads[entry.plan_name])
        entry.state = replace(entry.state, publication=rows)
    return roster


def _recorded(known: Iterable[States], now: Standing) -> dict[str, int]:
    """Say by index how far the sink that came furthest was written from the slot as it is."""
    furthest: dict[str, int] = {}
    owner = (now.slot.name, now.system_identifier, now.version.timeline)
    for state in (state for states in known for state in states.all):
        if (state.slot, state.system_identifier, state.timeline) == owner:
            furthest[state.index] = max(state.witness, furthest.get(state.index, 0))
    return furthest


def refuse_busy(
    spec: PipelineSpec, now: Standing, tell: Listener, stop: threading.Event, *, step_s: float = 0.5
) -> None:
    """Raise `IndexTaken` when an index is being written through another slot.

    Who writes shows it by a beat. One that stays as it is for longer than it may is of someone who is gone;
    that takes no clock that two machines share.
    """
    before = _beats(spec, now)
    if not before:
        return
    tell(Waiting(f"{', '.join(sorted(before))}: is anyone still writing?"))
    for _ in range(int(_SILENT_BEATS * spec.look_s / step_s) + 1):
        if stop.wait(step_s):
            return
        for what, beat in _beats(spec, now).items():
            if before.get(what) != beat:
                raise IndexTaken(
                    f"{what}, and that is being done now",
                    hint="stop that flusso, or give this one another prefix or another file",
                )


def _beats(spec: PipelineSpec, now: Standing) -> dict[str, float]:
    own = (now.system_identifier, now.slot.name)
    return {
        f'index "{state.index}" in sink "{sink}" was last written through slot "{state.slot}"': state.beat
        for sink, states in load_states(spec.indexes).items()
        for index in spec.indexes
        for state in states.of(index.name)
        if state.beat and (state.system_identifier, state.slot) != own
    }


@dataclass(frozen=True, slots=True)
class _Scribe:
    """Enters one index in one sink after the other."""

    roster: Roster
    needed: Mapping[str, IndexSchema]
    """By plan the schemas that are declared no more."""
    plans: Mapping[str, IndexPlan]
    reads: Mapping[str, Reads]
    now: Standing
    anew: FlussoError | None
    reseeds: bool
    tell: Listener

    def enrol(self, index: IndexSpec, sink: SinkSpec, fresh: IndexState, states: States) -> None:
        """Decide what becomes of the generations of an index in a sink, and take it down."""
        request = states.asked.get(index.name)
        is_asked = request is Request.REINDEX
        fate = self._decide(sink, fresh, states.of(index.name), is_asked=is_asked, keeps=index.keeps)
        self._tell_lost(index, sink, fate, states)
        for state in fate.written:
            plan = "" if state.schema == fresh.schema else plan_of(state)
            schema = self.needed[plan] if plan else index.schema
            target = replace(
                state.target,
                text_fields=text_field_names(schema),
                keeps_removals=not (state.serves or state.is_kept),
            )
            entry = Entry(Destination(sink, target), state, plan=plan, keeps=index.keeps)
            self.roster.ledger.entries.append(entry)
        if fate.frozen is not None:
            self.roster.ledger.frozen.append((sink, fate.frozen))
        self.roster.dropped += [(sink, state) for state in fate.dropped]
        if request is not None:
            self.roster.asked.append((sink, index.name, states.back_to.get(index.name)))

    def _decide(
        self, sink: SinkSpec, fresh: IndexState, states: Iterable[IndexState], *, is_asked: bool, keeps: int
    ) -> Fate:
        known = tuple(_with_references(_with_schema(state, fresh), fresh, self.plans) for state in states)
        lost = _find_lost(sink, known)
        read = _find_read(sink, fresh.index, lost) if lost else {}
        rekeyed = self._find_rekeyed(known, fresh, is_asked=is_asked)
        judge = partial(
            decide,
            known,
            fresh,
            self.now,
            reseeds=self.reseeds,
            is_asked=is_asked,
            anew=self.anew,
            unfit=_find_unfit(known, fresh, self.needed, frozenset(self.plans)) | rekeyed | read,
            gone=lost.keys() - read.keys(),
            put_back={number for number, why in read.items() if why == _PUT_BACK},
            keeps=keeps,
        )
        fate = judge()
        begins = {state.generation for state in fate.written} - {state.generation for state in known}
        return judge(above=_highest_held(sink, fresh.index)) if begins else fate

    def _find_rekeyed(
        self, states: Sequence[IndexState], fresh: IndexState, *, is_asked: bool
    ) -> dict[int, str]:
        """Say whose documents have other ids now; raise when readers see one that nothing is to replace."""
        found = find_rekeyed(states, self.reads, fresh.schema)
        serving = States.serving_of(states)
        if serving is not None and serving.generation in found:
            is_replaced = is_asked or bool(serving.stale) or serving.digest != fresh.digest
            if not is_replaced:
                raise found[serving.generation]
        return {number: error.message for number, error in found.items()}

    def _tell_lost(self, index: IndexSpec, sink: SinkSpec, fate: Fate, before: States) -> None:
        lost = [state for state in fate.dropped if state.serves]
        known = before.serving(index.name)
        if fate.because is not None:
            self.tell(Reseeding(index.name, fate.because.message))
        elif lost:
            gone = f'generation {lost[0].generation} is no longer in sink "{sink.name}"'
            self.tell(Reseeding(index.name, gone))
        elif fate.frozen is not None and fate.frozen.stale in _LOST and known and not known.stale:
            self.tell(Reseeding(index.name, f"generation {known.generation}: {fate.frozen.stale}"))


def _with_schema(state: IndexState, fresh: IndexState) -> IndexState:
    """Take the schema as it is written now where it means the same; earlier releases kept none."""
    is_same = state.digest == fresh.digest or stored_name(state.schema) == stored_name(fresh.schema)
    return replace(state, schema=fresh.schema) if is_same else state


def _with_references(state: IndexState, fresh: IndexState, plans: Mapping[str, IndexPlan]) -> IndexState:
    """A generation has the references that its documents go on being written with."""
    plan = plans.get(state.index if state.schema == fresh.schema else plan_of(state))
    written = () if plan is None else tuple(map(str, plan.references))
    return replace(state, references=tuple(each for each in state.references if each in written))


def _find_lost(sink: SinkSpec, states: Iterable[IndexState]) -> dict[int, str]:
    """Say of which generations someone has deleted something, or put something else in the place."""
    lost: dict[int, str] = {}
    for state in states:
        uuids = () if is_unwritten(state) else work.sink(sink).uuids(state.target)
        if uuids is None:
            lost[state.generation] = _PARTLY_GONE
        elif is_another(state, uuids):
            lost[state.generation] = _PUT_BACK
    return lost


def _highest_held(sink: SinkSpec, index: str) -> int:
    """Give the number of the newest generation in a sink. It may have lost, or been put back to, what it
    remembers: nobody then knows what became of those that it holds, and a new one must not be one of them."""
    if not sink.capabilities.keeps_state:
        return 0
    return max((held.generation for held in work.sink(sink).held() if held.index == index), default=0)


def _find_read(sink: SinkSpec, index: str, lost: Mapping[int, str]) -> dict[int, str]:
    """Choose those that readers see. What is left of one stays theirs until another is whole."""
    held = work.sink(sink).held()
    read = {each.generation for each in held if each.index == index and each.is_read}
    return {number: why for number, why in lost.items() if number in read}


def _find_unfit(
    states: Iterable[IndexState],
    fresh: IndexState,
    needed: Mapping[str, IndexSchema],
    fitting: frozenset[str],
) -> dict[int, str]:
    """Say of each generation with another schema why its documents cannot be built, if so."""
    others = [state for state in states if state.schema != fresh.schema]
    unknown = {state.generation: _UNKNOWN_SCHEMA for state in others if plan_of(state) not in needed}
    unfit = {state.generation: _UNFIT_SCHEMA for state in others if plan_of(state) not in fitting}
    return unfit | unknown
