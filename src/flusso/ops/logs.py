"""Events as lines: a fixed phrase with fields, for logs and for whoever has no terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import assert_never

from flusso.engine.events import (
    BatchWritten,
    CaughtUp,
    DebtAdvanced,
    DebtFound,
    DebtPaid,
    Event,
    Following,
    IdentitySet,
    LookingAgain,
    Noticed,
    ReadersMoved,
    Recovered,
    Refused,
    Repaired,
    Reseeding,
    Retrying,
    SeedAdvanced,
    SeedFinished,
    SeedStarted,
    Skipped,
    Stopped,
    VerifyAdvanced,
    VerifySettled,
    Waiting,
)
from flusso.seeding import Seeding


def describe(event: Event) -> str:
    """Say an event in one line."""
    match event:
        case Waiting(reason):
            return f"waiting: {reason}"
        case Noticed(finding):
            return f"{finding.severity} code={finding.code} {finding}"
        case Reseeding(index, reason):
            return f"reseeding index={index} because: {reason}"
        case ReadersMoved(index, sink, generation):
            return f"readers moved index={index} sink={sink} generation={generation}"
        case IdentitySet(table, sql):
            return f"replica identity set table={table} by: {sql}"
        case Following(slot, lsn):
            return f"following slot={slot} from={lsn}"
        case SeedStarted(index, sinks, seeding):
            return f"seed started index={index} sinks={','.join(sinks)} {describe_seeding(seeding)}"
        case SeedAdvanced(index, sinks, seeding):
            return f"seed advanced index={index} sinks={','.join(sinks)} {describe_seeding(seeding)}"
        case SeedFinished(index, sinks, documents, seconds):
            return (
                f"seed finished index={index} sinks={','.join(sinks)} documents={documents} "
                f"seconds={seconds:.1f}"
            )
        case BatchWritten(changes, written, removed, superseded, refused, seconds, lsn, unchanged):
            return (
                f"batch written changes={changes} written={written} removed={removed} "
                f"superseded={superseded} refused={refused} unchanged={unchanged} "
                f"seconds={seconds:.3f} lsn={lsn}"
            )
        case LookingAgain(reason):
            return f"looking again because: {reason}"
        case DebtFound(index, sink, reason):
            return f"not exact yet index={index} sink={sink} because: {reason}"
        case DebtAdvanced(index, sink, documents, seconds):
            return f"building anew index={index} sink={sink} documents={documents} seconds={seconds:.1f}"
        case DebtPaid(index, sink, documents, seconds):
            return f"exact again index={index} sink={sink} documents={documents} seconds={seconds:.1f}"
        case VerifyAdvanced(index, part, done, total, documents, suspects, seconds):
            rate = documents / seconds if seconds else 0
            return (
                f"verify advanced index={index} part={part} done={done}/{total} documents={documents} "
                f"suspects={suspects} docs_per_s={rate:.0f}"
            )
        case VerifySettled(index, suspects, differences, seconds):
            return (
                f"verify looked again index={index} suspects={suspects} differences={differences} "
                f"seconds={seconds:.1f}"
            )
        case Repaired(index, sink, written, removed):
            return f"repaired index={index} sink={sink} written={written} removed={removed}"
        case Refused(index, id_, sink, reason):
            return f"refused index={index} id={id_} sink={sink} because: {reason}"
        case Skipped(index, id_, sink, reason):
            return f"skipped index={index} id={id_} sink={sink} because: {reason}"
        case Retrying(error, attempt, delay_s, since):
            began = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return f"retrying attempt={attempt} delay_s={delay_s:.1f} since={began} because: {error}"
        case Recovered(attempts, seconds):
            return f"recovered attempts={attempts} seconds={seconds:.1f}"
        case CaughtUp(lsn):
            return f"caught up lsn={lsn}"
        case Stopped(lsn, is_settled):
            behind = ", the slot is behind: the next start writes something once more"
            return f"stopped lsn={lsn}{'' if is_settled else behind}"
    assert_never(event)


def describe_seeding(seeding: Seeding) -> str:
    """Say in fields how far a seed has come, how fast it goes and how long it will take."""
    left = "" if seeding.left_s is None else f" left_s={seeding.left_s:.0f}"
    return (
        f"percent={100 * seeding.share:.0f} documents={seeding.documents} mb={seeding.bytes / 1e6:.1f} "
        f"docs_per_s={seeding.documents_per_s:.0f} mb_per_s={seeding.bytes_per_s / 1e6:.1f}{left}"
    )
