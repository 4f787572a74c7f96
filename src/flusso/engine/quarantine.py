"""Refused documents: which of them stop everything, and where the others wait.

`Quarantine` is the driver's: it judges what tasks report, and knows which sinks hold entries, so that tasks
look for some only there. `retry` is a writer of its own, with versions of its own, for the command line: a
running flusso beside it does no harm.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flusso.builder.isolate import Unfit, read_isolated
from flusso.builder.plan import IndexPlan
from flusso.builder.read import Built
from flusso.document import UNBUILT, Refusal, Write, key_of
from flusso.engine import work
from flusso.engine.events import Listener, Refused, Skipped
from flusso.engine.policy import find_stopping, stopped_by
from flusso.engine.work import Destination
from flusso.lsn import Version
from flusso.postgres.connect import Connection
from flusso.postgres.version import emit_version


@dataclass(slots=True)
class Quarantine:
    """Driver only; may be used from any of its threads."""

    skips: Mapping[str, bool]
    """By index whether a refused document is kept here instead of stopping everything."""
    tell: Listener = lambda _: None
    _holders: set[tuple[str, str]] = field(default_factory=set)

    def look(self, destinations: Iterable[Destination]) -> None:
        """Find out which sinks hold entries of which indexes."""
        for destination in destinations:
            index = destination.target.index
            if work.sink(destination.sink).quarantined(index):
                self._holders.add((destination.sink.name, index))

    @property
    def holders(self) -> frozenset[tuple[str, str]]:
        """Sinks and indexes with entries, for tasks."""
        return frozenset(self._holders)

    def settle(self, refusals: Sequence[Refusal], destinations: Iterable[Destination]) -> None:
        """Keep refused documents durably; tell all of them and raise when the policy of one is to stop."""
        stopping = find_stopping(refusals, self.skips)
        if stopping:
            for refusal in stopping:
                self.tell(Refused(refusal.index, refusal.id, refusal.sink, refusal.reason))
            raise stopped_by(stopping)
        places: dict[tuple[str, str], list[Destination]] = {}
        for destination in destinations if refusals else ():
            place = (destination.sink.name, destination.target.index)
            places.setdefault(place, []).append(destination)
        # Of two generations that refuse a document there is one entry.
        found: dict[tuple[str, str], dict[str, Refusal]] = defaultdict(dict)
        for refusal in refusals:
            found[refusal.sink, refusal.index][refusal.id] = replace(refusal, at=time.time())
        for place, refused in found.items():
            self._keep(places[place], refused)

    def _keep(self, destinations: Sequence[Destination], refused: Mapping[str, Refusal]) -> None:
        """Keep the refused documents of an index in one sink; tell them where nothing is kept."""
        sink = destinations[0].sink
        kept = _without_superseded(destinations, refused)
        if not sink.capabilities.keeps_state:
            for refusal in kept:
                self.tell(Skipped(refusal.index, refusal.id, refusal.sink, refusal.reason))
        elif kept:
            self._holders.add((sink.name, destinations[0].target.index))
            work.sink(sink).quarantine(kept)


def _without_superseded(destinations: Sequence[Destination], refused: Mapping[str, Refusal]) -> list[Refusal]:
    """Leave out documents of which every generation has a newer version: the report came late."""
    held = [work.sink(each.sink).read(each.target, list(refused)) for each in destinations]
    return [
        refusal
        for id_, refusal in refused.items()
        if not all(id_ in known and known[id_].version > refusal.version for known in held)
    ]


def refuse(destination: Destination, unfit: Iterable[Unfit], version: Version) -> list[Refusal]:
    """Make refusals of documents that cannot be built."""
    index, sink = destination.target.index, destination.sink.name
    return [Refusal(index, each.id, int(version), sink, f"{UNBUILT}: {each.reason}") for each in unfit]


def retry(
    conn: Connection, plan: IndexPlan, destinations: Sequence[Destination], ids: Sequence[str]
) -> list[Refusal]:
    """Build documents anew and write them to generations of one sink; give those that are refused again.

    A batch of a running flusso may have looked a row up before its document was written here, and in vain. So
    what was written is built once more, and written again while it differs: by then the batch's row is gone.
    """
    sink, index = work.sink(destinations[0].sink), destinations[0].target.index
    refusals: dict[str, Refusal] = {}
    written: dict[str, Built] = {}
    keys = [key_of(id_, len(plan.key)) for id_ in ids]
    while keys:
        began_s = time.monotonic()
        version = emit_version(conn)
        built, unfit = read_isolated(conn, plan, keys)
        new = {each.id: each for each in built if written.get(each.id) != each}
        refused: dict[str, Refusal] = {}
        for destination in destinations:
            found = [*_rewrite(destination, new.values(), version, began_s)]
            found += refuse(destination, unfit, version)
            refused |= {each.id: replace(each, at=time.time()) for each in found}
        sink.quarantine(list(refused.values()))
        sink.release(index, [id_ for id_ in new if id_ not in refused], int(version))
        refusals = {id_: each for id_, each in refusals.items() if id_ not in new} | refused
        written |= new
        keys = [key_of(id_, len(plan.key)) for id_ in new]
    return list(refusals.values())


def _rewrite(
    destination: Destination, built: Iterable[Built], version: Version, began_s: float
) -> Sequence[Refusal]:
    """Write documents to one generation.

    In one that is being filled removals leave marks, and who fills it takes them out before readers see it:
    none may come after that. The removal itself is a change, and the stream writes it.
    """
    is_filled = destination.target.keeps_removals
    writes = [
        Write(each.id, int(version), each.body, each.tokens)
        for each in built
        if each.body is not None or not is_filled
    ]
    until = work.deadline(destination.sink, began_s)
    return work.sink(destination.sink).write(destination.target, writes, refresh=True, until=until).refusals
