"""Gets a batch of writes across: bulk requests, retries with smaller ones, and what became of each write.

Sending a write twice does no harm (the same version is taken again), so whatever has no certain outcome is
sent again: items that the server had no room for, and whole requests that were not answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flusso.document import MAX_ID_BYTES, Refusal, Write, WriteResult
from flusso.errors import SinkRefused, SinkUnavailable
from flusso.sinks.search.bulk import FILTER_PATH, Batch, Outcome, batches, outcome_of
from flusso.sinks.search.mend import Fields, mend, opaque_fields
from flusso.sinks.search.server import Server

_TOO_LARGE = 413
_UNREADABLE = ("mapper_parsing_exception", "document_parsing_exception")
_MIN_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """How much goes in one bulk request."""

    count: int
    bytes: int

    def after(self, failures: int) -> Limits:
        """Half as much for each failure so far."""
        return Limits(max(1, self.count >> failures), max(_MIN_BYTES, self.bytes >> failures))


@dataclass(slots=True)
class Delivery:
    """Writes on their way to one index. `pending` shrinks as outcomes become certain."""

    server: Server
    index: str
    alias: str
    """Where they are sent: an alias that no index can have as its name, so none is made by accident."""
    params: dict[str, str]
    pending: list[Write]
    outcomes: list[Outcome] = field(default_factory=list)
    requests: int = 0

    def run(self, limits: Limits, *, refresh: bool) -> WriteResult:
        """Send everything, again where needed, and sum up. Raises when the server stays unavailable."""
        unfit = [write for write in self.pending if not _has_fit_id(write.id)]
        if unfit:
            reason = f"the id is empty or over {MAX_ID_BYTES} bytes"
            self.outcomes.append(Outcome(refused=tuple((write, reason) for write in unfit)))
            self.pending = [write for write in self.pending if _has_fit_id(write.id)]
        self.server.retrying(lambda failures: self._send_all(limits.after(failures), refresh))
        self.pending = self._mend()
        if self.pending:
            self.server.retrying(lambda failures: self._send_all(limits.after(failures), refresh))
        if refresh and self.requests > 1:
            self.server.request("POST", f"/{self.alias}/_refresh")
        return self._summed()

    def _send_all(self, limits: Limits, refresh: bool) -> None:
        """Send what is pending once; stop at the first batch that does not go through whole."""
        for batch in batches(tuple(self.pending), max_count=limits.count, max_bytes=limits.bytes):
            # One request refreshes what it wrote; several are better followed by one refresh.
            is_alone = self.requests == 0 and len(batch.writes) == len(self.pending)
            self.requests += 1
            outcome = self._send(batch, self.params | ({"refresh": "true"} if refresh and is_alone else {}))
            self.outcomes.append(outcome)
            self.pending[: len(batch.writes)] = outcome.busy
            if outcome.busy:
                raise SinkUnavailable(
                    f'sink "{self.server.sink}" has no room for more of index "{self.index}" now'
                )

    def _send(self, batch: Batch, params: dict[str, str]) -> Outcome:
        path = f"/{self.alias}/_bulk"
        answer = self.server.once(
            "POST", path, batch.body, params=params | {"filter_path": FILTER_PATH}, allow=(_TOO_LARGE,)
        )
        if answer.status == _TOO_LARGE:
            if len(batch.writes) == 1:
                return Outcome(refused=((batch.writes[0], "larger than the server takes"),))
            raise SinkUnavailable(f'sink "{self.server.sink}" wants smaller bulk requests')
        try:
            return outcome_of(answer.text, batch.writes)
        except (SinkRefused, SinkUnavailable) as error:
            where = f'sink "{self.server.sink}", index "{self.index}": {error.message}'
            raise type(error)(where, hint=error.hint) from error

    def _mend(self) -> list[Write]:
        """Take the documents out of those refused that fit once their JSON is text."""
        mended: list[Write] = []
        fields: Fields | None = None
        for at, outcome in enumerate(self.outcomes):
            refused = []
            for write, reason in outcome.refused:
                body = None
                if write.body is not None and reason.startswith(_UNREADABLE):
                    fields = self._opaque_fields() if fields is None else fields
                    body = mend(write.body, fields) if fields else None
                if body is None:
                    refused.append((write, reason))
                else:
                    mended.append(replace(write, body=body))
            self.outcomes[at] = replace(outcome, refused=tuple(refused))
        return mended

    def _opaque_fields(self) -> Fields:
        found = self.server.request("GET", f"/{self.alias}/_mapping").json
        return opaque_fields(next(iter(found.values()))["mappings"])

    def _summed(self) -> WriteResult:
        refusals = tuple(
            Refusal(self.index, write.id, write.version, self.server.sink, reason)
            for outcome in self.outcomes
            for write, reason in outcome.refused
        )
        return WriteResult(
            written=sum(outcome.written for outcome in self.outcomes),
            removed=sum(outcome.removed for outcome in self.outcomes),
            superseded=sum(outcome.superseded for outcome in self.outcomes),
            refusals=refusals,
            newest_conflict=max((outcome.newest_conflict for outcome in self.outcomes), default=0),
        )


def _has_fit_id(text: str) -> bool:
    """One unfit id fails a whole request, so it is kept out of it."""
    return 0 < len(text) <= MAX_ID_BYTES // 4 or 0 < len(text.encode()) <= MAX_ID_BYTES


def deliver(
    server: Server,
    index: str,
    alias: str,
    writes: Sequence[Write],
    limits: Limits,
    *,
    refresh: bool,
    pipeline: str | None,
) -> WriteResult:
    """Write a batch and say what became of it."""
    params = {"pipeline": pipeline} if pipeline else {}
    return Delivery(server, index, alias, params, list(writes)).run(limits, refresh=refresh)
