"""What runs on executors: resolve, build, write. Failures come back as values, inside reports.

Each function here makes the function that Spark ships; the spec travels in its closure. Every attempt
that builds documents first emits its version (`postgres/version.py`), so a repeated or late attempt can
never put old content over new.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from flusso.builder.read import BlockRange, read_documents, read_range
from flusso.builder.resolve import resolve, truncated_roots
from flusso.capture import wire
from flusso.change import Change
from flusso.document import DocumentId, Key, WriteReport, key_of
from flusso.engine import work
from flusso.engine.frames import ID_SCHEMA, REPORT_SCHEMA, changes_batch
from flusso.engine.work import WorkSpec
from flusso.engine.writer import Writer
from flusso.errors import FlussoError, from_text, to_line
from flusso.postgres.version import emit_version

_FAILURE = "\x00"
"""In place of an index name: the key then holds an error's line."""
_IDS_IN_A_BATCH = 10_000
_TURN_BYTES = 64_000_000

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What one turn of a seed did: how many of its ranges, and the reports of their writes."""

    done: int
    reports: tuple[WriteReport, ...]


def process_changes(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Resolve, build and write in one go, for a batch of few changes."""

    def run(batches: Batches) -> Batches:
        yield from _reports(_process(spec, batches))

    return run


def resolve_changes(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Turn changes into document ids, for Spark to make distinct and spread."""

    def run(batches: Batches) -> Batches:
        try:
            yield from _id_batches(_resolve(spec, batches))
        except FlussoError as error:
            work.forget()
            yield from _id_batches(iter([DocumentId(_FAILURE, (to_line(error),))]))

    return run


def write_documents(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Build and write the documents of ids that were spread."""

    def run(batches: Batches) -> Batches:
        yield from _reports(_guarded(spec, _ids_of(batches)))

    return run


def write_ranges(spec: WorkSpec, turn: Sequence[BlockRange], turn_s: float) -> Callable[[Batches], Batches]:
    """Build and write ranges of a root table; the one row that comes in only starts it."""

    def run(batches: Batches) -> Batches:
        for _ in batches:
            yield from _reports([_write_ranges(spec, turn, turn_s)])

    return run


def no_changes(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Give changes of which there are none, and touch the connection, so that it does not go cold."""

    def run(batches: Batches) -> Batches:
        try:
            work.connection(spec.dsn).execute("select 1")
        except Exception:
            work.forget()
        for _ in batches:
            yield changes_batch(b"")

    return run


def _process(spec: WorkSpec, batches: Batches) -> Iterator[WriteReport]:
    try:
        found = _resolve(spec, batches)
        ids = list(dict.fromkeys(islice(found, spec.overflow + 1)))
    except FlussoError as error:
        work.forget()
        yield WriteReport("", failure=error)
        return
    if len(ids) > spec.overflow or next(found, None) is not None:
        yield WriteReport("", is_overflow=True)
        return
    yield from _guarded(spec, iter(ids))


def _guarded(spec: WorkSpec, ids: Iterator[DocumentId]) -> Iterator[WriteReport]:
    try:
        yield from _write(spec, ids)
    except FlussoError as error:
        work.forget()
        yield WriteReport("", failure=error)


def _write(spec: WorkSpec, ids: Iterator[DocumentId]) -> list[WriteReport]:
    first = next(ids, None)
    if first is None:
        return []
    conn = work.connection(spec.dsn)
    writer = Writer(spec, emit_version(conn))
    waiting: dict[str, list[Key]] = {first.index: [first.key]}
    for document in ids:
        keys = waiting.setdefault(document.index, [])
        keys.append(document.key)
        if len(keys) >= spec.chunk:
            writer.put(document.index, read_documents(conn, spec.plans[document.index], keys))
            waiting[document.index] = []
    for index, keys in waiting.items():
        if keys:
            writer.put(index, read_documents(conn, spec.plans[index], keys))
    return writer.finish()


def _write_ranges(spec: WorkSpec, turn: Sequence[BlockRange], turn_s: float) -> TurnReport:
    """Write ranges one after the other until the turn is over; at least one."""
    began_s = time.monotonic()
    done = 0
    try:
        conn = work.connection(spec.dsn)
        writer = Writer(spec, emit_version(conn))
        for block_range in turn:
            for built in read_range(conn, spec.plans[block_range.index], block_range):
                writer.put(block_range.index, built)
            done += 1
            if time.monotonic() - began_s >= turn_s or writer.bytes >= _TURN_BYTES:
                break
        return TurnReport(done, tuple(writer.finish()))
    except FlussoError as error:
        work.forget()
        return TurnReport(0, (WriteReport(turn[0].index, failure=error),))


def _resolve(spec: WorkSpec, batches: Batches) -> Iterator[DocumentId]:
    changes: list[Change] = [
        change for batch in batches for payload in batch.column(0) for change in wire.decode(payload.as_py())
    ]
    plans = list(spec.plans.values())
    yield from resolve(work.connection(spec.dsn), plans, changes, spec.watched)
    for index in sorted(truncated_roots(plans, changes)):
        yield from _known_ids(spec, index)


def _known_ids(spec: WorkSpec, index: str) -> Iterator[DocumentId]:
    """After TRUNCATE of a root only the sinks know which documents there were."""
    columns = len(spec.plans[index].key)
    for destination in spec.destinations[index]:
        if destination.sink.capabilities.keeps_state:
            for document_id in work.sink(destination.sink).ids(destination.target):
                yield DocumentId(index, key_of(document_id, columns))


def _ids_of(batches: Batches) -> Iterator[DocumentId]:
    for batch in batches:
        for index, key in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            if index == _FAILURE:
                raise from_text(key[0]) or FlussoError(key[0])
            yield DocumentId(index, tuple(key))


def _id_batches(ids: Iterator[DocumentId]) -> Batches:
    while chunk := list(islice(ids, _IDS_IN_A_BATCH)):
        columns = [[document.index for document in chunk], [list(document.key) for document in chunk]]
        yield pa.record_batch(columns, schema=ID_SCHEMA)


def _reports(reports: Iterable[WriteReport | TurnReport]) -> Batches:
    yield pa.record_batch([[pickle.dumps(report) for report in reports]], schema=REPORT_SCHEMA)
