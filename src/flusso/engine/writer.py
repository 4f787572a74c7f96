"""Write built documents to every destination while the next ones are read.

One writer serves one task attempt: all it writes has that attempt's version. The first chunk is held
back until there is a second, so that a small batch is written in the task's own thread at once and only
a long one pays for threads.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from flusso.builder.isolate import Unfit
from flusso.builder.read import Built
from flusso.document import Write, WriteReport, WriteResult
from flusso.engine import work
from flusso.engine.policy import worst
from flusso.engine.quarantine import refuse
from flusso.engine.work import WorkSpec
from flusso.errors import FlussoError
from flusso.lsn import Version
from flusso.sinks.base import Sink, SinkSpec

_SAFE_SHARE = 0.25
_pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="flusso-write")


@dataclass(slots=True)
class Writer:
    """Takes chunks, gives one report for each index.

    A context: when it is left nothing is under way any more, so that sinks can be closed.
    """

    spec: WorkSpec
    version: Version
    bytes: int = 0
    """How much was taken so far."""
    born_s: float = field(default_factory=time.monotonic)
    """When it got its version, or a moment before."""
    _reports: dict[str, WriteReport] = field(default_factory=dict)
    _held: tuple[str, list[Write]] | None = None
    _under_way: deque[tuple[str, Future[list[WriteResult]]]] = field(default_factory=deque)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        rest = [future for _, future in self._under_way if not future.cancel()]
        wait(rest)
        self._under_way.clear()

    def put(self, index: str, built: Sequence[Built]) -> None:
        """Take one chunk; blocks while enough requests are under way."""
        version = int(self.version)
        writes = [Write(item.id, version, item.body, item.tokens) for item in built]
        self._count(index, writes)
        self._defer(index, writes)
        if self._held is not None:
            self._send()
        self._held = (index, writes)

    def refuse(self, index: str, unfit: Sequence[Unfit]) -> None:
        """Take note of documents that cannot be built."""
        self._count(index, [])
        for destination in self.spec.destinations[index] if unfit else ():
            report = self._reports[index]
            refusals = tuple(refuse(destination, unfit, self.version))
            self._reports[index] = replace(report, refusals=report.refusals + refusals)

    def finish(self) -> list[WriteReport]:
        """Wait for all that is under way."""
        if self._held is not None:
            index, writes = self._held
            self._held = None
            self._add(index, _write(self.spec, index, writes, self.born_s))
        while self._under_way:
            self._take_oldest()
        return list(self._reports.values())

    def _send(self) -> None:
        assert self._held is not None
        index, writes = self._held
        while len(self._under_way) >= self.spec.lanes:
            self._take_oldest()
        self._under_way.append((index, _pool.submit(_write, self.spec, index, writes, self.born_s)))

    def _take_oldest(self) -> None:
        index, future = self._under_way.popleft()
        self._add(index, future.result())

    def _count(self, index: str, writes: Sequence[Write]) -> None:
        report = self._reports.get(index) or WriteReport(index, version=self.version)
        size = sum(len(write.body) + len(write.tokens or b"") for write in writes if write.body is not None)
        self._reports[index] = replace(report, bytes=report.bytes + size)
        self.bytes += size

    def _defer(self, index: str, writes: Sequence[Write]) -> None:
        for destination in self.spec.destinations[index]:
            if destination.sink.capabilities.is_driver_side:
                report = self._reports[index]
                named = tuple((destination.sink.name, write) for write in writes)
                self._reports[index] = replace(report, deferred=report.deferred + named)

    def _add(self, index: str, results: Sequence[WriteResult]) -> None:
        for result in results:
            report = self._reports[index]
            self._reports[index] = replace(
                report,
                written=report.written + result.written,
                removed=report.removed + result.removed,
                superseded=report.superseded + result.superseded,
                refusals=report.refusals + result.refusals,
                newest_conflict=max(report.newest_conflict, result.newest_conflict),
                backed_off_s=report.backed_off_s + result.backed_off_s,
            )


def _write(spec: WorkSpec, index: str, writes: Sequence[Write], born_s: float) -> list[WriteResult]:
    """Write one chunk to each destination that executors can reach.

    One that fails keeps nothing from the others; then its failure is raised, and the chunk is written again
    to all of them, which does no harm.
    """
    results: list[WriteResult] = []
    failures: list[FlussoError] = []
    for destination in spec.destinations[index]:
        if destination.sink.capabilities.is_driver_side:
            continue
        try:
            sink, is_fresh = work.sink(destination.sink), destination in spec.refreshes
            until = _deadline(destination.sink, born_s)
            result = sink.write(destination.target, writes, refresh=is_fresh, until=until)
            if (destination.sink.name, destination.target.index) in spec.quarantines:
                _release(sink, destination.target.index, writes, result)
            results.append(result)
        except FlussoError as error:
            failures.append(error)
    failure = worst(failures)
    if failure is not None:
        raise failure
    return results


def _release(sink: Sink, index: str, writes: Sequence[Write], result: WriteResult) -> None:
    """Let those out of the quarantine that the sink has taken now."""
    refused = {refusal.id for refusal in result.refusals}
    taken = [write for write in writes if write.id not in refused]
    if taken:
        sink.release(index, [write.id for write in taken], taken[0].version)


def _deadline(sink: SinkSpec, born_s: float) -> float | None:
    """Say until when a write may be sent: long before the sink forgets a removal that it might undo."""
    forgets_s = sink.capabilities.forgets_removals_s
    return None if forgets_s is None else born_s + forgets_s * _SAFE_SHARE
