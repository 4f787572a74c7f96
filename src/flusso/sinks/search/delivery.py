"""Gets a batch of writes across: bulk requests, retries with smaller ones, and what became of each write.

Sending a write twice does no harm (the same version is taken again), so whatever has no certain outcome is
sent again: items that the server had no room for, and whole requests that were not answered. How large the
requests are, and how many at a time, is the pace's to say.

An error inside the server may be its own trouble, or that of one document. A document is refused for it only
after all retries, and when in one and the same request another document is taken and its own shard answers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flusso.document import MAX_ID_BYTES, Refusal, Write, WriteResult
from flusso.errors import SinkRefused, SinkUnavailable, WriteExpired
from flusso.sinks.search.bulk import FILTER_PATH, UNVERSIONED, Batch, Outcome, batches, outcome_of
from flusso.sinks.search.mend import Fields, mend, opaque_fields
from flusso.sinks.search.pace import Pace
from flusso.sinks.search.server import Server

_TOO_LARGE = 413
_UNREADABLE = ("mapper_parsing_exception", "document_parsing_exception")
_OLDEST = 1
"""A version that is older than that of any document."""
_FLOOD = "flood-stage"
_FULL = "its disk is nearly full: free some space, and writing goes on by itself"


@dataclass(slots=True)
class Delivery:
    """Writes on their way to one index. `pending` shrinks as outcomes become certain."""

    server: Server
    index: str
    alias: str
    """Where they are sent: an alias that no index can have as its name, so none is made by accident."""
    params: dict[str, str]
    pace: Pace
    pending: list[Write]
    outcomes: list[Outcome] = field(default_factory=list)
    until: float | None = None
    """When it is too late to send anything, by `time.monotonic`."""
    requests: int = 0
    backed_off_s: float = 0.0
    _halvings: int = 0
    """Of this delivery alone, for a server that takes no larger requests however long one waits."""
    _failing: dict[str, str] = field(default_factory=dict)
    """By id what the server said of documents that it failed at, while it was not busy or away."""

    def run(self, *, refresh: bool) -> WriteResult:
        """Send everything, again where needed, and sum up. Raises when the server stays unavailable."""
        unfit = [write for write in self.pending if not _has_fit_id(write.id)]
        if unfit:
            reason = f"the id is empty or over {MAX_ID_BYTES} bytes"
            self.outcomes.append(Outcome(refused=tuple((write, reason) for write in unfit)))
            self.pending = [write for write in self.pending if _has_fit_id(write.id)]
        self._send_all(refresh)
        self.pending = self._mend()
        self._send_all(refresh)
        if refresh and self.requests > 1:
            self.server.request("POST", f"/{self.alias}/_refresh")
        return self._summed()

    def _send_all(self, refresh: bool) -> None:
        """Send what is pending, and wait longer after each request of which nothing is taken."""
        failures = 0
        while self.pending:
            before = len(self.pending)
            try:
                self._send_next(refresh)
            except SinkUnavailable:
                self.pace.slow_down()
                failures = failures + 1 if len(self.pending) == before else 1
                if failures <= self.server.max_retries:
                    self.backed_off_s += self.server.back_off(failures)
                elif self._refuse_failing():
                    failures = 0
                else:
                    raise
            else:
                self.pace.speed_up()
                failures = 0

    def _send_next(self, refresh: bool) -> None:
        """Send one request; raises when not all of it was taken."""
        failing, self._failing = self._failing, {}
        limits = self.pace.limits.halved(self._halvings)
        batch = next(batches(tuple(self.pending), max_count=limits.count, max_bytes=limits.bytes))
        # One request refreshes what it wrote; several are better followed by one refresh.
        is_alone = self.requests == 0 and len(batch.writes) == len(self.pending)
        self.requests += 1
        with self.pace.turn():
            outcome = self._send(batch, self.params | ({"refresh": "true"} if refresh and is_alone else {}))
        if outcome is None:
            self._halvings += 1
            return
        self.outcomes.append(outcome)
        self.pending[: len(batch.writes)] = outcome.busy
        self.pending += (write for write, _ in outcome.failed)  # last: others show whether any are taken
        if not outcome.busy:
            self._failing = failing | {write.id: kind for write, kind in outcome.failed}
        if outcome.busy or outcome.failed:
            raise SinkUnavailable(
                f'sink "{self.server.sink}" takes no more of index "{self.index}" now ({outcome.why})',
                hint=_FULL if _FLOOD in outcome.why else None,
            )

    def _send(self, batch: Batch, params: dict[str, str]) -> Outcome | None:
        """Give what became of a batch; None when it is too large for the server and can be cut."""
        path = f"/{self.alias}/_bulk"
        if self.until is not None and time.monotonic() > self.until:
            raise WriteExpired(f'documents of index "{self.index}" were built too long ago to be written now')
        answer = self.server.once(
            "POST", path, batch.body, params=params | {"filter_path": FILTER_PATH}, allow=(_TOO_LARGE,)
        )
        if answer.status == _TOO_LARGE:
            if len(batch.writes) == 1:
                return Outcome(refused=((batch.writes[0], "larger than the server takes"),))
            return None
        try:
            return outcome_of(answer.text, batch.writes)
        except (SinkRefused, SinkUnavailable) as error:
            where = f'sink "{self.server.sink}", index "{self.index}": {error.message}'
            raise type(error)(where, hint=error.hint) from error

    def _refuse_failing(self) -> bool:
        """Refuse the documents that alone are at fault; False when the server may be."""
        taken = next((outcome.taken for outcome in self.outcomes if outcome.taken is not None), None)
        suspects = [write for write in self.pending if write.id in self._failing]
        if taken is None or not suspects:
            return False
        for write in suspects:
            if write.version == UNVERSIONED or not self._is_at_fault(write, taken):
                return False
            self.pending.remove(write)
            self.outcomes.append(Outcome(refused=((write, self._failing[write.id]),)))
        return True

    def _is_at_fault(self, write: Write, taken: Write) -> bool:
        """Send it with one that was taken before, and with something that is too old for its shard to do."""
        trial = [taken, Write(write.id, _OLDEST, None), write]
        (batch,) = batches(trial, max_count=len(trial), max_bytes=sys.maxsize)
        outcome = self._send(batch, self.params)
        if outcome is None or outcome.busy or outcome.refused:
            return False
        return [each for each, _ in outcome.failed] == [write]

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
                    mended.append(write._replace(body=body))
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
            backed_off_s=self.backed_off_s,
        )


def _has_fit_id(text: str) -> bool:
    """One unfit id fails a whole request, so it is kept out of it."""
    return 0 < len(text) <= MAX_ID_BYTES // 4 or 0 < len(text.encode()) <= MAX_ID_BYTES


def deliver(
    server: Server,
    index: str,
    alias: str,
    writes: Sequence[Write],
    pace: Pace,
    *,
    refresh: bool,
    pipeline: str | None,
    until: float | None = None,
) -> WriteResult:
    """Write a batch and say what became of it."""
    params = {"pipeline": pipeline} if pipeline else {}
    return Delivery(server, index, alias, params, pace, list(writes), until=until).run(refresh=refresh)
