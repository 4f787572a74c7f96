"""The second look, on executors: settle suspects once whoever follows has passed the position of their build.

`judge` says when a difference is one, `pace` how long whoever follows is waited for. Failures come back as
values, inside reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flusso.builder.isolate import read_isolated
from flusso.capture.slot import read_slot
from flusso.engine import work
from flusso.engine.fingerprint import Reads, take
from flusso.engine.tasks import Batches, by_number
from flusso.engine.verify.judge import Difference, Mark, Sight, judge, mark_of
from flusso.engine.verify.looks import (
    Share,
    VerifyTask,
    chunks,
    keys_of,
    known_unbuilt,
    state_of,
    wrong_sights,
)
from flusso.engine.verify.pace import Follow, Limits, Pace, Stood
from flusso.engine.work import Destination
from flusso.errors import FlussoError
from flusso.postgres.connect import Connection
from flusso.postgres.shapes import read_shapes
from flusso.postgres.version import emit_version

LIMITS = Limits()
_PORTION_BYTES = 32_000_000
"""Of built documents that are kept while whoever follows is waited for."""
_ROUNDS = 6
"""How often a document that is written anew at every look is looked at."""


@dataclass(frozen=True, slots=True)
class SettleReport:
    """What became of suspects."""

    sink: str
    differences: tuple[Difference, ...] = ()
    changing: tuple[str, ...] = ()
    """Written anew at every look, so never proven either way."""
    unproven: tuple[str, ...] = ()
    """They do not agree, and whoever follows has yet to write them, for all that is known."""
    stood: Stood | None = None
    """How whoever follows was waited for in vain."""
    reasons: tuple[str, ...] = ()
    """Why documents were owed that were not waited for."""
    failure: FlussoError | None = None


def look_again(task: VerifyTask, shares: Sequence[Share]) -> Callable[[Batches], Batches]:
    """Settle suspects; the number that comes in says which share."""

    def run(number: int) -> SettleReport:
        try:
            return settle(task, shares[number])
        except FlussoError as error:
            work.forget()
            return SettleReport(shares[number].sink, failure=error)

    return by_number(task.work, run)


def settle(task: VerifyTask, share: Share) -> SettleReport:
    """Look at suspects until each is proven right or wrong, or cannot be told."""
    destination = task.destination(share.sink)
    follow = _follow(task, destination)
    waiting: list[str] = list(dict.fromkeys(share.ids))
    before = _marks(task, destination, waiting)
    differences: list[Difference] = []
    unproven: list[str] = []
    for _ in range(_ROUNDS):
        undecided: dict[str, Mark] = {}
        for sight, pace in _proofs(task, destination, waiting, follow):
            found = judge(sight, before.get(sight.id))
            if not pace.proves and not sight.is_unbuilt:
                unproven.append(sight.id)
            elif found is None:
                undecided[sight.id] = mark_of(sight.held)
            else:
                differences.append(found)
        waiting, before = list(undecided), undecided
        if not waiting:
            break
    return SettleReport(
        share.sink, tuple(differences), tuple(waiting), tuple(unproven), follow.met, tuple(follow.reasons)
    )


def _follow(task: VerifyTask, destination: Destination) -> Follow:
    """Give what waits for whoever writes the generation, through whichever slot that is."""
    slot = state_of(destination).slot
    reads = task.reads
    return Follow(
        lambda: read_slot(work.connection(task.work.dsn), slot),
        lambda: state_of(destination),
        None if reads is None else lambda: _catalog(work.connection(task.work.dsn), reads),
        LIMITS,
        task.stood.get(destination.sink.name),
    )


def _catalog(conn: Connection, reads: Reads) -> str:
    return take(reads, read_shapes(conn, reads.columns))


def _marks(task: VerifyTask, destination: Destination, ids: Sequence[str]) -> dict[str, Mark]:
    """Read what the sink holds now; what is absent has no mark, for nobody was waited for."""
    sink = work.sink(destination.sink)
    read = (sink.read(destination.target, chunk) for chunk in chunks(ids, task.work.chunk))
    return {id_: mark_of(held) for found in read for id_, held in found.items()}


def _proofs(
    task: VerifyTask, destination: Destination, ids: Sequence[str], follow: Follow
) -> Iterator[tuple[Sight, Pace]]:
    """Build, wait until all that was seen is written, read; give what is wrong then, and how that went.

    In portions that fit into memory.
    """
    rest = list(ids)
    while rest:
        expected, unfit = _build_portion(task, rest)
        rest = rest[len(expected) + len(unfit) :]
        pace = follow.wait(emit_version(work.connection(task.work.dsn)).lsn)
        for id_ in known_unbuilt(task, destination, sorted(unfit)):
            yield Sight(id_, None, None, is_unbuilt=True), pace
        for sight in wrong_sights(task, destination, expected):
            yield sight, pace


def _build_portion(task: VerifyTask, ids: Sequence[str]) -> tuple[dict[str, bytes | None], set[str]]:
    """Build documents until they are as many bytes as may be kept; those of the first ids.

    Gives also the ids of those that cannot be built.
    """
    conn, _ = work.reader(task.work)
    plan = task.work.plans[task.index]
    expected: dict[str, bytes | None] = {}
    unbuilt: set[str] = set()
    size = 0
    keys = dict(zip(ids, keys_of(conn, plan, ids), strict=True))
    for chunk in chunks(ids, task.work.chunk):
        found, unfit = read_isolated(conn, plan, [keys[id_] for id_ in chunk])
        built = {one.id: one.body for one in found}
        unbuilt |= {one.id for one in unfit}
        expected |= {id_: built.get(id_) for id_ in chunk if id_ not in unbuilt}
        size += sum(len(body) for body in built.values() if body is not None)
        if size >= _PORTION_BYTES:
            break
    return expected, unbuilt
