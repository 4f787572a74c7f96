"""Events as lines: a fixed phrase with fields, for logs and for whoever has no terminal."""

from __future__ import annotations

from typing import assert_never

from flusso.engine.events import (
    BatchWritten,
    CaughtUp,
    Event,
    Following,
    Noticed,
    Retrying,
    SeedAdvanced,
    SeedFinished,
    SeedStarted,
    Stopped,
    Waiting,
)


def describe(event: Event) -> str:
    """Say an event in one line."""
    match event:
        case Waiting(reason):
            return f"waiting: {reason}"
        case Noticed(finding):
            return f"{finding.severity} code={finding.code} {finding}"
        case Following(slot, lsn):
            return f"following slot={slot} from={lsn}"
        case SeedStarted(index, ranges):
            return f"seed started index={index} ranges={ranges}"
        case SeedAdvanced(index, done, ranges, documents, size, seconds):
            rate = documents / seconds if seconds else 0
            return (
                f"seed advanced index={index} ranges={done}/{ranges} documents={documents} "
                f"mb={size / 1e6:.1f} docs_per_s={rate:.0f}"
            )
        case SeedFinished(index, documents, seconds):
            return f"seed finished index={index} documents={documents} seconds={seconds:.1f}"
        case BatchWritten(changes, written, removed, superseded, refused, seconds, lsn):
            return (
                f"batch written changes={changes} written={written} removed={removed} "
                f"superseded={superseded} refused={refused} seconds={seconds:.3f} lsn={lsn}"
            )
        case Retrying(error, attempt, delay_s):
            return f"retrying attempt={attempt} delay_s={delay_s:.1f} because: {error}"
        case CaughtUp(lsn):
            return f"caught up lsn={lsn}"
        case Stopped(lsn):
            return f"stopped lsn={lsn}"
    assert_never(event)
