"""An HTTP proxy in front of a search server that asks for credentials, speaks TLS, and fails on purpose.

A test says what becomes of requests by a function: it gets the request and a way to pass it on, and gives
the answer, or None to cut the connection. Without one, everything is passed on.
"""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_PASSED_ON = ("content-type", "content-encoding", "accept")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_bulk(self) -> bool:
        return "/_bulk" in self.path

    @property
    def lines(self) -> list[bytes]:
        """The lines of a bulk request."""
        is_packed = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.body) if is_packed else self.body).splitlines()


@dataclass(frozen=True, slots=True)
class Given:
    """An answer; only so much of its body is sent when it is to be cut short."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    sent_bytes: int | None = None


_NOTHING_DONE = Given(
    200,
    b'{"errors":false,"items":[]}',
    {"Content-Type": "application/json", "X-elastic-product": "Elasticsearch"},
)


class _Gate(ThreadingHTTPServer):
    """Takes connections, over TLS if it has a certificate; cuts as many as it is told to as they begin."""

    daemon_threads = True
    context: ssl.SSLContext | None = None
    cuts = 0

    def get_request(self) -> tuple[socket.socket, Any]:
        conn, address = self.socket.accept()
        if self.cuts:
            self.cuts -= 1
            conn.recv(65_536)  # what is left unread would make a reset of the end
            conn.close()
            raise OSError("cut on purpose")
        return (self.context.wrap_socket(conn, server_side=True) if self.context else conn), address


Forward = Callable[[Asked], Given]
Rule = Callable[[Asked, Forward], Given | None]


class SearchProxy:
    """Runs in threads of its own until closed."""

    def __init__(self, server_url: str, certificate: tuple[Path, Path] | None = None) -> None:
        self.asked: list[Asked] = []
        self.rule: Rule = lambda asked, forward: forward(asked)
        self._server = urlsplit(server_url)
        self._http = _Gate(("127.0.0.1", 0), self._handler())
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if certificate is not None:
            self._http.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._http.context.load_cert_chain(*certificate)
            self.url = f"https://localhost:{self.port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def cut_handshakes(self, count: int) -> None:
        """End the next connections as soon as they begin, as a server that is being restarted."""
        self._http.cuts = count

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def forward(self, asked: Asked) -> Given:
        """Pass a request on to the real server."""
        conn = http.client.HTTPConnection(self._server.hostname or "", self._server.port, timeout=60)
        try:
            headers = {key: value for key, value in asked.headers.items() if key in _PASSED_ON}
            conn.request(asked.method, asked.path, asked.body or None, headers)
            answer = conn.getresponse()
            kept = {
                key: value
                for key, value in answer.getheaders()
                if key.lower() in ("content-type", "content-encoding", "x-elastic-product")
            }
            return Given(answer.status, answer.read(), kept)
        finally:
            conn.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                headers = {key.lower(): value for key, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, self.rfile.read(size))
                proxy.asked.append(asked)
                try:
                    self._answer(proxy.rule(asked, proxy.forward))
                except OSError:  # whoever asked is gone, or the server is
                    self.close_connection = True

            def _answer(self, given: Given | None) -> None:
                if given is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(given.status)
                for key, value in given.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(given.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(given.body[: given.sent_bytes])
                if given.sent_bytes is not None:
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                """Tests say what went wrong themselves."""

        for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.pass_on)
        return Handler


@contextmanager
def proxied_search(server_url: str, certificate: tuple[Path, Path] | None = None) -> Iterator[SearchProxy]:
    """Run a proxy in front of a server while the block runs."""
    proxy = SearchProxy(server_url, certificate)
    try:
        yield proxy
    finally:
        proxy.close()


def guarded(authorization: str) -> Rule:
    """Pass on only what carries these credentials."""

    def rule(asked: Asked, forward: Forward) -> Given | None:
        if asked.headers.get("authorization") != authorization:
            return Given(401, b'{"error":{"type":"security_exception","reason":"who are you"},"status":401}')
        return forward(asked)

    return rule


class Holding:
    """A rule: requests of some kinds are passed on only when they are let go, late for whoever asked."""

    def __init__(self, *kinds: Callable[[Asked], bool]) -> None:
        self._kinds = kinds
        self._let_go = threading.Event()
        self.held: list[Asked] = []
        self.answers: list[Given] = []
        """What the server said to them."""

    def __call__(self, asked: Asked, forward: Forward) -> Given:
        if self._let_go.is_set() or not any(is_one(asked) for is_one in self._kinds):
            return forward(asked)
        self.held.append(asked)
        self._let_go.wait()
        given = forward(asked)
        self.answers.append(given)
        return given

    def has_all(self) -> bool:
        """Whether there is a request of each kind."""
        return all(any(map(is_one, self.held)) for is_one in self._kinds)

    def let_go(self) -> None:
        """Pass on what is held, and all that comes."""
        self._let_go.set()


def half_busy(asked: Asked, forward: Forward) -> Given:
    """Pass on every other item of a bulk request, and answer 429 for the rest."""
    error = {"type": "rejected_execution_exception", "reason": "full"}
    return _some_kept_back(asked, forward, lambda at, lines: at % 2 == 1, {"status": 429, "error": error})


def failing_at(id_: str) -> Rule:
    """Fail at one document, whatever else a bulk request has; its removal is passed on."""
    error = {"type": "null_pointer_exception", "reason": "it says what is in the document"}
    head = f'{{"index":{{"_id":"{id_}"'.encode()

    def rule(asked: Asked, forward: Forward) -> Given:
        if not asked.is_bulk:
            return forward(asked)
        return _some_kept_back(
            asked, forward, lambda at, lines: lines[0].startswith(head), {"status": 500, "error": error}
        )

    return rule


def _some_kept_back(
    asked: Asked, forward: Forward, is_kept: Callable[[int, list[bytes]], bool], item: dict[str, Any]
) -> Given:
    """Pass on some items of a bulk request, and give the same answer for each of the others."""
    pairs = _pairs(asked.lines)
    kept = [is_kept(at, pair) for at, pair in enumerate(pairs)]
    body = b"".join(
        line + b"\n" for pair, is_back in zip(pairs, kept, strict=True) if not is_back for line in pair
    )
    plain = {key: value for key, value in asked.headers.items() if key != "content-encoding"}
    given = forward(replace(asked, body=body, headers=plain)) if body else _NOTHING_DONE
    found = json.loads(given.body)
    items = iter(found["items"])
    merged = [{"index": item} if is_back else next(items) for is_back in kept]
    answer = {"errors": any(kept) or found["errors"], "items": merged}
    headers = {key: value for key, value in given.headers.items() if key.lower() != "content-encoding"}
    return Given(200, json.dumps(answer).encode(), headers)


def _pairs(lines: list[bytes]) -> list[list[bytes]]:
    """Group the lines of a bulk request by item: a removal has one line."""
    found: list[list[bytes]] = []
    rest = iter(lines)
    for line in rest:
        found.append([line] if line.startswith(b'{"delete"') else [line, next(rest)])
    return found
