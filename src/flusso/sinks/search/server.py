"""The search server as the sink sees it: one request at a time, what the answer means, and when to retry.

A `Client` is the thin adapter around an official client library: it sends, and raises `SinkUnavailable` when
no answer came. `Server` turns statuses into the error tree. An error's text names the request and the kind
of error, never what the server says of it: that may quote a document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from flusso.errors import SinkRefused, SinkUnavailable

_T = TypeVar("_T")
_FIRST_WAIT_S = 0.2
_MAX_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a status and the text as sent."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The text as JSON; an empty object when it is none (a proxy's error page)."""
        try:
            return json.loads(self.text) if self.text else {}
        except ValueError:
            return {}

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
        self._max_retries = max_retries
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
        """Send one request; a status from 300 up is an error unless allowed."""
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answer = self._client.send(method, path, params or {}, payload)
        if answer.status < 300 or answer.status in allow:
            return answer
        what = f'sink "{self.sink}" answered {answer.error_type} to {method} {path}'
        if answer.status in (401, 403):
            raise SinkRefused(what, hint="check its username, password or api_key and what they may do")
        if answer.status == 429 or answer.status >= 500:
            raise SinkUnavailable(what)
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
        return self.retrying(lambda _: self.once(method, path, body, params=params, allow=allow))

    def retrying(self, step: Callable[[int], _T]) -> _T:
        """Call a step with its attempt's number, from 0, again and later while the server is unavailable."""
        attempts = Retrying(
            retry=retry_if_exception_type(SinkUnavailable),
            stop=stop_after_attempt(self._max_retries + 1),
            wait=wait_random_exponential(multiplier=_FIRST_WAIT_S, max=_MAX_WAIT_S),
            reraise=True,
        )
        for attempt in attempts:
            with attempt:
                return step(attempt.retry_state.attempt_number - 1)
        raise AssertionError("tenacity ends by returning or raising")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
