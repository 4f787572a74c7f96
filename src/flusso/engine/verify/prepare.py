"""Before an index is verified: is there anything to compare, and is it this database's?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from flusso.builder.plan import IndexPlan, without_partitions
from flusso.capture.lineage import Lineage, read_lineage
from flusso.engine import work
from flusso.engine.blind import Blind
from flusso.engine.continuity import find_other_server
from flusso.engine.preflight import compile_indexes, look_for_blind
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import ConfigError, IndexUnready
from flusso.postgres.connect import connect
from flusso.schema.digest import digest
from flusso.schema.mapping import text_field_names
from flusso.sinks.base import IndexState, SinkSpec


@dataclass(frozen=True, slots=True)
class Prepared:
    """What there is to compare."""

    spec: PipelineSpec
    """Of the chosen indexes alone."""
    work: WorkSpec
    states: Mapping[tuple[str, str], IndexState]
    """By index and sink what is remembered."""
    unreadable: tuple[tuple[str, str], ...]
    blind: tuple[Blind, ...]


def prepare_verify(spec: PipelineSpec, names: Collection[str]) -> Prepared:
    """Choose indexes, all without names; look at source and sinks, and raise what keeps from comparing."""
    spec = replace(spec, indexes=_choose(spec, names))
    with connect(spec.dsn) as conn:
        lineage = read_lineage(conn)
    states: dict[tuple[str, str], IndexState] = {}
    destinations: dict[str, tuple[Destination, ...]] = {}
    for index in spec.indexes:
        readable = [sink for sink in index.sinks if sink.capabilities.keeps_state]
        if not readable:
            raise IndexUnready(
                f'no sink of index "{index.name}" keeps documents: there is nothing to compare',
                hint="give it a sink that keeps them, or name other indexes",
            )
        for sink in readable:
            states[index.name, sink.name] = _state(index, sink, lineage)
        texts = text_field_names(index.schema)
        destinations[index.name] = tuple(
            Destination(sink, replace(states[index.name, sink.name].target, text_fields=texts))
            for sink in readable
        )
    with connect(spec.dsn) as conn:
        plans = compile_indexes(conn, spec, states.values())
        blind = look_for_blind(conn, spec)
    unreadable = tuple(
        (index.name, sink.name)
        for index in spec.indexes
        for sink in index.sinks
        if not sink.capabilities.keeps_state
    )
    return Prepared(spec, _work(spec, plans, destinations), states, unreadable, blind)


def _choose(spec: PipelineSpec, names: Collection[str]) -> tuple[IndexSpec, ...]:
    known = [index.name for index in spec.indexes]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"there is no index {', '.join(unknown)}", hint=f"name one of {', '.join(known)}")
    return tuple(index for index in spec.indexes if index.name in names or not names)


def _state(index: IndexSpec, sink: SinkSpec, lineage: Lineage) -> IndexState:
    """Give what a sink remembers of the generation that readers see, if it is of this schema and database."""
    state = work.sink(sink).load_states().serving(index.name)
    place = f'index "{index.name}" in sink "{sink.name}"'
    if state is None or not state.is_seeded:
        raise IndexUnready(
            f"{place} is not seeded yet", hint="let flusso run fill it, or name the indexes that are"
        )
    if state.digest != digest(index.schema, sink.shape):
        raise IndexUnready(
            f"{place} was written by another schema than the present one",
            hint="let flusso run fill a new generation, or name other indexes",
        )
    other = find_other_server(state, lineage)
    if other is not None:
        raise other
    return state


def _work(
    spec: PipelineSpec, plans: Collection[IndexPlan], destinations: Mapping[str, tuple[Destination, ...]]
) -> WorkSpec:
    made = WorkSpec(
        spec.dsn,
        {plan.index: without_partitions(plan) for plan in plans},
        (),
        destinations,
        read_dsn=spec.read_dsn,
        chunk=spec.batch.chunk,
    )
    is_file = any(one.sink.capabilities.is_single_host for all_ in destinations.values() for one in all_)
    return replace(made, lanes=1) if is_file else made
