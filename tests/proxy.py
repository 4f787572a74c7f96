"""A TCP proxy between flusso and Postgres that fails on purpose: it cuts, stalls and refuses."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 65_536
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: what closes the socket is a reset, as of a host that has forgotten us."""


class Proxy:
    """Passes everything on between a port of its own and the server's, until it is told otherwise."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._links: list[_Link] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._left: int | None = None
        self._lock = threading.Lock()
        self._listener = _listen(0)
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._serve()

    def cut(self) -> None:
        """Cut every connection, and take new ones."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.reset()
        self.cuts += len(links)

    def cut_stream_after(self, count: int) -> None:
        """Cut the replication connection once it has passed on so many more bytes of the server's."""
        self._left = count

    def refuse(self) -> None:
        """Cut every connection and refuse new ones, as a server that is down."""
        # Closing alone would not wake the thread that accepts: the kernel would take one more connection.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def accept(self) -> None:
        """Take connections again."""
        self._listener = _listen(self.port)
        self._serve()

    def stall(self) -> None:
        """Keep all connections, take new ones, and pass nothing on: a host gone without a word."""
        self._flowing.clear()

    def flow(self) -> None:
        """Pass everything on again."""
        self._flowing.set()

    def close(self) -> None:
        self.flow()
        self.refuse()

    def _serve(self) -> None:
        threading.Thread(target=self._accept_all, args=(self._listener,), daemon=True).start()

    def _accept_all(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            link = _Link(client, server)
            with self._lock:
                self._links.append(link)
            threading.Thread(target=self._pump, args=(link, client, server), daemon=True).start()
            threading.Thread(target=self._pump, args=(link, server, client), daemon=True).start()

    def _pump(self, link: _Link, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flowing.wait()
                if source is link.client:
                    link.is_stream |= b"\0replication\0" in data
                target.sendall(self._allowed(link, data) if target is link.client else data)
        link.reset()

    def _allowed(self, link: _Link, data: bytes) -> bytes:
        """Give what may pass; nothing more comes after a part of it."""
        if self._left is None or not link.is_stream:
            return data
        allowed, self._left = data[: self._left], max(0, self._left - len(data))
        if not self._left:
            self._left = None
            self.cuts += 1
            link.client.sendall(allowed)
            link.reset()
        return allowed


class _Link:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.is_stream = False

    def reset(self) -> None:
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                side.shutdown(socket.SHUT_RDWR)
            side.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    return listener


@contextmanager
def proxied(server_port: int) -> Iterator[Proxy]:
    """Run a proxy in front of a server while the block runs."""
    proxy = Proxy(server_port)
    try:
        yield proxy
    finally:
        proxy.close()
