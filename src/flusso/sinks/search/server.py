"""The search server as the sink sees it: one request at a time, what the answer means, and when to retry.

A `Client` is the thin adapter around an official client library: it sends, and raises `SinkUnavailable` when
no answer came. `Server` turns statuses into the error tree. An error's text names the request and the kind
of error, never what the server says of it: that may quote a document.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from flusso.errors import SinkError, SinkRefused, SinkUnavailable
from flusso.sinks.search.bulk import ABSENT, BLOCKED, gone

T = TypeVar("T")
_FIRST_WAIT_S = 0.2
_MAX_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a status and the text as sent."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The text as JSON; of an error an empty object when it is none (a proxy's error page)."""
        try:
            return json.loads(self.text) if self.text else {}
        except ValueError as error:
            if self.status < 300:
                raise SinkUnavailable("an answer of the search server is cut short") from error
            return {}

    @property
    def is_page(self) -> bool:
        """Whether something in front of the server answered: it has JSON for whatever it does not find."""
        try:
            return not isinstance(json.loads(self.text), dict)
        except ValueError:
            return True

    @property
    def error_type(self) -> str:
        """The server's name for the error, or the status."""
        found = self.json
        error = found.get("error") if isinstance(found, dict) else None
        return str(error["type"]) if isinstance(error, dict) and "type" in error else f"status {self.status}"

    @property
    def reason(self) -> str:
        """What the server says of the error. May quote what was sent."""
        found = self.json
        error = found.get("error") if isinstance(found, dict) else None
        return str(error.get("reason", "")) if isinstance(error, dict) else ""


class Client(Protocol):
    """How a client library is called. One thread at a time."""

    def send(self, method: str, path: str, params: Mapping[str, str], body: bytes | None) -> Answer:
        """Send one request and give the answer whatever its status.

        Raises `SinkUnavailable` when there is none, `SinkRefused` when there never will be.
        """

    def close(self) -> None:
        """Close the connections. Idempotent."""


class Server:
    """A server with the name of its sink, for messages."""

    def __init__(self, client: Client, sink: str, max_retries: int) -> None:
        self._client = client
        self.max_retries = max_retries
        self.sink = sink

    def once(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
        allow: Collection[int] = (),
    ) -> Answer:
        """Send one request; a status from 300 up is an error unless allowed.

        That an index is not there is `GenerationGone`: whoever can do without it allows the status. Only the
        server itself can say that: a page of something in front of it means that it cannot be reached.
        """
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answer = self._client.send(method, path, params or {}, payload)
        if answer.status == 404 and answer.is_page:  # as of an ingress that has no server behind it now
            raise SinkUnavailable(f'something else than sink "{self.sink}" answered 404 to {method} {path}')
        if answer.status < 300 or answer.status in allow:
            return answer
        what = f'sink "{self.sink}" answered {answer.error_type} to {method} {path}'
        if answer.error_type in BLOCKED:
            raise SinkUnavailable(f"{what}: {answer.reason}")
        if answer.status in (401, 403):
            raise SinkRefused(what, hint="check its username, password or api_key and what they may do")
        if answer.status == 429 or answer.status >= 500:
            raise SinkUnavailable(what)
        if answer.error_type in ABSENT:
            raise gone(f"{what}: the index is gone")
        raise SinkRefused(what)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
        allow: Collection[int] = (),
    ) -> Answer:
        """Send a request that may safely be sent again, until the server takes it."""
        return self.retrying(lambda: self.once(method, path, body, params=params, allow=allow))

    def whole(
        self, method: str, path: str, body: object = None, *, params: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request that may safely be sent again, until every shard takes part in its answer."""
        return self.retrying(lambda: self.complete(self.once(method, path, body, params=params)))

    def complete(self, answer: Answer) -> Answer:
        """Refuse an answer that not every shard took part in: what it lacks would be missed unseen."""
        found = answer.json
        if found.get("_shards", {}).get("failed", 1) or found.get("timed_out"):
            raise self.partial()
        return answer

    def partial(self) -> SinkUnavailable:
        """Say that an answer is not for all that was asked for."""
        return SinkUnavailable(f'sink "{self.sink}" did not answer for all of its shards')

    def unread(self, index: str, error: object) -> SinkError:
        """Say what an error in the place of a document means: it could not be looked for, now or at all."""
        kind = str(error.get("type", "unknown")) if isinstance(error, dict) else "unknown"
        if kind in ABSENT:
            return gone(f'sink "{self.sink}", index "{index}": the index is gone')
        return SinkUnavailable(f'sink "{self.sink}" could not read from index "{index}" ({kind})')

    def refresh(self, name: str) -> None:
        """Let a search see all that was written to an index; costs little when nothing was."""
        self.whole("POST", f"/{name}/_refresh")

    def retrying(self, step: Callable[[], T]) -> T:
        """Take a step, again and later while the server is unavailable."""
        for failures in range(1, self.max_retries + 1):
            try:
                return step()
            except SinkUnavailable:
                self.back_off(failures)
        return step()

    def back_off(self, failures: int) -> float:
        """Wait before trying again, longer after each failure; give how long that was.

        Not all who failed at one moment try again at one moment: a server that comes back has many clients.
        """
        seconds: float = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2 ** min(failures - 1, 30)) * random.uniform(
            0.5, 1.0
        )
        time.sleep(seconds)  # the pause itself is what a server under load needs
        return seconds

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
