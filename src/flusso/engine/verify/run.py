"""Verify a deployment's indexes, one after the other. What the command line calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from flusso.debt import Debt
from flusso.engine import work
from flusso.engine.events import Listener
from flusso.engine.frames import REPORT_TYPE
from flusso.engine.limits import limit_tasks
from flusso.engine.retry import collect
from flusso.engine.session import Session, open_session
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.verify.facts import Verification, Verified
from flusso.engine.verify.looks import VerifyTask, state_of
from flusso.engine.verify.prepare import Prepared, prepare_verify
from flusso.engine.verify.verifier import IndexVerifier, Interrupted, Task
from flusso.engine.work import Destination


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

    Raises what keeps an index from being compared; a difference is a result, not an error.
    """
    prepared = prepare_verify(spec, names)
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
    """Verify what was prepared, one index after the other."""
    found: list[Verified] = []
    is_whole = True
    try:
        for index in prepared.spec.indexes:
            began_s = time.monotonic()
            verifier = _verifier(prepared, index, place, tell, stop, repairs)
            verifier.verify() if sample is None else verifier.verify_sample(sample)
            seconds = time.monotonic() - began_s
            found += (
                _facts(prepared, destination, verifier, sample, seconds)
                for destination in verifier.task.destinations
            )
    except Interrupted:
        is_whole = False
    return Verification(tuple(found), prepared.unreadable, prepared.blind, is_whole)


def _verifier(
    prepared: Prepared,
    index: IndexSpec,
    place: Place,
    tell: Listener,
    stop: threading.Event,
    repairs: bool,
) -> IndexVerifier:
    spec = prepared.spec
    tasks = replace(prepared.work, keeps_connections=place.keeps_connections)
    return IndexVerifier(
        place.run,
        VerifyTask(tasks, index.name, spec.slot, index.not_backfilled),
        place.parallelism,
        spec.batch.seed_range_mb,
        repairs,
        spec.skips,
        spec.patience,
        tell,
        stop,
    )


def _facts(
    prepared: Prepared, destination: Destination, verifier: IndexVerifier, sample: int | None, seconds: float
) -> Verified:
    index, name = destination.target.index, destination.sink.name
    tally = verifier.tallies[name]
    wrong = {one.id for one in tally.differences}
    refused = work.sink(destination.sink).quarantined(index) if wrong else ()
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
        quarantined=frozenset(refusal.id for refusal in refused if refusal.id in wrong),
        changing=tally.changing,
        pace=tally.pace,
        not_exact=_reasons((*prepared.states[index, name].debts, *state_of(destination).debts)),
        seconds=seconds,
    )


def _reasons(debts: Collection[Debt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for debt in debts for reason in debt.reasons))
