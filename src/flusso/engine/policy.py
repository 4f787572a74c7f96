"""The one place that turns errors and refusals into retry, skip or stop. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flusso.document import UNBUILT, Refusal, WriteReport
from flusso.errors import (
    BuildError,
    CatalogOutdated,
    CoverageGap,
    DocumentRefused,
    EngineError,
    FlussoError,
    GenerationGone,
    IndexLeftBehind,
    IndexRequested,
    PublicationYounger,
    SlotAdvanced,
    SlotInvalidated,
    SlotLost,
    SourceCrashed,
    SourceError,
    SourceRefused,
    SourceReplaced,
    SourceWentBack,
    TimelineBehind,
    TimelineChanged,
)

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long something that may heal is tried again, without any progress in between."""

    source_s: float | None = 600.0
    """How long Postgres may be away; None: for ever."""
    sink_s: float | None = 3600.0
    """How long a sink may be away: longer, since nothing is lost while the slot waits; None: for ever."""
    losses: int = 10
    """How many times in a row a process may be lost: one that always dies does not heal."""
    first_delay_s: float = 0.2
    longest_delay_s: float = 5.0

    def delay_s(self, attempt: int) -> float:
        """How long to wait before trying again after the attempt of this number, from 1."""
        return float(min(self.longest_delay_s, self.first_delay_s * 2 ** min(attempt - 1, 30)))

    def is_exhausted(self, error: FlussoError, attempt: int, lasted_s: float) -> bool:
        """Whether the attempt of this number, so long after the first failure, was the last."""
        if isinstance(error, EngineError):
            return attempt >= self.losses
        limit_s = self.source_s if isinstance(error, SourceError) else self.sink_s
        return limit_s is not None and lasted_s >= limit_s


def is_mended_by_reseed(error: FlussoError) -> bool:
    """Whether a new generation, filled from the source as it is now, makes good what the error lost.

    Not on an older timeline: another server has taken over from that one, and it is the one to follow.
    """
    lost = isinstance(
        error, SlotLost | SlotAdvanced | SourceReplaced | SourceWentBack | CoverageGap | IndexLeftBehind
    )
    return lost and not isinstance(error, TimelineBehind)


def needs_new_slot(error: FlussoError) -> bool:
    """Whether the slot that is there can never be read again."""
    return isinstance(error, SlotInvalidated | PublicationYounger)


def needs_new_look(error: FlussoError) -> bool:
    """Whether a running pipeline must compare the source with its sinks again before it goes on, or ends.

    A slot that moved on may have been moved by a twin of this process, and then the sinks know of it. A table
    that was not published for a while is part of some indexes only.
    """
    is_partial = isinstance(error, CoverageGap) and not isinstance(error, PublicationYounger)
    is_source = isinstance(error, TimelineChanged | SourceCrashed | SlotAdvanced | CatalogOutdated)
    return is_partial or is_source or isinstance(error, GenerationGone | IndexRequested)


def may_be_outdated(error: FlussoError) -> bool:
    """Whether an error may come of tables that are no longer as they were."""
    return isinstance(error, CatalogOutdated | BuildError | SourceRefused)


def first_failure(reports: Sequence[WriteReport]) -> FlussoError | None:
    """Pick the failure to act on."""
    return worst([report.failure for report in reports if report.failure is not None])


def worst(failures: Sequence[FlussoError]) -> FlussoError | None:
    """Pick one of several: one that cannot heal before one that can."""
    final = [failure for failure in failures if not failure.retryable]
    return next(iter(final or failures), None)


def find_stopping(refusals: Sequence[Refusal], skips: Mapping[str, bool]) -> list[Refusal]:
    """Give the refused documents that stop everything, each once: those of an index that does not skip do."""
    found: dict[tuple[str, str], Refusal] = {}
    for refusal in refusals:
        if not skips.get(refusal.index, False):
            found.setdefault((refusal.index, refusal.id), refusal)
    return list(found.values())


def stopped_by(stopping: Sequence[Refusal]) -> DocumentRefused:
    """Make the error that refused documents end in: it names the first of them, the log all."""
    shown = ", ".join(f"{refusal.index}/{refusal.id} ({refusal.reason})" for refusal in stopping[:_SHOWN])
    more = f" and {len(stopping) - _SHOWN} more, each named above" if len(stopping) > _SHOWN else ""
    is_built = not stopping[0].reason.startswith(UNBUILT)
    what = f'sink "{stopping[0].sink}" refused' if is_built else "there is no way to build"
    return DocumentRefused(
        f"{what} {len(stopping)} document(s): {shown}{more}",
        hint='mend the data or the schema, or set on_error = "skip" to quarantine such documents',
    )
