"""Write built documents to every destination while the next ones are read.

One writer serves one task attempt: all it writes has that attempt's version. The last chunk is held
back until there is another, so that a small batch is written in the task's own thread at once and only
a long one, or one for several sinks, pays for threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from flusso.builder.isolate import Unfit
from flusso.builder.read import Built
from flusso.document import Write, WriteReport, WriteResult
from flusso.engine import work
from flusso.engine.policy import worst
from flusso.engine.quarantine import refuse
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import FlussoError
from flusso.lsn import Version
from flusso.sinks.base import Sink

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
    _under_way: list[tuple[str, list[Future[WriteResult]]]] = field(default_factory=list)
    """By chunk, one for each sink."""
    _refreshes: list[Future[None]] = field(default_factory=list)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        wait([future for _, futures in self._under_way for future in futures if not future.cancel()])
        wait(self._refreshes)
        self._under_way.clear()

    def put(self, index: str, built: Sequence[Built]) -> None:
        """Take one chunk; blocks while enough requests are under way."""
        version = int(self.version)
        writes = [Write(id_, version, body, tokens) for id_, body, tokens in built]
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

    def refresh(self, index: str) -> None:
        """Let what is written become searchable while more is written. Whether it does matters to nobody."""
        self._refreshes += [_pool.submit(_refresh, each) for each in self._destinations(index)]

    def finish(self) -> list[WriteReport]:
        """Wait for all that is under way."""
        if self._held is not None:
            index, writes = self._held
            self._held = None
            self._add(index, self._write_here(index, writes))
        while self._under_way:
            self._take_done()
        return list(self._reports.values())

    def _send(self) -> None:
        assert self._held is not None
        index, writes = self._held
        while len(self._under_way) >= self._lanes:
            self._take_done()
        self._under_way.append((index, self._start(self._destinations(index), writes)))

    @property
    def _lanes(self) -> int:
        """How many requests may be under way. One less while what is written is refreshed: a search server
        lets a thread for writes help with that, and what the stream writes would wait behind the others."""
        is_refreshing = not all(each.done() for each in self._refreshes)
        return max(1, self.spec.lanes - is_refreshing)

    def _take_done(self) -> None:
        """Wait for a chunk that is through, whichever it is: a search server that writes a segment out keeps
        one request for seconds, and takes others meanwhile."""
        while not (done := [each for each in self._under_way if all(part.done() for part in each[1])]):
            open_ = [part for _, futures in self._under_way for part in futures if not part.done()]
            wait(open_, return_when=FIRST_COMPLETED)
        index, futures = done[0]
        self._under_way.remove(done[0])
        self._add(index, _results([future.result for future in futures]))

    def _write_here(self, index: str, writes: Sequence[Write]) -> list[WriteResult]:
        """Write to one destination in this thread, and to any others meanwhile."""
        destinations = self._destinations(index)
        futures = self._start(destinations[1:], writes)
        self._under_way.append((index, futures))  # so that they are waited for, whatever happens here
        here = [partial(_write, self.spec, each, writes, self.born_s) for each in destinations[:1]]
        results = _results([*here, *(future.result for future in futures)])
        self._under_way.pop()
        return results

    def _start(
        self, destinations: Iterable[Destination], writes: Sequence[Write]
    ) -> list[Future[WriteResult]]:
        return [_pool.submit(_write, self.spec, each, writes, self.born_s) for each in destinations]

    def _destinations(self, index: str) -> list[Destination]:
        """List those that executors can reach."""
        return [each for each in self.spec.destinations[index] if not each.sink.capabilities.is_driver_side]

    def _count(self, index: str, writes: Sequence[Write]) -> None:
        report = self._reports.get(index) or WriteReport(index, version=self.version)
        sizes = [len(write.body) + len(write.tokens or b"") for write in writes if write.body is not None]
        size = sum(sizes)
        self._reports[index] = replace(
            report, documents=report.documents + len(sizes), bytes=report.bytes + size
        )
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


def _results(writings: Iterable[Callable[[], WriteResult]]) -> list[WriteResult]:
    """Wait for a chunk in each of its sinks.

    One that fails keeps nothing from the others; then its failure is raised, and the chunk is written again
    to all of them, which does no harm.
    """
    results: list[WriteResult] = []
    failures: list[FlussoError] = []
    for writing in writings:
        try:
            results.append(writing())
        except FlussoError as error:
            failures.append(error)
    failure = worst(failures)
    if failure is not None:
        raise failure
    return results


def _write(spec: WorkSpec, destination: Destination, writes: Sequence[Write], born_s: float) -> WriteResult:
    """Write one chunk to one destination."""
    sink, is_fresh = work.sink_of(destination), destination in spec.refreshes
    until = work.deadline(destination.sink, born_s)
    result = sink.write(destination.target, writes, refresh=is_fresh, until=until)
    if (destination.sink.name, destination.target.index) in spec.quarantines:
        _release(sink, destination.target.index, writes, result)
    return result


def _refresh(destination: Destination) -> None:
    with suppress(FlussoError):
        work.sink_of(destination).refresh(destination.target)


def _release(sink: Sink, index: str, writes: Sequence[Write], result: WriteResult) -> None:
    """Let those out of the quarantine that the sink has taken now."""
    refused = {refusal.id for refusal in result.refusals}
    taken = [write for write in writes if write.id not in refused]
    if taken:
        sink.release(index, [write.id for write in taken], taken[0].version)
