"""What runs on executors while an index is verified: build, read what the sink holds, compare.

The first look only gathers suspects: it waits for nobody, so what it takes for a difference may be a change
on its way. `look_again` settles those (see `judge`). Failures come back as values, inside reports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flusso.builder.isolate import Unfit, read_isolated
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import BlockRange, read_keys, read_range
from flusso.builder.read import Built, find_documents
from flusso.capture.slot import read_slot
from flusso.document import Key, key_of
from flusso.engine import work
from flusso.engine.tasks import Batches, by_number
from flusso.engine.verify.judge import Difference, Mark, Sight, judge, mark_of, seems_right
from flusso.engine.verify.pace import Follow, Pace
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import FlussoError, IndexUnready, RowUnfit
from flusso.postgres.connect import Connection
from flusso.postgres.version import emit_version
from flusso.sinks.base import IndexState

_MOST_SUSPECTS = 20_000
"""Of one turn: an index that is all wrong is told in pieces."""
_PORTION_BYTES = 32_000_000
"""Of built documents that are kept while whoever follows is waited for."""
ABSENT_S = 5.0
"""How long nobody may read the slot: between two queries a reader is gone for a moment."""
_ROUNDS = 6
"""How often a document that is written anew at every look is looked at."""


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """All that a task needs to look at one index."""

    work: WorkSpec
    """Its destinations are those that can be read."""
    index: str
    slot: str
    partial: frozenset[str] = frozenset()
    """Sinks that take only what changes: rows that they never saw are not missing."""
    pace: Pace = Pace.FOLLOWED
    """What is known of whoever follows: for nobody, and for one that is stuck, no task waits again."""

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


@dataclass(frozen=True, slots=True)
class SettleReport:
    """What became of suspects."""

    sink: str
    differences: tuple[Difference, ...] = ()
    changing: tuple[str, ...] = ()
    """Written anew at every look, so never proven either way."""
    pace: Pace = Pace.FOLLOWED
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


def look_again(task: VerifyTask, shares: Sequence[Share]) -> Callable[[Batches], Batches]:
    """Settle suspects, after whoever follows has passed the position at which they were built."""

    def run(number: int) -> SettleReport:
        try:
            return settle(task, shares[number])
        except FlussoError as error:
            work.forget()
            return SettleReport(shares[number].sink, failure=error)

    return by_number(task.work, run)


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
        for built, unfit in _read_range(conn, plan, block_range, task.work.chunk):
            documents += len(built) + len(unfit)
            suspects.add(task, built, unfit)
        done += 1
        if time.monotonic() - began_s >= turn_s or suspects.count >= _MOST_SUSPECTS:
            break
    return LookReport(done, documents, suspects.shares())


def _look_at_rows(task: VerifyTask, ids: Sequence[str]) -> LookReport:
    conn, _ = work.reader(task.work)
    plan = task.work.plans[task.index]
    suspects = _Suspects()
    for chunk in _chunks(ids, task.work.chunk):
        suspects.add(task, *read_isolated(conn, plan, [key_of(id_, len(plan.key)) for id_ in chunk]))
    return LookReport(1, len(ids), suspects.shares())


def _look_at_held(task: VerifyTask, share: Share) -> LookReport:
    conn, _ = work.reader(task.work)
    plan = task.work.plans[task.index]
    found: set[str] = set()
    for chunk in _chunks(share.ids, task.work.chunk):
        found |= _find(conn, plan, [key_of(id_, len(plan.key)) for id_ in chunk])
    lost = tuple(id_ for id_ in share.ids if id_ not in found)
    return LookReport(1, len(share.ids), (Share(share.sink, lost),) if lost else ())


def _read_range(
    conn: Connection, plan: IndexPlan, block_range: BlockRange, chunk: int
) -> Iterator[tuple[list[Built], list[Unfit]]]:
    """Build the documents of a range; where one cannot be built, all of them once more, by their keys."""
    try:
        for built in read_range(conn, plan, block_range):
            yield built, []
    except RowUnfit:
        keys = read_keys(conn, plan, block_range)
        for at in range(0, len(keys), chunk):
            yield read_isolated(conn, plan, keys[at : at + chunk])


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
            wrong = [sight.id for sight in _wrong_sights(task, destination, expected)]
            wrong += (one.id for one in unfit)
            if wrong:
                self._ids.setdefault(name, []).extend(wrong)

    def shares(self) -> tuple[Share, ...]:
        return tuple(Share(sink, tuple(ids)) for sink, ids in self._ids.items())


def settle(task: VerifyTask, share: Share) -> SettleReport:
    """Look at suspects until each is proven right or wrong, or was written anew too often to tell."""
    destination = task.destination(share.sink)
    follow = Follow(
        lambda: read_slot(work.connection(task.work.dsn), task.slot),
        lambda: state_of(destination).witness,
        absent_s=ABSENT_S,
        pace=task.pace,
    )
    waiting: list[str] = list(dict.fromkeys(share.ids))
    before = _marks(task, destination, waiting)
    differences: list[Difference] = []
    for _ in range(_ROUNDS):
        undecided: dict[str, Mark] = {}
        for sight in _proofs(task, destination, waiting, follow):
            found = judge(sight, before.get(sight.id))
            if found is None:
                undecided[sight.id] = mark_of(sight.held)
            else:
                differences.append(found)
        waiting, before = list(undecided), undecided
        if not waiting:
            break
    return SettleReport(share.sink, tuple(differences), tuple(waiting), follow.pace)


def _marks(task: VerifyTask, destination: Destination, ids: Sequence[str]) -> dict[str, Mark]:
    """Read what the sink holds now; what is absent has no mark, for nobody was waited for."""
    sink = work.sink(destination.sink)
    chunks = (sink.read(destination.target, chunk) for chunk in _chunks(ids, task.work.chunk))
    return {id_: mark_of(held) for found in chunks for id_, held in found.items()}


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


def _proofs(
    task: VerifyTask, destination: Destination, ids: Sequence[str], follow: Follow
) -> Iterator[Sight]:
    """Build, wait until all that was seen is written, read; give what is wrong then.

    In portions that fit into memory.
    """
    rest = list(ids)
    while rest:
        expected, unfit = _build_portion(task, rest)
        rest = rest[len(expected) + len(unfit) :]
        yield from (Sight(id_, None, None, is_unbuilt=True) for id_ in unfit)
        follow.wait(emit_version(work.connection(task.work.dsn)).lsn)
        yield from _wrong_sights(task, destination, expected)


def _build_portion(task: VerifyTask, ids: Sequence[str]) -> tuple[dict[str, bytes | None], set[str]]:
    """Build documents until they are as many bytes as may be kept; those of the first ids.

    Gives also the ids of those that cannot be built.
    """
    conn, _ = work.reader(task.work)
    plan = task.work.plans[task.index]
    expected: dict[str, bytes | None] = {}
    unbuilt: set[str] = set()
    size = 0
    for chunk in _chunks(ids, task.work.chunk):
        found, unfit = read_isolated(conn, plan, [key_of(id_, len(plan.key)) for id_ in chunk])
        built = {one.id: one.body for one in found}
        unbuilt |= {one.id for one in unfit}
        expected |= {id_: built.get(id_) for id_ in chunk if id_ not in unbuilt}
        size += sum(len(body) for body in built.values() if body is not None)
        if size >= _PORTION_BYTES:
            break
    return expected, unbuilt


def _wrong_sights(
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


def _chunks(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (ids[at : at + size] for at in range(0, len(ids), size))
