"""Before anything flows: check, make what is missing, and find out what is left to do.

The order is the invariant: publication, then slot, then the wait until every transaction that neither
the slot nor a snapshot would show is over, and only then may a seed read.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flusso.builder.complete import complete
from flusso.builder.plan import IndexPlan, watched_tables, without_partitions
from flusso.capture.coverage import Coverage, ensure_coverage
from flusso.capture.identity import set_identities
from flusso.capture.lineage import Lineage, read_end_of_wal, read_lineage
from flusso.capture.slot import (
    SlotInfo,
    await_release,
    check_slot,
    drop_slot,
    ensure_slot,
    read_slot,
    reader_of,
    set_failover,
)
from flusso.capture.snapshot import Blocker, await_settled
from flusso.change import WatchedTable
from flusso.diagnostic import Severity
from flusso.engine import work
from flusso.engine.catalogs import owe_differences, reads_of
from flusso.engine.continuity import Published, Standing, find_other_server
from flusso.engine.events import IdentitySet, Listener, Noticed, Waiting
from flusso.engine.fingerprint import Reads
from flusso.engine.ledger import Ledger
from flusso.engine.policy import needs_new_slot
from flusso.engine.preflight import Examined, examine, plans_as_kept, refuse
from flusso.engine.quarantine import Quarantine
from flusso.engine.roster import (
    Roster,
    enrol,
    find_retained,
    load_states,
    reads_by_plan,
    refuse_busy,
    sinks_of,
)
from flusso.engine.session import is_single_host
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.tenure import Tenure
from flusso.engine.work import WorkSpec
from flusso.errors import ConfigError, FlussoError, PublicationYounger, SlotInvalidated
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, connect
from flusso.postgres.introspect import read_source_identity
from flusso.postgres.version import emit_version
from flusso.schema.digest import digest
from flusso.schema.model import IndexSchema
from flusso.sinks.base import Request, States

_BUSY_S = 60.0
"""How long a slot may have another reader: a walsender whose client is gone lives for wal_sender_timeout."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the pipeline starts from."""

    work: WorkSpec
    ledger: Ledger
    target: Lsn
    """The end of the WAL at start."""
    watched: tuple[WatchedTable, ...]
    """What capture follows, by partitions."""
    lineage: Lineage
    """The server that this was prepared for."""
    reads: tuple[Reads, ...]
    """What each index reads, for whoever watches the catalog."""
    quarantine: Quarantine
    retained: tuple[IndexSpec, ...] = ()
    """Schemas that are declared no more and by which a generation may still be written."""


def prepare(
    spec: PipelineSpec,
    tell: Listener,
    stop: threading.Event,
    *,
    anew: FlussoError | None = None,
    tenure: Tenure | None = None,
) -> Prepared | None:
    """Check the source and the sinks, provision both, and say where things stand; None when stopped.

    `anew` is why every index is to be filled anew, in a new generation beside the one that readers see: what
    a running pipeline met, for example. Whatever else was lost since the last run is found here, and stops
    or begins a new generation, as the spec says. `tenure` is told what was taken.
    """
    _check_sinks(spec)
    tenure = tenure or Tenure(spec)
    with connect(spec.dsn) as conn:
        found = _survey(conn, spec, tell, anew)
        coverage = _cover(conn, spec, found.examined.coverage, found.watched, tell, stop)
        now = _take_slot(conn, spec, found.published, tell, stop, found.anew)
        tenure.has_made_slot |= now.is_new_slot
        roster = _enrol(conn, spec, found, now, coverage, tell, stop)
        if roster is None:
            return prepare(spec, tell, stop, anew=found.anew, tenure=tenure)
        ledger = roster.ledger
        tenure.hold(ledger)
        if now.is_new_slot or coverage is not found.examined.coverage or ledger.unseeded():
            await_settled(conn, on_wait=lambda blockers: tell(Waiting(_name(blockers))), stop=stop)
        if stop.is_set():
            return None
        target = read_end_of_wal(conn)
        ledger.position = now.position
        owe_differences(conn, ledger, found.reads)
    _ensure_indexes(spec, found, roster)
    skips = {**spec.skips, **{each.name: each.skips_refused for each in found.retained}}
    quarantine = Quarantine(skips, tell)
    quarantine.look(entry.destination for entry in ledger.entries)
    made = replace(_work_spec(spec, found.plans, found.watched, ledger), quarantines=quarantine.holders)
    return Prepared(made, ledger, target, found.watched, now.lineage, found.reads, quarantine, found.retained)


@dataclass(frozen=True, slots=True)
class _Surveyed:
    """The source and the schemas as a start finds them, before it makes anything."""

    retained: tuple[IndexSpec, ...]
    examined: Examined
    plans: Mapping[str, IndexPlan]
    """Of the retained schemas those fit that have one."""
    watched: tuple[WatchedTable, ...]
    published: Published
    reads: tuple[Reads, ...]
    anew: FlussoError | None


def _survey(conn: Connection, spec: PipelineSpec, tell: Listener, anew: FlussoError | None) -> _Surveyed:
    """Look at what the sinks remember, the schemas and the source; raise what ends it here."""
    known = load_states(spec.indexes)
    retained = find_retained(spec.indexes, known)
    examined = _examine(conn, spec, retained, tell, known.values())
    plans = plans_as_kept((*spec.indexes, *retained), examined, known.values())
    published = Published(examined.coverage.marks, reads_by_plan(examined.plans, spec.indexes))
    anew = anew or _find_discontinuity(spec, known, published, read_lineage(conn))
    reads = _reads(spec, retained, examined)
    return _Surveyed(retained, examined, plans, watched_tables(plans.values()), published, reads, anew)


def _enrol(
    conn: Connection,
    spec: PipelineSpec,
    found: _Surveyed,
    now: Standing,
    coverage: Coverage,
    tell: Listener,
    stop: threading.Event,
) -> Roster | None:
    """Decide who is written; a slot that was just made goes again when that fails.

    Nothing is remembered of it yet, so even who tries again had better make another: it shows that the old
    one was lost.
    """
    try:
        refuse_busy(spec, now, tell, stop)
        needed = {plan.index: plan.references for plan in found.examined.plans}
        reads = {each.index: each for each in found.reads}
        return enrol(spec, found.retained, found.plans, needed, reads, now, coverage.marks, tell, found.anew)
    except BaseException:
        if now.is_new_slot:
            drop_slot(conn, spec.slot)
        raise


def _ensure_indexes(spec: PipelineSpec, found: _Surveyed, roster: Roster) -> None:
    """Make what is missing in the sinks, and do what was asked of them."""
    written = [*spec.indexes, *(each for each in found.retained if each.name in found.plans)]
    schemas = {index.name: complete(index.schema, found.examined.catalog) for index in written}
    _ensure_targets(schemas, roster.ledger)
    roster.settle()
    for index in spec.indexes:
        every = {sink.name for sink in index.sinks}
        skipping = every if spec.skips_seed else index.not_backfilled
        roster.ledger.skip_seed(index.name, skipping, is_order=spec.skips_seed)


def renew(spec: PipelineSpec, prepared: Prepared, tell: Listener, stop: threading.Event) -> Prepared | None:
    """Look again while a pipeline runs, between two queries; None when only a new start will do.

    Partitions that came or went, or values that were rewritten, leave the plans as they are: what follows is
    owed, and a seed beside the stream goes on. Raises what a start would raise.
    """
    with connect(spec.dsn) as conn:
        known = load_states(spec.indexes).values()
        examined = _examine(conn, spec, prepared.retained, tell, known)
        found = plans_as_kept((*spec.indexes, *prepared.retained), examined, known)
        watched = watched_tables(found.values())
        coverage = _cover(conn, spec, examined.coverage, watched, tell, stop)
        plans = {index: without_partitions(plan) for index, plan in found.items()}
        if plans != prepared.work.plans or coverage is not examined.coverage:
            return None
        reads = _reads(spec, prepared.retained, examined)
        owe_differences(conn, prepared.ledger, reads)
    return replace(prepared, watched=watched, reads=reads)


def _reads(spec: PipelineSpec, retained: Sequence[IndexSpec], examined: Examined) -> tuple[Reads, ...]:
    schemas = {index.name: index.schema for index in (*spec.indexes, *retained)}
    return tuple(reads_of(plan, schemas[plan.index], examined.catalog) for plan in examined.plans)


def create_slot(conn: Connection, spec: PipelineSpec, tell: Listener) -> tuple[SlotInfo, bool]:
    """Make the publication and then the slot, for a later run; the flag says whether the slot is new."""
    examined = _examine(conn, spec, (), tell)
    _cover(conn, spec, examined.coverage, watched_tables(examined.plans), tell, threading.Event())
    return ensure_slot(conn, spec.slot, is_failover=spec.is_failover)


def _examine(
    conn: Connection,
    spec: PipelineSpec,
    retained: Sequence[IndexSpec],
    tell: Listener,
    known: Collection[States] = (),
) -> Examined:
    """Look at source and schemas; tell what is worth a word, refuse what is wrong.

    A retained schema that does not fit any more has no plan, and is no reason to refuse.
    """
    examined = examine(conn, replace(spec, indexes=(*spec.indexes, *retained)), lambda: known)
    old = {each.name for each in retained}
    findings = [finding for finding in examined.findings if finding.index not in old]
    for finding in findings:
        if finding.severity is not Severity.ERROR:
            tell(Noticed(finding))
    refuse(findings)
    return examined


def _check_sinks(spec: PipelineSpec) -> None:
    for sink in sinks_of(spec.indexes):
        if sink.capabilities.is_single_host and not is_single_host(spec.spark.master):
            raise ConfigError(
                f'sink "{sink.name}" is a file of this machine, but executors of {spec.spark.master} may run '
                "on others",
                hint="use a search server as the sink, or a local master",
            )


def _find_discontinuity(
    spec: PipelineSpec, known: Mapping[str, States], published: Published, lineage: Lineage
) -> FlussoError | None:
    """Look for another server and for changes that were not sent, before the publication is touched.

    Raises if they end it here. Gives the reason why everything begins anew, slot included, when the
    publication is not the one it was. Of another server that is no question.
    """
    younger: FlussoError | None = None
    for index in spec.indexes:
        for sink in index.sinks:
            states = known[sink.name]
            for state in states.of(index.name):
                if state.stale or state.digest != digest(index.schema, sink.shape):
                    continue
                gap = find_other_server(state, lineage) or published.find_gap(state)
                is_asked = states.asked.get(index.name) is Request.REINDEX
                if gap is not None and state.serves and not (spec.reseeds or is_asked):
                    raise gap
                younger = gap if isinstance(gap, PublicationYounger) else younger
    return younger


def _cover(
    conn: Connection,
    spec: PipelineSpec,
    known: Coverage,
    watched: Sequence[WatchedTable],
    tell: Listener,
    stop: threading.Event,
) -> Coverage:
    """Set identities if asked to, then create or extend the publication."""
    if spec.manages_identity:
        set_identities(
            conn, known.identities, stop, lambda need: tell(IdentitySet(str(need.leaf), str(need.sql)))
        )
    manage = spec.manage_publication
    return ensure_coverage(conn, spec.publication, watched, manage=manage, known=known, stop=stop)


def _take_slot(
    conn: Connection,
    spec: PipelineSpec,
    published: Published,
    tell: Listener,
    stop: threading.Event,
    anew: FlussoError | None,
) -> Standing:
    """Find or make the slot, when nobody else reads it; one that can never be read again makes room."""
    info = read_slot(conn, spec.slot)
    if info is not None:
        # Made before there was a publication, it can only be read from after its birth: nothing is lost.
        is_older = published.marks.mark is None
        useless = is_older or (anew is not None and needs_new_slot(anew))
        try:
            check_slot(info)
        except SlotInvalidated:
            if not spec.reseeds:
                raise
            useless = True
        if info.active_pid is not None:
            # It may be dying; and while it lives, what the sinks remember is its to write.
            tell(Waiting(f'slot "{spec.slot}" is read by {reader_of(info)}'))
            await_release(conn, spec.slot, _BUSY_S, stop)
        if useless:
            drop_slot(conn, spec.slot)
    slot, is_new = ensure_slot(conn, spec.slot, is_failover=spec.is_failover)
    if spec.is_failover and not slot.is_failover:
        set_failover(spec.dsn, spec.slot)
    identity = read_source_identity(conn)
    return Standing(
        slot, is_new, identity.system_identifier, emit_version(conn), published, identity.recovered_at
    )


def _name(blockers: Sequence[Blocker]) -> str:
    return "transactions that were open before the slot must end: " + ", ".join(map(str, blockers))


def _ensure_targets(schemas: Mapping[str, IndexSchema], ledger: Ledger) -> None:
    ledger.save_all()  # first: what is there and not known is an orphan
    for entry in ledger.entries:
        sink, target = work.sink(entry.destination.sink), entry.destination.target
        sink.ensure(target, schemas[entry.plan_name])
        ledger.remember_uuids(entry, sink.uuids(target) or ())
    for spec, state in ledger.frozen:
        work.sink(spec).claim(state.target)
    for spec, target in ledger.shown():
        # A crash may have come before readers had moved, or someone may have moved them since.
        work.sink(spec).publish(target)


def _work_spec(
    spec: PipelineSpec, plans: Mapping[str, IndexPlan], watched: tuple[WatchedTable, ...], ledger: Ledger
) -> WorkSpec:
    destinations = ledger.destinations()
    is_file = any(sink.capabilities.is_single_host for sink in sinks_of(spec.indexes))
    plans = {index: without_partitions(plan) for index, plan in plans.items()}
    watched = tuple(replace(table, partitions=None) for table in watched)
    made = WorkSpec(
        spec.dsn,
        plans,
        watched,
        destinations,
        read_dsn=spec.read_dsn,
        chunk=spec.batch.chunk,
        max_fan_out=spec.sizes.max_fan_out,
    )
    return replace(made, lanes=1) if is_file else made
