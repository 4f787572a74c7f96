"""Refused documents: which of them stop everything, and where the others wait.

`Quarantine` is the driver's: it judges what tasks report, and knows which sinks hold entries, so that tasks
look for some only there. `retry` is a writer of its own, with a version of its own, for the command line: a
running flusso beside it does no harm.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flusso.builder.isolate import Unfit, read_isolated
from flusso.builder.plan import IndexPlan
from flusso.document import UNBUILT, Refusal, Write, key_of
from flusso.engine import work
from flusso.engine.policy import judge_refusals
from flusso.engine.work import Destination
from flusso.lsn import Version
from flusso.postgres.connect import Connection
from flusso.postgres.version import emit_version


@dataclass(slots=True)
class Quarantine:
    """Driver only; may be used from any of its threads."""

    skips: Mapping[str, bool]
    """By index whether a refused document is kept here instead of stopping everything."""
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
        """Keep refused documents durably; raise when the policy of one is to stop."""
        stop = judge_refusals(refusals, self.skips)
        if stop is not None:
            raise stop
        sinks = {destination.sink.name: destination.sink for destination in destinations}
        # Of two generations that refuse a document there is one entry.
        found: dict[str, dict[tuple[str, str], Refusal]] = defaultdict(dict)
        for refusal in refusals:
            found[refusal.sink][refusal.index, refusal.id] = replace(refusal, at=time.time())
        for name, refused in found.items():
            self._holders |= {(name, index) for index, _ in refused}
            work.sink(sinks[name]).quarantine(list(refused.values()))


def refuse(destination: Destination, unfit: Iterable[Unfit], version: Version) -> list[Refusal]:
    """Make refusals of documents that cannot be built."""
    index, sink = destination.target.index, destination.sink.name
    return [Refusal(index, each.id, int(version), sink, f"{UNBUILT}: {each.reason}") for each in unfit]


def retry(
    conn: Connection, plan: IndexPlan, destinations: Sequence[Destination], ids: Sequence[str]
) -> list[Refusal]:
    """Build documents anew and write them to generations of one sink; give those that are refused again."""
    version = emit_version(conn)
    columns = len(plan.key)
    built, unfit = read_isolated(conn, plan, [key_of(id_, columns) for id_ in ids])
    writes = [Write(each.id, int(version), each.body, each.tokens) for each in built]
    refusals: dict[str, Refusal] = {}
    for destination in destinations:
        result = work.sink(destination.sink).write(destination.target, writes, refresh=True)
        found = [*result.refusals, *refuse(destination, unfit, version)]
        refusals |= {each.id: replace(each, at=time.time()) for each in found}
    sink = work.sink(destinations[0].sink)
    sink.quarantine(list(refusals.values()))
    taken = [id_ for id_ in ids if id_ not in refusals]
    sink.release(destinations[0].target.index, taken, int(version))
    return list(refusals.values())
