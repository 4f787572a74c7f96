"""Before an index is verified: is there anything to compare, and is it this database's?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from flusso.builder.plan import IndexPlan, without_partitions
from flusso.capture.lineage import Lineage, read_lineage
from flusso.engine import work
from flusso.engine.blind import Blind
from flusso.engine.catalogs import reads_of
from flusso.engine.continuity import find_other_server
from flusso.engine.fingerprint import Reads
from flusso.engine.preflight import compile_indexes, look_for_blind
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.verify.facts import Uncompared
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import ConfigError, FlussoError, IndexUnready
from flusso.postgres.connect import Connection, connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.digest import digest
from flusso.schema.mapping import text_field_names
from flusso.schema.model import tables_of
from flusso.sinks.base import IndexState, SinkSpec


@dataclass(frozen=True, slots=True)
class Prepared:
    """What there is to compare."""

    spec: PipelineSpec
    """Of what can be compared alone."""
    work: WorkSpec
    reads: Mapping[str, Reads]
    """By index what it reads."""
    unreadable: tuple[tuple[str, str], ...]
    blind: tuple[Blind, ...] = ()
    uncompared: tuple[Uncompared, ...] = ()
    """What keeps some from being compared; it hinders no other."""


def prepare_verify(spec: PipelineSpec, names: Collection[str]) -> Prepared:
    """Choose indexes, all without names, and look at source and sinks."""
    spec = replace(spec, indexes=_choose(spec, names))
    unreadable = tuple(
        (index.name, sink.name)
        for index in spec.indexes
        for sink in index.sinks
        if not sink.capabilities.keeps_state
    )
    with connect(spec.dsn) as conn:
        states, uncompared = _look(spec, read_lineage(conn))
        uncompared += _without_documents(spec, is_meant=bool(names) or not (states or uncompared))
        spec = _narrow(spec, states)
        plans = compile_indexes(conn, spec, states.values())
        reads = _reads(conn, spec, plans)
        blind = look_for_blind(conn, spec)
    work_spec = _work(spec, plans, _destinations(spec, states))
    return Prepared(spec, work_spec, reads, unreadable, blind, tuple(uncompared))


def _look(spec: PipelineSpec, lineage: Lineage) -> tuple[dict[tuple[str, str], IndexState], list[Uncompared]]:
    """Give by index and sink what is remembered, and what keeps the others from being compared."""
    states: dict[tuple[str, str], IndexState] = {}
    uncompared: list[Uncompared] = []
    for index in spec.indexes:
        for sink in index.sinks:
            if not sink.capabilities.keeps_state:
                continue
            try:
                states[index.name, sink.name] = _state(index, sink, lineage)
            except FlussoError as error:
                uncompared.append(Uncompared(index.name, sink.name, error))
    return states, uncompared


def _without_documents(spec: PipelineSpec, *, is_meant: bool) -> list[Uncompared]:
    """Give the indexes that no sink keeps documents of: an error if they were asked for, or all there is."""
    return [
        Uncompared(
            index.name,
            ", ".join(sink.name for sink in index.sinks),
            IndexUnready(
                f'no sink of index "{index.name}" keeps documents: there is nothing to compare',
                hint="give it a sink that keeps them, or name other indexes",
            ),
        )
        for index in spec.indexes
        if is_meant and not any(sink.capabilities.keeps_state for sink in index.sinks)
    ]


def _narrow(spec: PipelineSpec, states: Mapping[tuple[str, str], IndexState]) -> PipelineSpec:
    """Leave the indexes, and those of their sinks, that can be compared, and sinks that keep nothing."""
    indexes = (
        replace(
            index,
            sinks=tuple(
                sink
                for sink in index.sinks
                if (index.name, sink.name) in states or not sink.capabilities.keeps_state
            ),
        )
        for index in spec.indexes
        if any((index.name, sink.name) in states for sink in index.sinks)
    )
    return replace(spec, indexes=tuple(indexes))


def _destinations(
    spec: PipelineSpec, states: Mapping[tuple[str, str], IndexState]
) -> dict[str, tuple[Destination, ...]]:
    return {
        index.name: tuple(
            Destination(
                sink,
                replace(states[index.name, sink.name].target, text_fields=text_field_names(index.schema)),
            )
            for sink in index.sinks
            if (index.name, sink.name) in states
        )
        for index in spec.indexes
    }


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


def _reads(conn: Connection, spec: PipelineSpec, plans: Collection[IndexPlan]) -> dict[str, Reads]:
    schemas = {index.name: index.schema for index in spec.indexes}
    catalog = read_catalog(conn, {table for schema in schemas.values() for table in tables_of(schema)})
    return {plan.index: reads_of(plan, schemas[plan.index], catalog) for plan in plans}


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
