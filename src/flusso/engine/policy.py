"""The one place that turns errors and refusals into retry, skip or stop. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flusso.document import Refusal, WriteReport
from flusso.errors import DocumentRefused, FlussoError

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long something that may heal is tried again."""

    attempts: int = 10
    first_delay_s: float = 0.2
    longest_delay_s: float = 15.0

    def delay_s(self, attempt: int) -> float:
        """How long to wait before trying again after the attempt of this number, from 1."""
        return float(min(self.longest_delay_s, self.first_delay_s * 2 ** (attempt - 1)))

    def is_exhausted(self, attempt: int) -> bool:
        """Whether the attempt of this number was the last."""
        return attempt >= self.attempts


def first_failure(reports: Sequence[WriteReport]) -> FlussoError | None:
    """Pick the failure to act on: one that cannot heal before one that can."""
    failures = [report.failure for report in reports if report.failure is not None]
    final = [failure for failure in failures if not failure.retryable]
    return next(iter(final or failures), None)


def judge_refusals(refusals: Sequence[Refusal], skips: Mapping[str, bool]) -> DocumentRefused | None:
    """Say whether refused documents stop everything: those of an index that does not skip do."""
    stopping = [refusal for refusal in refusals if not skips.get(refusal.index, False)]
    if not stopping:
        return None
    shown = ", ".join(f"{refusal.index}/{refusal.id} ({refusal.reason})" for refusal in stopping[:_SHOWN])
    more = f" and {len(stopping) - _SHOWN} more" if len(stopping) > _SHOWN else ""
    return DocumentRefused(
        f'sink "{stopping[0].sink}" refused {len(stopping)} document(s): {shown}{more}',
        hint='mend the data or the schema, or set on_error = "skip" to quarantine such documents',
    )
