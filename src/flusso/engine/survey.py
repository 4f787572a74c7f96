"""Look at the slot and at what every sink remembers of it, without changing either.

For the commands that show, move and drop the slot: what is wrong, and who would lose what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flusso.capture.coverage import read_marks
from flusso.capture.lineage import Lineage, read_lineage
from flusso.capture.slot import SlotInfo, check_slot, find_slot, read_slot
from flusso.capture.slot_facts import SlotMeasure, measure_slot
from flusso.engine.continuity import Published, Standing, find_break
from flusso.engine.spec import PipelineSpec
from flusso.errors import FlussoError, PublicationError, SlotError
from flusso.lsn import Lsn, Version
from flusso.postgres.connect import Connection
from flusso.schema.digest import digest
from flusso.schema.model import tables_of
from flusso.sinks.base import IndexState


@dataclass(frozen=True, slots=True)
class Dependent:
    """An index in a sink that the slot keeps, with what is remembered of it."""

    sink: str
    state: IndexState


@dataclass(frozen=True, slots=True)
class SlotSurvey:
    """All about a slot."""

    name: str
    info: SlotInfo | None
    measure: SlotMeasure
    server: Lineage
    dependents: tuple[Dependent, ...]
    """Indexes that readers see and that go on by their slot."""
    problems: tuple[FlussoError, ...]

    def behind(self, lsn: Lsn) -> tuple[str, ...]:
        """Name the indexes that were not written up to a position: they lose what lies before it."""
        found = (one.state.index for one in self.dependents if one.state.witness < lsn)
        return tuple(dict.fromkeys(found))

    @property
    def indexes(self) -> tuple[str, ...]:
        """Name the indexes that depend on it."""
        return tuple(dict.fromkeys(one.state.index for one in self.dependents))


def survey_slot(conn: Connection, spec: PipelineSpec) -> SlotSurvey:
    """Gather all there is to know. The sinks are asked too, so they must be reachable."""
    info = read_slot(conn, spec.slot)
    server = read_lineage(conn)
    dependents = tuple(_dependents(spec))
    return SlotSurvey(
        spec.slot,
        info,
        measure_slot(conn, spec.slot),
        server,
        dependents,
        tuple(_find_problems(conn, spec, info, server, dependents)),
    )


def _dependents(spec: PipelineSpec) -> list[Dependent]:
    found: list[Dependent] = []
    for sink_spec in dict.fromkeys(sink for index in spec.indexes for sink in index.sinks):
        if not sink_spec.capabilities.keeps_state:
            continue
        sink = sink_spec.open()
        try:
            states = sink.load_states()
        finally:
            sink.close()
        for index in spec.indexes:
            state = states.serving(index.name) if sink_spec in index.sinks else None
            # Anything else is filled anew by the next run, whatever the slot does.
            if state and not state.stale and state.digest == digest(index.schema, sink_spec.shape):
                found.append(Dependent(sink_spec.name, state))
    return found


def _find_problems(
    conn: Connection,
    spec: PipelineSpec,
    info: SlotInfo | None,
    server: Lineage,
    dependents: Sequence[Dependent],
) -> list[FlussoError]:
    try:
        if info is None and not dependents:
            return []
        check_slot(info or find_slot(conn, spec.slot))
        reads = {index.name: tables_of(index.schema) for index in spec.indexes}
        marks = read_marks(conn, spec.publication, sorted(frozenset().union(*reads.values())))
    except (SlotError, PublicationError) as error:
        return [error]
    assert info is not None
    version = Version.of(server.timeline, server.lsn)
    published = Published(marks, reads)
    now = Standing(info, False, server.system_identifier, version, published, server.recovered_at)
    broken = [find_break(one.state, now) for one in dependents]
    return list({str(error): error for error in broken if error is not None}.values())
