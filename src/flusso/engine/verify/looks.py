"""The first look, on executors: build, read what the sink holds, compare.

It only gathers suspects: it waits for nobody, so what it takes for a difference may be a change on its way.
`settle` looks at those again. Failures come back as values, inside reports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from flusso.builder.isolate import Unfit, read_isolated
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import BlockRange, read_keys, read_range
from flusso.builder.read import Built, find_documents, name_hashed
from flusso.document import Key, id_text, key_of
from flusso.engine import work
from flusso.engine.fingerprint import Reads
from flusso.engine.tasks import Batches, by_number
from flusso.engine.verify.judge import Sight, seems_right
from flusso.engine.verify.pace import Stood
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import FlussoError, IndexUnready, RowUnfit
from flusso.postgres.connect import Connection
from flusso.sinks.base import IndexState

_SUSPECTS_IN_A_TURN = 20_000
"""An index that is all wrong is told in pieces; the range in hand is gone through."""
_GATHERED_BYTES = 32_000_000
"""Of built documents that are kept until the transaction that reads a range has ended."""

T = TypeVar("T")
_Part: TypeAlias = tuple[list[Built], list[Unfit]]


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """All that a task needs to look at one index."""

    work: WorkSpec
    """Its destinations are those that can be read."""
    index: str
    partial: frozenset[str] = frozenset()
    """Sinks that take only what changes: rows that they never saw are not missing."""
    reads: Reads | None = None
    """What the index reads, to tell whether whoever follows knows the tables as they are."""
    stood: Mapping[str, Stood] = field(default_factory=dict)
    """By sink how whoever follows was waited for in vain last."""

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """The generations of the index that are compared."""
        return self.work.destinations[self.index]

    def destination(self, sink: str) -> Destination:
        """Find one of them."""
        return next(one for one in self.destinations if one.sink.name == sink)


@dataclass(frozen=True, slots=True)
class Share:
    """Ids of one sink."""

    sink: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookReport:
    """What a first look found."""

    done: int = 0
    """Ranges of the turn, from the first on."""
    documents: int = 0
    suspects: tuple[Share, ...] = ()
    failure: FlussoError | None = None


def look_at_ranges(
    task: VerifyTask, turns: Sequence[Sequence[BlockRange]], turn_s: float
) -> Callable[[Batches], Batches]:
    """Compare ranges of the root table; the number that comes in says which turn's."""
    return by_number(task.work, lambda number: _look(lambda: _look_at_ranges(task, turns[number], turn_s)))


def look_at_rows(task: VerifyTask, shares: Sequence[Sequence[str]]) -> Callable[[Batches], Batches]:
    """Compare the documents of ids; the number that comes in says which share."""
    return by_number(task.work, lambda number: _look(lambda: _look_at_rows(task, shares[number])))


def look_at_held(task: VerifyTask, shares: Sequence[Share]) -> Callable[[Batches], Batches]:
    """Find ids without a document among those that a sink holds."""
    return by_number(task.work, lambda number: _look(lambda: _look_at_held(task, shares[number])))


def _look(attempt: Callable[[], LookReport]) -> LookReport:
    try:
        return attempt()
    except FlussoError as error:
        work.forget()
        return LookReport(failure=error)


def _look_at_ranges(task: VerifyTask, turn: Sequence[BlockRange], turn_s: float) -> LookReport:
    """Look at ranges one after the other until the turn is over; at least one."""
    began_s = time.monotonic()
    done = documents = 0
    suspects = _Suspects()
    conn, _ = work.reader(task.work)
    plan = task.work.plans[task.index]
    for block_range in turn:
        for built, unfit in _gathered(_read_range(conn, plan, block_range, task.work.chunk)):
            documents += sum(one.body is not None for one in built) + len(unfit)
            suspects.add(task, built, unfit)
        done += 1
        if time.monotonic() - began_s >= turn_s or suspects.count >= _SUSPECTS_IN_A_TURN:
            break
    return LookReport(done, documents, suspects.shares())


def _look_at_rows(task: VerifyTask, ids: Sequence[str]) -> LookReport:
    conn, _ = work.reader(task.work)
    plan = task.work.plans[task.index]
    suspects = _Suspects()
    for chunk in chunks(keys_of(conn, plan, ids), task.work.chunk):
        suspects.add(task, *read_isolated(conn, plan, chunk))
    return LookReport(1, len(ids), suspects.shares())


def _look_at_held(task: VerifyTask, share: Share) -> LookReport:
    conn, _ = work.reader(task.work)
    plan = task.work.plans[task.index]
    found: set[str] = set()
    for chunk in chunks(keys_of(conn, plan, share.ids), task.work.chunk):
        found |= _find(conn, plan, chunk)
    lost = tuple(id_ for id_ in share.ids if id_ not in found)
    return LookReport(1, len(share.ids), (Share(share.sink, lost),) if lost else ())


def _read_range(conn: Connection, plan: IndexPlan, block_range: BlockRange, chunk: int) -> Iterator[_Part]:
    """Build the documents of a range; where one cannot be built, the rest of them by their keys."""
    seen: set[str] = set()
    try:
        for built in read_range(conn, plan, block_range):
            seen.update(one.id for one in built)
            yield built, []
    except RowUnfit:
        keys = [key for key in read_keys(conn, plan, block_range) if id_text(key) not in seen]
        for at in range(0, len(keys), chunk):
            yield read_isolated(conn, plan, keys[at : at + chunk])


def _gathered(parts: Iterator[_Part]) -> Iterator[_Part]:
    """Take all parts before the first is given on, unless they are too large to keep.

    While a range is read its table is locked, against whoever alters it, and whoever waits for that lock
    holds up all others. A sink may take its time.
    """
    waiting: list[_Part] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += sum(len(one.body) for one in part[0] if one.body is not None)
        if size >= _GATHERED_BYTES:
            yield from waiting
            waiting, size = [], 0
    yield from waiting


def _find(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> set[str]:
    """Give the ids that have a document, or a row of which none can be built."""
    try:
        return find_documents(conn, plan, keys)
    except RowUnfit:
        built, unfit = read_isolated(conn, plan, keys)
        return {one.id for one in built if one.body is not None} | {one.id for one in unfit}


class _Suspects:
    """Ids that do not agree, by sink."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}

    @property
    def count(self) -> int:
        return sum(map(len, self._ids.values()))

    def add(self, task: VerifyTask, built: Sequence[Built], unfit: Sequence[Unfit]) -> None:
        """Compare documents with what each sink holds, and keep what does not seem right."""
        expected = {one.id: one.body for one in built}
        for destination in task.destinations:
            name = destination.sink.name
            wrong = [sight.id for sight in wrong_sights(task, destination, expected)]
            wrong += known_unbuilt(task, destination, [one.id for one in unfit])
            if wrong:
                self._ids.setdefault(name, []).extend(wrong)

    def shares(self) -> tuple[Share, ...]:
        return tuple(Share(sink, tuple(ids)) for sink, ids in self._ids.items())


def state_of(destination: Destination) -> IndexState:
    """Read what a sink remembers of a generation that is verified; another may be in its place by now."""
    target = destination.target
    for state in work.sink(destination.sink).load_states().of(target.index):
        if state.generation == target.generation:
            return state
    raise IndexUnready(
        f'index "{target.index}" in sink "{destination.sink.name}" has a new generation by now',
        hint="run flusso verify again",
    )


def known_unbuilt(task: VerifyTask, destination: Destination, ids: Sequence[str]) -> list[str]:
    """Leave of ids whose documents cannot be built those that a sink should have: all, or what it holds."""
    if not ids or destination.sink.name not in task.partial:
        return list(ids)
    return list(work.sink(destination.sink).read(destination.target, ids))


def wrong_sights(
    task: VerifyTask, destination: Destination, expected: Mapping[str, bytes | None]
) -> Iterator[Sight]:
    """Read what a sink holds in place of these documents, and give those that do not seem right."""
    sink, capabilities = work.sink(destination.sink), destination.sink.capabilities
    held = sink.read(destination.target, list(expected))
    for id_, body in expected.items():
        sight = Sight(id_, body, held.get(id_))
        if sight.held is None and destination.sink.name in task.partial:
            continue
        if seems_right(sight, compares_content=capabilities.keeps_bytes):
            continue
        if body is not None and sight.held is not None:
            sight = replace(sight, mended=sink.mended(destination.target, body))
        if not seems_right(sight):
            yield sight


def keys_of(conn: Connection, plan: IndexPlan, ids: Sequence[str]) -> list[Key]:
    """Give the keys of ids; those of hashed ones are looked for once for all of them."""
    return name_hashed(conn, plan, [key_of(id_, len(plan.key)) for id_ in ids])


def chunks(some: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into pieces of so many."""
    return (some[at : at + size] for at in range(0, len(some), size))
