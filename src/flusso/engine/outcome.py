"""What the driver does with the reports of tasks, whether a batch's or a seed range's.

In this order: failures are raised, deferred writes made, refusals judged and quarantined, and versions
compared with the database's own clock, the WAL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flusso.debt import Owed
from flusso.document import Write, WriteReport, WriteResult
from flusso.engine import work
from flusso.engine.continuity import check_clock
from flusso.engine.policy import first_failure
from flusso.engine.quarantine import Quarantine
from flusso.engine.work import WorkSpec
from flusso.lsn import Version


@dataclass(frozen=True, slots=True)
class Totals:
    """Reports added up."""

    documents: int = 0
    """How many were built; each sink that took one has it among the written or superseded."""
    written: int = 0
    removed: int = 0
    superseded: int = 0
    refused: int = 0
    bytes: int = 0
    highest_version: int = 0
    owed: tuple[Owed, ...] = ()
    """Indexes of which documents must be built anew: which ones, and why."""
    backed_off_s: float = 0.0
    """How long tasks waited, all together, because a sink could not keep up."""


def settle_reports(
    reports: Sequence[WriteReport],
    spec: WorkSpec,
    quarantine: Quarantine,
    emit: Callable[[], Version],
) -> Totals:
    """Act on reports; on return all they speak of is durable, quarantined by policy, or superseded."""
    failure = first_failure(reports)
    if failure is not None:
        raise failure
    refusals = [refusal for report in reports for refusal in report.refusals]
    deferred = _write_deferred(reports, spec)
    refusals += [refusal for result in deferred for refusal in result.refusals]
    quarantine.settle(refusals, (each for found in spec.destinations.values() for each in found))
    newest = max((report.newest_conflict for report in reports), default=0)
    if newest and newest > max(report.version for report in reports):
        check_clock(newest, emit())
    results: list[WriteReport | WriteResult] = [*reports, *deferred]
    return Totals(
        documents=sum(report.documents for report in reports),
        written=sum(result.written for result in results),
        removed=sum(result.removed for result in results),
        superseded=sum(report.superseded for report in reports),
        refused=len(refusals),
        bytes=sum(report.bytes for report in reports),
        highest_version=max((report.version for report in reports), default=0),
        owed=tuple(dict.fromkeys(report.owes for report in reports if report.owes)),
        backed_off_s=sum(report.backed_off_s for report in reports),
    )


def _write_deferred(reports: Sequence[WriteReport], spec: WorkSpec) -> list[WriteResult]:
    """Write what executors handed back for sinks that live beside the driver."""
    results: list[WriteResult] = []
    for report in reports:
        by_sink: dict[str, list[Write]] = defaultdict(list)
        for sink, write in report.deferred:
            by_sink[sink].append(write)
        for destination in spec.destinations.get(report.index, ()):
            writes = by_sink.get(destination.sink.name)
            if writes:
                results.append(work.sink(destination.sink).write(destination.target, writes, refresh=True))
    return results
