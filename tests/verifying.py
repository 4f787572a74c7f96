"""Verify indexes in tests without Spark: the same tasks on real tables and sinks, one after the other."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from fix_postgres import Database
from flusso.builder.ranges import plan_ranges
from flusso.document import DocumentId, key_of
from flusso.engine import tasks, work
from flusso.engine.events import Event
from flusso.engine.outcome import settle_reports
from flusso.engine.provision import Prepared, prepare
from flusso.engine.session import SparkSpec
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.engine.verify.facts import Verification, Verified
from flusso.engine.verify.prepare import prepare_verify
from flusso.engine.verify.run import Place, verify_all
from flusso.lsn import Version
from flusso.postgres.version import emit_version
from flusso.schema.parse import parse_schema
from flusso.seeding import Seeding
from flusso.sinks.base import SinkSpec
from pipelines import publish_seeded


def run_here(task: Callable[[Any], Any], count: int) -> list[Any]:
    """What Spark would do with a task, in this process."""
    found: list[Any] = []
    for number in range(count):
        for batch in task(iter([pa.record_batch([pa.array([number])], ["id"])])):
            found += (pickle.loads(row.as_py()) for row in batch.column(0))
    return found


def fill(spec: PipelineSpec) -> Prepared:
    """Make slot and publication, and fill every index, as a run would."""
    prepared = prepare(spec, lambda event: None, threading.Event())
    assert prepared is not None
    for index in [entry.state.index for entry in prepared.ledger.entries if not entry.state.is_seeded]:
        with work.looking(spec.dsn) as conn:
            ranges = plan_ranges(conn, prepared.work.plans[index], spec.batch.seed_range_mb)
        (report,) = run_here(tasks.write_ranges(prepared.work, [ranges], 600.0), 1)
        assert report.done == len(ranges)
        totals = settle_reports(report.reports, prepared.work, prepared.quarantine, lambda: Version(0))
        entries = prepared.ledger.of(index)
        prepared.ledger.advance_seed(entries, Seeding(), totals.highest_version)
    publish_seeded(prepared.ledger, *{entry.state.index for entry in prepared.ledger.entries})
    return prepared


def write_documents(prepared: Prepared, index: str, *ids: str) -> None:
    """Build and write documents, as a batch that was told of them would."""
    columns = len(prepared.work.plans[index].key)
    share = [DocumentId(index, key_of(id_, columns)) for id_ in ids]
    reports = run_here(tasks.write_held(prepared.work, [share], only_gone=False), 1)
    settle_reports(reports, prepared.work, prepared.quarantine, lambda: Version(0))


def record(prepared: Prepared, spec: PipelineSpec) -> None:
    """Remember the present position in every sink, as a batch does."""
    with work.looking(spec.dsn) as conn:
        lsn = emit_version(conn).lsn
    prepared.ledger.record(lsn, 0)


def verify(
    spec: PipelineSpec,
    tell: Callable[[Event], None] | None = None,
    *,
    names: tuple[str, ...] = (),
    stop: threading.Event | None = None,
    **options: Any,
) -> Verification:
    """What `flusso verify` finds."""
    place = Place(run_here, parallelism=2)
    return verify_all(
        prepare_verify(spec, names),
        place,
        tell or (lambda event: None),
        stop or threading.Event(),
        **options,
    )


def verify_one(spec: PipelineSpec, tell: Callable[[Event], None] | None = None, **options: Any) -> Verified:
    """What it finds of the only index in the only sink."""
    (one,) = verify(spec, tell, **options).indexes
    return one


def damage(spec: PipelineSpec, *statements: str) -> None:
    """Do something to the SQLite file behind flusso's back."""
    sink = spec.indexes[0].sinks[0].open()
    try:
        for statement in statements:
            sink._conn.execute(statement)  # type: ignore[attr-defined]
    finally:
        sink.close()


def things_spec(database: Database, sink: SinkSpec, schema: str = "", **changes: Any) -> PipelineSpec:
    """An index of one table, `things`."""
    text = schema or "version: 1\ntable: things\nfields:\n  - integer: id\n  - text: name\n"
    index = IndexSpec("things", parse_schema(text, file="t.yml"), (sink,))
    fields: dict[str, Any] = {"batch": BatchSpec(seed_range_mb=0.05)}
    return PipelineSpec(
        database.dsn,
        f"slot_{database.name}",
        "flusso",
        (index,),
        SparkSpec("local[2]"),
        **(fields | changes),
    )


def found(one: Verified) -> dict[str, str]:
    """The differences: their kinds by id."""
    return {difference.id: difference.kind.value for difference in one.differences}
