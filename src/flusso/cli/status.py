"""`flusso status`: where the slot stands, how far behind it is, and what each sink holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import typer
from rich.table import Table

from flusso.capture.slot import SlotInfo, check_slot, read_slot
from flusso.capture.slot_facts import measure_slot
from flusso.cli.assemble import dsn_of, load, pipeline_spec
from flusso.cli.blind_text import blind_to_json, print_blind, print_seen, relations_to_json
from flusso.cli.options import DEFAULT_CONFIG, Config, Format, OutputFormat, Prefix, Publication, Slot
from flusso.cli.report import open_console, printable
from flusso.cli.requests import opened
from flusso.cli.seed_text import SeedFacts, seed_facts
from flusso.engine.blind import Blind, Seen
from flusso.engine.generations import Roles
from flusso.engine.preflight import look_at_relations
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import SchemaError, SinkError, SlotError, SourceError, SourceUnavailable
from flusso.lsn import Lsn
from flusso.postgres.connect import Dsn, connect
from flusso.schema.digest import digest
from flusso.sinks.base import IndexState, Sink, SinkSpec


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The replication slot."""

    name: str
    exists: bool | None
    """None when the server does not tell."""
    active_pid: int | None = None
    confirmed: str | None = None
    lag_bytes: int | None = None
    wal_status: str | None = None
    problem: str | None = None
    """Why it cannot be followed."""
    error: str | None = None
    """Why nothing is known of it."""


@dataclass(frozen=True, slots=True)
class RelationFacts:
    """What may go stale unseen, and what does not."""

    blind: tuple[Blind, ...] = ()
    seen: tuple[Seen, ...] = ()
    error: str | None = None
    """Why nothing is known of it."""


@dataclass(frozen=True, slots=True)
class DebtFacts:
    """Documents that must still be built anew."""

    scope: str
    reasons: tuple[str, ...]
    since: str


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index in one sink: the generation that readers see, or the one that is to take its place."""

    index: str
    sink: str
    state: str
    """`new`, `seeding`, `waiting` when it is whole and readers come next, `following`, `rolled back`,
    `frozen` when it is written no more, `outdated` when the schema has changed since, or `unavailable`."""
    generation: int | None = None
    documents: int | None = None
    written_up_to: str | None = None
    quarantined: int = 0
    is_exact: bool | None = None
    """Whether its documents are as the tables were at `written_up_to`; None when nothing is known of it."""
    debts: tuple[DebtFacts, ...] = ()
    waiting_for: str | None = None
    """What keeps a running flusso from going on."""
    waiting_since: str | None = None
    error: str | None = None
    """Why nothing is known of it."""
    seed: SeedFacts | None = None
    """While it is being filled."""


def status(
    config: Config = DEFAULT_CONFIG,
    slot: Slot = None,
    publication: Publication = None,
    index_prefix: Prefix = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the slot and the indexes."""
    deployment = load(config, slot=slot, publication=publication, prefix=index_prefix)
    spec = pipeline_spec(deployment, makes_files=False)
    slot_facts = _slot_facts(dsn_of(deployment), spec.slot)
    indexes = gather_indexes(spec, is_followed=slot_facts.active_pid is not None)
    relations = _relation_facts(spec) if slot_facts.error is None else RelationFacts(error=slot_facts.error)
    if output is Format.JSON:
        facts = {
            "slot": asdict(slot_facts),
            "indexes": [asdict(facts) for facts in indexes],
            "relations": relations_to_json(relations.blind, relations.seen),
            "blind": blind_to_json(relations.blind),
            "blind_error": relations.error,
        }
        print(json.dumps(facts, indent=2))
    else:
        _print(slot_facts, indexes)
        if slot_facts.error is None:
            _print_relations(relations)
    if slot_facts.error is not None:
        raise typer.Exit(SourceUnavailable.exit_code)
    if any(facts.error is not None for facts in indexes):
        raise typer.Exit(SinkError.exit_code)


def _slot_facts(dsn: Dsn, slot: str) -> SlotFacts:
    """Read the slot; a server that is away is a fact too, and no reason to hide the others."""
    try:
        with connect(dsn) as conn:
            info = read_slot(conn, slot)
            if info is None:
                return SlotFacts(slot, exists=False)
            return SlotFacts(
                slot,
                exists=True,
                active_pid=info.active_pid,
                confirmed=None if info.confirmed_flush_lsn is None else str(info.confirmed_flush_lsn),
                lag_bytes=measure_slot(conn, slot).lag_bytes,
                wal_status=info.wal_status or None,
                problem=_problem_of(info),
            )
    except SourceUnavailable as error:
        return SlotFacts(slot, exists=None, error=str(error))


def _problem_of(info: SlotInfo) -> str | None:
    try:
        check_slot(info)
    except SlotError as error:
        return str(error)
    return None


def _relation_facts(spec: PipelineSpec) -> RelationFacts:
    """Look for relations that may go stale; that the look was not possible is a fact too."""
    try:
        with connect(spec.dsn) as conn:
            return RelationFacts(*look_at_relations(conn, spec))
    except (SourceError, SchemaError, SinkError) as error:
        return RelationFacts(error=str(error))


def gather_indexes(spec: PipelineSpec, *, is_followed: bool = True) -> list[IndexFacts]:
    """Ask every sink for what it holds; one that does not tell is no reason to hide the others."""
    places = [(index, sink) for index in spec.indexes for sink in index.sinks]
    return [facts for index, sink in places for facts in _index_facts(index, sink, is_followed)]


def _index_facts(index: IndexSpec, sink_spec: SinkSpec, is_followed: bool) -> list[IndexFacts]:
    if not sink_spec.capabilities.keeps_state:
        return [IndexFacts(index.name, sink_spec.name, "stateless")]
    try:
        with opened(sink_spec) as sink:
            return _stored_facts(index, sink_spec, sink, is_followed)
    except SinkError as error:
        return [IndexFacts(index.name, sink_spec.name, "unavailable", error=str(error))]


def _stored_facts(index: IndexSpec, sink_spec: SinkSpec, sink: Sink, is_followed: bool) -> list[IndexFacts]:
    """Tell of the generation that readers see, and of the one that is to take its place."""
    roles = Roles.of(sink.load_states().of(index.name))
    told = [state for state in (roles.serving, roles.filling) if state is not None]
    current = digest(index.schema, sink_spec.shape)
    facts = [
        _generation_facts(state, _word(state, roles, current), sink_spec, sink, is_followed) for state in told
    ]
    return facts or [IndexFacts(index.name, sink_spec.name, "new")]


def _word(state: IndexState, roles: Roles, current: str) -> str:
    """Say what a generation is for, in one word."""
    if state.stale:
        return "frozen"
    if state.digest != current:
        newer = (each.digest for each in roles.kept if each.generation > state.generation)
        return "rolled back" if current in newer else "outdated"
    if not state.is_seeded:
        return "seeding"
    return "following" if state.serves else "waiting"


def _generation_facts(
    state: IndexState, word: str, sink_spec: SinkSpec, sink: Sink, is_followed: bool
) -> IndexFacts:
    return IndexFacts(
        state.index,
        sink_spec.name,
        word,
        state.generation,
        sink.count(state.target),
        str(Lsn(state.witness)),
        len(sink.quarantined(state.index)),
        state.is_seeded and word not in ("outdated", "frozen") and not state.debts,
        tuple(DebtFacts(debt.scope.value, debt.reasons, str(Lsn(debt.since))) for debt in state.debts),
        state.waiting_for or None,
        _clock(state.waiting_since) if state.waiting_for else None,
        seed=None if state.is_seeded else seed_facts(state, is_followed=is_followed),
    )


def _clock(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(slot: SlotFacts, indexes: list[IndexFacts]) -> None:
    console = open_console(stderr=False)
    if slot.error is not None:
        console.print(f'slot "{slot.name}": {printable(slot.error)}')
    elif slot.exists:
        reader = f"read by pid {slot.active_pid}" if slot.active_pid else "not being read"
        behind = "" if slot.lag_bytes is None else f", {slot.lag_bytes:,} bytes behind"
        kept = f", WAL {slot.wal_status}" if slot.wal_status not in (None, "reserved") else ""
        console.print(f'slot "{slot.name}": {reader}, confirmed {slot.confirmed or "-"}{behind}{kept}')
        if slot.problem is not None:
            console.print(f"  {printable(slot.problem)}")
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
    console.print(table, soft_wrap=False)
    for facts in indexes:
        if facts.error is not None:
            console.print(f'"{facts.index}" in sink "{facts.sink}": {printable(facts.error)}')
        if facts.seed is not None:
            console.print(f'"{facts.index}" in sink "{facts.sink}" {facts.seed.described}')
        if facts.waiting_for:
            waits = f'"{facts.index}" in sink "{facts.sink}" waits since {facts.waiting_since}'
            console.print(f"{waits}: {printable(facts.waiting_for)}")
        for debt in facts.debts:
            reasons = printable("; ".join(debt.reasons))
            console.print(
                f'"{facts.index}" in sink "{facts.sink}" is not exact yet: {reasons} ({debt.since})'
            )


def _print_relations(relations: RelationFacts) -> None:
    console = open_console(stderr=False)
    print_seen(console, relations.seen)
    print_blind(console, relations.blind)
    if relations.error is not None:
        console.print(f"relations were not looked at: {printable(relations.error)}")
