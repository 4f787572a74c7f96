"""What runs on executors: resolve, build, write. Failures come back as values, inside reports.

Each function here makes the function that Spark ships; the spec travels in its closure. Every attempt
that builds documents first emits its version (`postgres/version.py`), so a repeated or late attempt can
never put old content over new.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from flusso.builder.isolate import read_isolated
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import BlockRange, read_keys, read_range, read_reached
from flusso.builder.read import name_hashed
from flusso.builder.resolve import find_hidden, find_owed, resolve
from flusso.capture import wire
from flusso.change import Change
from flusso.debt import Owed, Reach
from flusso.document import DocumentId, Key, WriteReport, id_text
from flusso.engine import work
from flusso.engine.frames import ID_SCHEMA, REPORT_SCHEMA, changes_batch
from flusso.engine.referring import find_referring
from flusso.engine.work import WorkSpec
from flusso.engine.writer import Writer
from flusso.errors import FlussoError, RowUnfit, TableRewritten, from_text, to_line
from flusso.postgres.connect import Connection

_FAILURE = "\x00"
"""In place of an index name: the key then holds an error's line."""
_OWED = "\x01"
"""In place of an index name: the key then holds what is owed, as text."""
_IDS_IN_A_BATCH = 10_000
_TURN_BYTES = 128_000_000
_REFRESHED = 2
"""Ranges at the end of a seed beside which an index is refreshed. The first such refresh has nearly all to do
and takes about as long as a range, the second one little. A third comes beside the last requests, and leaves
less still for the end."""

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What one turn did: how many of its ranges, and the reports of their writes."""

    done: int
    reports: tuple[WriteReport, ...]
    is_rewritten: bool = False
    """Whether the next range, and all others of its table, mean blocks that are no longer there."""


def process_changes(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Resolve, build and write in one go, for a batch of few changes."""

    def run(batches: Batches) -> Batches:
        with _released(spec):
            yield from _reports(_process(spec, batches))

    return run


def resolve_changes(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Turn changes into document ids, for Spark to make distinct and spread."""

    def run(batches: Batches) -> Batches:
        with _released(spec):
            changes = _changes_of(batches)
            try:
                yield from _id_batches(_named(chain(_owed(spec, changes), _resolve(spec, changes))))
            except FlussoError as error:
                work.forget()
                yield from _id_batches(iter([DocumentId(_FAILURE, (to_line(error),))]))

    return run


def write_documents(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Build and write the documents of ids that were spread."""

    def run(batches: Batches) -> Batches:
        with _released(spec):
            owed: list[Owed] = []
            written = list(_guarded(spec, _ids_of(batches, owed)))
            yield from _reports([*written, *map(_owing, owed)])

    return run


def write_ranges(
    spec: WorkSpec,
    turns: Sequence[Sequence[BlockRange]],
    turn_s: float,
    reach: Reach | None = None,
    *,
    is_last: bool = False,
) -> Callable[[Batches], Batches]:
    """Build and write ranges of a root table, all of it or what some values reach; the number that comes in
    says which turn's.

    Where nothing waits behind them, what is written is refreshed beside the last ranges. A search server does
    that on one core, and the others would stand idle for as long if all of it came at the end.
    """

    def run(batches: Batches) -> Batches:
        with _released(spec):
            numbers = _numbers_of(batches)
            yield from _reports(
                [_write_ranges(spec, turns[number], turn_s, reach, is_last) for number in numbers]
            )

    return run


def write_held(
    spec: WorkSpec, shares: Sequence[Sequence[DocumentId]], *, only_gone: bool
) -> Callable[[Batches], Batches]:
    """Build and write documents that a sink holds, or only remove those without a row; the number that comes
    in says which share."""

    def run(batches: Batches) -> Batches:
        with _released(spec):
            for number in _numbers_of(batches):
                share = iter(shares[number])
                yield from _reports(_guarded(spec, share, only_gone=only_gone, is_share=True))

    return run


def by_number(spec: WorkSpec, work_off: Callable[[int], Any]) -> Callable[[Batches], Batches]:
    """Make a task of a function: the number that comes in says which share, what it gives is the report."""

    def run(batches: Batches) -> Batches:
        with _released(spec):
            yield from _reports([work_off(number) for number in _numbers_of(batches)])

    return run


def no_changes(spec: WorkSpec) -> Callable[[Batches], Batches]:
    """Give changes of which there are none, and touch the connection, so that it does not go cold."""

    def run(batches: Batches) -> Batches:
        try:
            if spec.keeps_connections:
                for dsn in filter(None, (spec.dsn, spec.read_dsn)):
                    work.connection(dsn).execute("select 1")
        except Exception:
            work.forget()
        for _ in batches:
            yield changes_batch(b"")

    return run


@contextmanager
def _released(spec: WorkSpec) -> Iterator[None]:
    """At the end of a task, however it ends, leave open only what this process may keep."""
    try:
        yield
    finally:
        work.release(spec)


def _process(spec: WorkSpec, batches: Batches) -> Iterator[WriteReport]:
    changes = _changes_of(batches)
    ids: dict[DocumentId, None] = {}
    owed = list(_owed(spec, changes))
    try:
        for found in _resolve(spec, changes):
            if isinstance(found, Owed):
                owed.append(found)
            else:
                ids[found] = None
            if len(ids) > spec.overflow:
                yield WriteReport("", is_overflow=True)
                return
    except FlussoError as error:
        work.forget()
        yield WriteReport("", failure=error)
        return
    yield from map(_owing, owed)
    yield from _guarded(spec, iter(ids))


def _guarded(
    spec: WorkSpec, ids: Iterator[DocumentId], *, only_gone: bool = False, is_share: bool = False
) -> Iterator[WriteReport]:
    try:
        yield from _write(spec, ids, only_gone, is_share)
    except FlussoError as error:
        work.forget()
        yield WriteReport("", failure=error)


def _write(spec: WorkSpec, ids: Iterator[DocumentId], only_gone: bool, is_share: bool) -> list[WriteReport]:
    first = next(ids, None)
    if first is None:
        return []
    began_s = time.monotonic()
    conn, version = work.reader(spec)
    with Writer(spec, version, born_s=began_s) as writer:

        def put(index: str, keys: Sequence[Key]) -> None:
            built, unfit = read_isolated(conn, spec.plans[index], keys)
            if only_gone:
                writer.put(index, [each for each in built if each.body is None])
            else:
                writer.put(index, built)
                writer.refuse(index, unfit)

        waiting: dict[str, list[Key]] = {}
        documents = chain([first], ids)
        for document in _name_hashed(conn, spec, documents) if is_share else documents:
            keys = waiting.setdefault(document.index, [])
            keys.append(document.key)
            if len(keys) >= spec.chunk:
                put(document.index, keys)
                waiting[document.index] = []
        for index, keys in waiting.items():
            if keys:
                put(index, keys)
        return writer.finish()


def _name_hashed(conn: Connection, spec: WorkSpec, share: Iterator[DocumentId]) -> Iterator[DocumentId]:
    """Look for the rows of hashed ids once for a whole share."""
    keys: dict[str, list[Key]] = {}
    for document in share:
        keys.setdefault(document.index, []).append(document.key)
    for index, own in keys.items():
        yield from (DocumentId(index, key) for key in name_hashed(conn, spec.plans[index], own))


def _write_ranges(
    spec: WorkSpec,
    turn: Sequence[BlockRange],
    turn_s: float,
    reach: Reach | None = None,
    is_last: bool = False,
) -> TurnReport:
    """Write ranges one after the other until the turn is over; at least one."""
    began_s = time.monotonic()
    done, is_rewritten = 0, False
    try:
        conn, version = work.reader(spec)
        with Writer(spec, version, born_s=began_s) as writer:
            try:
                for block_range in turn:
                    if is_last and len(turn) - done <= _REFRESHED:
                        writer.refresh(block_range.index)
                    _put_range(conn, spec.plans[block_range.index], writer, block_range, reach)
                    done += 1
                    if time.monotonic() - began_s >= turn_s or writer.bytes >= _TURN_BYTES:
                        break
                if is_last and done == len(turn):
                    writer.refresh(turn[-1].index)
            except TableRewritten:
                is_rewritten = True
            return TurnReport(done, tuple(writer.finish()), is_rewritten)
    except FlussoError as error:
        work.forget()
        return TurnReport(0, (WriteReport(turn[0].index, failure=error),))


def _put_range(
    conn: Connection, plan: IndexPlan, writer: Writer, block_range: BlockRange, reach: Reach | None
) -> None:
    """Write the documents of a range, all of them or what some values reach; where one cannot be built, those
    that were not written yet by their keys."""
    index = block_range.index
    keys: list[Key] = []
    written: list[str] = []
    try:
        if reach is None:
            for documents in read_range(conn, plan, block_range):
                writer.put(index, documents)
                written += [document.id for document in documents]
        else:
            keys = read_reached(conn, plan, block_range, reach)
    except RowUnfit:
        known = frozenset(written)
        keys = [key for key in read_keys(conn, plan, block_range) if id_text(key) not in known]
    for at in range(0, len(keys), writer.spec.chunk):
        built, unfit = read_isolated(conn, plan, keys[at : at + writer.spec.chunk])
        writer.put(index, built)
        writer.refuse(index, unfit)


def _changes_of(batches: Batches) -> list[Change]:
    return [
        change for batch in batches for payload in batch.column(0) for change in wire.decode(payload.as_py())
    ]


def _numbers_of(batches: Batches) -> Iterator[int]:
    return (number for batch in batches for number in batch.column(0).to_pylist())


def _owed(spec: WorkSpec, changes: Sequence[Change]) -> Iterator[Owed]:
    """Name what no change leads to."""
    plans = spec.plans.values()
    return chain(find_owed(plans, changes), find_hidden(plans, changes, spec.watched))


def _resolve(spec: WorkSpec, changes: Sequence[Change]) -> Iterator[DocumentId | Owed]:
    # The source shows what it handed on; a replica only when it has come as far as now.
    conn = work.connection(spec.dsn) if spec.read_dsn is None else work.reader(spec)[0]
    plans = list(spec.plans.values())
    found = resolve(conn, plans, changes, spec.watched, limit=spec.max_fan_out)
    return chain(found, find_referring(spec, changes))


def _owing(owed: Owed) -> WriteReport:
    return WriteReport(owed.index, owes=owed)


def _named(found: Iterable[DocumentId | Owed]) -> Iterator[DocumentId]:
    return (DocumentId(_OWED, (each.to_text(),)) if isinstance(each, Owed) else each for each in found)


def _ids_of(batches: Batches, owed: list[Owed]) -> Iterator[DocumentId]:
    for batch in batches:
        for index, key in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            if index == _FAILURE:
                raise from_text(key[0]) or FlussoError(key[0])
            if index == _OWED:
                owed.append(Owed.from_text(key[0]))
            else:
                yield DocumentId(index, tuple(key))


def _id_batches(ids: Iterator[DocumentId]) -> Batches:
    while chunk := list(islice(ids, _IDS_IN_A_BATCH)):
        columns = [[document.index for document in chunk], [list(document.key) for document in chunk]]
        yield pa.record_batch(columns, schema=ID_SCHEMA)


def _reports(reports: Iterable[Any]) -> Batches:
    yield pa.record_batch([[pickle.dumps(report) for report in reports]], schema=REPORT_SCHEMA)
