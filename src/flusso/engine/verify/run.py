"""Verify a deployment's indexes, one after the other. What the command line calls."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flusso.engine import work
from flusso.engine.events import Listener
from flusso.engine.frames import REPORT_TYPE
from flusso.engine.limits import limit_tasks
from flusso.engine.retry import collect
from flusso.engine.session import Session, open_session
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.verify.facts import Uncompared, Verification, Verified
from flusso.engine.verify.looks import VerifyTask, state_of
from flusso.engine.verify.prepare import Prepared, prepare_verify
from flusso.engine.verify.verifier import IndexVerifier, Interrupted, Task
from flusso.engine.work import Destination
from flusso.errors import EngineError, FlussoError, SinkError, SourceUnavailable


@dataclass(frozen=True, slots=True)
class Place:
    """Where tasks run."""

    run: Callable[[Task, int], list[Any]]
    """Runs a task so many times side by side, each with its number, and gathers what they report."""
    parallelism: int
    keeps_connections: bool = True


def run_verify(
    spec: PipelineSpec,
    tell: Listener,
    stop: threading.Event,
    *,
    names: Collection[str] = (),
    sample: int | None = None,
    repairs: bool = False,
    session: Session | None = None,
) -> Verification:
    """Compare the named indexes, all of them without names, with their tables, and repair them if asked to.

    Raises what concerns all of them. A difference is a result, and so is what keeps one from being compared.
    """
    prepared = prepare_verify(spec, names)
    if not prepared.spec.indexes:
        return Verification((), prepared.unreadable, uncompared=prepared.uncompared)
    own = session is None
    session = session or open_session(spec.spark)
    try:
        return verify_all(
            prepared, place_in(session, spec.spark.max_tasks), tell, stop, sample=sample, repairs=repairs
        )
    finally:
        if own:
            work.forget()
            session.close()


def place_in(session: Session, max_tasks: int) -> Place:
    """Give the place that a Spark session is."""
    spark = session.spark

    def run(task: Task, count: int) -> list[Any]:
        return collect(spark.range(count, numPartitions=count).mapInArrow(task, REPORT_TYPE))

    keeps = limit_tasks(session.slots, max_tasks).keeps_connections
    return Place(run, max(1, min(session.slots, max_tasks)), keeps)


def verify_all(
    prepared: Prepared,
    place: Place,
    tell: Listener,
    stop: threading.Event,
    *,
    sample: int | None = None,
    repairs: bool = False,
) -> Verification:
    """Verify what was prepared, one index after the other; one that fails hinders no other."""
    found: list[Verified] = []
    uncompared, is_whole = list(prepared.uncompared), True
    for index in prepared.spec.indexes:
        is_wary = any(one.error.retryable for one in uncompared)
        there, lost = _still_there(prepared.work.destinations[index.name], is_wary=is_wary)
        uncompared += lost
        failed = [one.error for one in uncompared if isinstance(one.error, SourceUnavailable | EngineError)]
        if failed:  # nobody else would fare better
            uncompared += (Uncompared(index.name, each.sink.name, failed[0]) for each in there)
            continue
        if not there:
            continue
        began_s = time.monotonic()
        verifier = _verifier(prepared, index, there, place, tell, stop, repairs)
        error: FlussoError | None = None
        try:
            verifier.verify() if sample is None else verifier.verify_sample(sample)
        except Interrupted:
            is_whole = False
        except FlussoError as failure:
            error = failure
            uncompared += (Uncompared(index.name, each.sink.name, failure) for each in there)
        seconds = time.monotonic() - began_s
        facts = (_facts(destination, verifier, sample, seconds) for destination in there)
        found += (replace(one, is_whole=is_whole and error is None) for one in facts)
        if not is_whole:
            break
    return Verification(tuple(found), prepared.unreadable, prepared.blind, is_whole, tuple(uncompared))


def _still_there(
    destinations: Sequence[Destination], *, is_wary: bool
) -> tuple[list[Destination], list[Uncompared]]:
    """Leave out generations that readers have left meanwhile and, once something failed, sinks that are away.

    Before that a sink that is away is waited for, as anywhere else.
    """
    there: list[Destination] = []
    lost: list[Uncompared] = []
    for destination in destinations:
        try:
            state_of(destination)
        except SinkError as error:
            if is_wary or not error.retryable:
                lost.append(Uncompared(destination.target.index, destination.sink.name, error))
                continue
        there.append(destination)
    return there, lost


def _verifier(
    prepared: Prepared,
    index: IndexSpec,
    destinations: Sequence[Destination],
    place: Place,
    tell: Listener,
    stop: threading.Event,
    repairs: bool,
) -> IndexVerifier:
    spec = prepared.spec
    tasks = replace(
        prepared.work,
        keeps_connections=place.keeps_connections,
        destinations={index.name: tuple(destinations)},
    )
    return IndexVerifier(
        place.run,
        VerifyTask(tasks, index.name, index.not_backfilled, prepared.reads[index.name]),
        place.parallelism,
        spec.batch.seed_range_mb,
        repairs,
        spec.skips,
        spec.patience,
        tell,
        stop,
    )


def _facts(destination: Destination, verifier: IndexVerifier, sample: int | None, seconds: float) -> Verified:
    index, name = destination.target.index, destination.sink.name
    tally = verifier.tallies[name]
    return Verified(
        index,
        name,
        verifier.documents,
        tally.held,
        is_sample=sample is not None,
        compares_content=destination.sink.capabilities.keeps_bytes,
        counts=dict(tally.counts),
        differences=tuple(tally.differences),
        repaired=dict(tally.repaired),
        mended=tuple(tally.mended),
        quarantined=frozenset(tally.shown_quarantined),
        refused=tally.refused,
        refusals=tuple(tally.refusals),
        changing=tally.changing,
        unproven=tally.unproven,
        pace=tally.pace,
        not_exact=tuple(tally.reasons | _reasons(destination)),
        seconds=seconds,
    )


def _reasons(destination: Destination) -> dict[str, None]:
    """Say why documents are owed; nothing when the sink is away or readers have left the generation."""
    with contextlib.suppress(SinkError):
        return dict.fromkeys(reason for debt in state_of(destination).debts for reason in debt.reasons)
    return {}
