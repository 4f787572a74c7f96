"""`flusso status`: where the slot stands, how far behind it is, and what each sink holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from flusso.capture.slot import read_slot, slot_lag_bytes
from flusso.cli.assemble import dsn_of, load, pipeline_spec
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix, Slot
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.lsn import Lsn
from flusso.postgres.connect import connect
from flusso.schema.digest import digest
from flusso.sinks.base import IndexTarget, Sink, SinkSpec


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The replication slot."""

    name: str
    exists: bool
    active_pid: int | None = None
    confirmed: str | None = None
    lag_bytes: int | None = None
    wal_status: str | None = None


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index in one sink."""

    index: str
    sink: str
    state: str
    """`new`, `seeding`, `following`, or `outdated` when the schema has changed since."""
    generation: int | None = None
    documents: int | None = None
    written_up_to: str | None = None
    quarantined: int = 0


def status(
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the slot and the indexes."""
    deployment = load(config, slot=slot, prefix=index_prefix)
    spec = pipeline_spec(deployment)
    with connect(dsn_of(deployment)) as conn:
        info = read_slot(conn, spec.slot)
        if info is None:
            slot_facts = SlotFacts(spec.slot, exists=False)
        else:
            slot_facts = SlotFacts(
                spec.slot,
                exists=True,
                active_pid=info.active_pid,
                confirmed=str(info.confirmed_flush_lsn),
                lag_bytes=slot_lag_bytes(conn, spec.slot),
                wal_status=info.wal_status,
            )
    indexes = gather_indexes(spec)
    if output is Format.JSON:
        print(
            json.dumps(
                {"slot": asdict(slot_facts), "indexes": [asdict(facts) for facts in indexes]}, indent=2
            )
        )
    else:
        _print(slot_facts, indexes)


def gather_indexes(spec: PipelineSpec) -> list[IndexFacts]:
    """Ask every sink for what it holds."""
    return [_index_facts(index, sink) for index in spec.indexes for sink in index.sinks]


def _index_facts(index: IndexSpec, sink_spec: SinkSpec) -> IndexFacts:
    if not sink_spec.capabilities.keeps_state:
        return IndexFacts(index.name, sink_spec.name, "stateless")
    sink = sink_spec.open()
    try:
        return _stored_facts(index, sink_spec, sink)
    finally:
        sink.close()


def _stored_facts(index: IndexSpec, sink_spec: SinkSpec, sink: Sink) -> IndexFacts:
    state = sink.load_states().get(index.name)
    if state is None:
        return IndexFacts(index.name, sink_spec.name, "new")
    is_current = state.digest == digest(index.schema, sink_spec.shape)
    target = IndexTarget(index.name, state.digest, state.generation)
    return IndexFacts(
        index.name,
        sink_spec.name,
        ("following" if state.is_seeded else "seeding") if is_current else "outdated",
        state.generation,
        sink.count(target),
        str(Lsn(state.witness)),
        len(sink.quarantined(index.name)),
    )


def _print(slot: SlotFacts, indexes: list[IndexFacts]) -> None:
    console = Console(highlight=False)
    if slot.exists:
        reader = f"read by pid {slot.active_pid}" if slot.active_pid else "not being read"
        console.print(
            f'slot "{slot.name}": {reader}, confirmed {slot.confirmed}, {slot.lag_bytes:,} bytes behind'
        )
    else:
        console.print(f'slot "{slot.name}": does not exist yet')
    table = Table("index", "sink", "state", "generation", "documents", "written up to", "quarantined")
    for facts in indexes:
        table.add_row(
            facts.index,
            facts.sink,
            facts.state,
            str(facts.generation or "-"),
            "-" if facts.documents is None else f"{facts.documents:,}",
            facts.written_up_to or "-",
            str(facts.quarantined),
        )
    console.print(table)
