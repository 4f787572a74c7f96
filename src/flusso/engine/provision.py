"""Before anything flows: check, make what is missing, and find out what is left to do.

The order is the invariant: publication, then slot, then the wait until every transaction that neither
the slot nor a snapshot would show is over, and only then may a seed read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flusso.builder.complete import complete
from flusso.builder.plan import IndexPlan, watched_tables, without_partitions
from flusso.capture.publication import ensure_publication
from flusso.capture.slot import SlotInfo, drop_slot, ensure_slot
from flusso.capture.snapshot import Blocker, await_settled
from flusso.change import WatchedTable
from flusso.diagnostic import Severity
from flusso.engine import work
from flusso.engine.events import Listener, Noticed, Waiting
from flusso.engine.ledger import Entry, Ledger
from flusso.engine.outcome import check_clock
from flusso.engine.preflight import examine, refuse
from flusso.engine.session import is_single_host
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import ConfigError, SlotAdvanced, SlotLost, SourceWentBack
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, connect, translated
from flusso.postgres.introspect import SourceIdentity, read_source_identity
from flusso.postgres.version import emit_version
from flusso.schema.digest import digest
from flusso.schema.mapping import text_field_names
from flusso.schema.model import IndexSchema
from flusso.sinks.base import IndexState, IndexTarget, SinkSpec


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the pipeline starts from."""

    work: WorkSpec
    ledger: Ledger
    target: Lsn
    """The end of the WAL at start."""
    watched: tuple[WatchedTable, ...]
    """What capture follows, by partitions."""


def prepare(spec: PipelineSpec, tell: Listener, stop: threading.Event) -> Prepared | None:
    """Check the source and the sinks, provision both, and say where things stand; None when stopped."""
    _check_sinks(spec)
    with connect(spec.dsn) as conn:
        examined = examine(conn, spec)
        for finding in examined.findings:
            if finding.severity is not Severity.ERROR:
                tell(Noticed(finding))
        refuse(examined.findings)
        plans = {plan.index: plan for plan in examined.plans}
        watched = watched_tables(plans.values())
        identity = read_source_identity(conn)
        columns = {table.name: table.columns for table in watched}
        was_extended = ensure_publication(
            conn, spec.publication, list(columns), manage=spec.manage_publication, columns=columns
        )
        slot, is_new = ensure_slot(conn, spec.slot)
        try:
            ledger = Ledger(_entries(spec, slot, identity, is_new=is_new))
            _check_versions(conn, ledger)
        except BaseException:
            if is_new:  # a slot that nobody reads would hold back WAL for ever
                drop_slot(conn, spec.slot)
            raise
        if is_new or was_extended or ledger.unseeded():
            await_settled(conn, on_wait=lambda blockers: tell(Waiting(_name(blockers))), stop=stop)
        if stop.is_set():
            return None
        target = _end_of_wal(conn)
    schemas = {index.name: complete(index.schema, examined.catalog) for index in spec.indexes}
    _ensure_targets(schemas, ledger)
    for index in spec.indexes:
        every = {sink.name for sink in index.sinks}
        ledger.skip_seed(index.name, every if spec.skips_seed else index.not_backfilled)
    ledger.position = slot.confirmed_flush_lsn or Lsn(0)
    return Prepared(_work_spec(spec, plans, watched, ledger), ledger, target, watched)


def _check_sinks(spec: PipelineSpec) -> None:
    for sink in _sinks_of(spec.indexes):
        if sink.capabilities.is_single_host and not is_single_host(spec.spark.master):
            raise ConfigError(
                f'sink "{sink.name}" is a file of this machine, but executors of {spec.spark.master} may run '
                "on others",
                hint="use a search server as the sink, or a local master",
            )


def _entries(spec: PipelineSpec, slot: SlotInfo, identity: SourceIdentity, *, is_new: bool) -> list[Entry]:
    """Compare what each sink remembers with what is declared now."""
    known = {
        sink.name: work.sink(sink).load_states() if sink.capabilities.keeps_state else {}
        for sink in _sinks_of(spec.indexes)
    }
    entries = []
    for index in spec.indexes:
        for sink in index.sinks:
            fresh = IndexState(
                index.name,
                digest(index.schema, sink.shape),
                generation=1,
                slot=slot.name,
                system_identifier=identity.system_identifier,
                witness=slot.confirmed_flush_lsn or 0,
            )
            state = _continue(known[sink.name].get(index.name), fresh, slot, is_new=is_new)
            target = IndexTarget(index.name, state.digest, state.generation, text_field_names(index.schema))
            entries.append(Entry(Destination(sink, target), state))
    return entries


def _continue(before: IndexState | None, fresh: IndexState, slot: SlotInfo, *, is_new: bool) -> IndexState:
    """Decide whether an index goes on where it stood, or a new generation begins."""
    if before is None:
        return fresh
    if before.digest != fresh.digest:
        return replace(fresh, generation=before.generation + 1, highest_version=before.highest_version)
    if not before.is_seeded:
        return replace(
            before, slot=fresh.slot, system_identifier=fresh.system_identifier, witness=fresh.witness
        )
    reindex = f"run flusso reindex {before.index}"
    if before.system_identifier != fresh.system_identifier:
        raise SourceWentBack(
            f'index "{before.index}" was written from another database cluster', hint=reindex
        )
    if is_new or before.slot != slot.name:
        raise SlotLost(
            f'index "{before.index}" was kept by slot "{before.slot}", which is gone, '
            "and all changes since with it",
            hint=reindex,
        )
    if (slot.confirmed_flush_lsn or 0) > before.witness:
        raise SlotAdvanced(
            f'slot "{slot.name}" is at {slot.confirmed_flush_lsn}, but index "{before.index}" was written '
            f"only up to {Lsn(before.witness)}: someone moved the slot, or the index was left out meanwhile",
            hint=reindex,
        )
    return before


def _name(blockers: Sequence[Blocker]) -> str:
    return "transactions that were open before the slot must end: " + ", ".join(map(str, blockers))


def _check_versions(conn: Connection, ledger: Ledger) -> None:
    known = max((entry.state.highest_version for entry in ledger.entries), default=0)
    check_clock(known, emit_version(conn))


def _ensure_targets(schemas: Mapping[str, IndexSchema], ledger: Ledger) -> None:
    for entry in ledger.entries:
        work.sink(entry.destination.sink).ensure(entry.destination.target, schemas[entry.state.index])
    ledger.save_all()


def _end_of_wal(conn: Connection) -> Lsn:
    with translated("cannot read the WAL position"):
        row = conn.execute("select pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def _work_spec(
    spec: PipelineSpec, plans: Mapping[str, IndexPlan], watched: tuple[WatchedTable, ...], ledger: Ledger
) -> WorkSpec:
    destinations: dict[str, tuple[Destination, ...]] = {}
    for entry in ledger.entries:
        destinations[entry.state.index] = (*destinations.get(entry.state.index, ()), entry.destination)
    is_file = any(sink.capabilities.is_single_host for sink in _sinks_of(spec.indexes))
    plans = {index: without_partitions(plan) for index, plan in plans.items()}
    watched = tuple(replace(table, partitions=None) for table in watched)
    made = WorkSpec(spec.dsn, plans, watched, destinations, chunk=spec.batch.chunk)
    return replace(made, lanes=1) if is_file else made


def _sinks_of(indexes: Sequence[IndexSpec]) -> list[SinkSpec]:
    return list(dict.fromkeys(sink for index in indexes for sink in index.sinks))
