"""Snapshots of a real search server: take one of some indexes, and put them back from it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flusso.sinks.search.connection import SearchSpec
from flusso.sinks.search.server import Server

_numbers = itertools.count(1)
_WAIT = {"wait_for_completion": "true"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What some indexes held when it was taken."""

    server: Server
    repository: str

    def put_back(self, *names: str, over_closed: bool = False) -> None:
        """Restore indexes with their aliases, over those that are there: deleted before, or closed."""
        for name in names:
            if over_closed:
                self.server.request("POST", f"/{name}/_close")
            else:
                self.server.request("DELETE", f"/{name}")
        body = {"indices": ",".join(names), "include_global_state": False}
        self.server.request("POST", f"/_snapshot/{self.repository}/one/_restore", body, params=_WAIT)


@contextmanager
def snapshot_of(spec: SearchSpec, *names: str) -> Iterator[Snapshot]:
    """Take a snapshot, which is there while the block runs. The server needs a `path.repo`."""
    server = Server(spec.client(), spec.name, 0)
    repository = f"flusso{os.getpid()}_{next(_numbers)}"
    path = f"/_snapshot/{repository}"
    server.request("PUT", path, {"type": "fs", "settings": {"location": repository}})
    try:
        body = {"indices": ",".join(names), "include_global_state": False}
        server.request("PUT", f"{path}/one", body, params=_WAIT)
        yield Snapshot(server, repository)
        server.request("DELETE", f"{path}/one")
    finally:
        server.request("DELETE", path)
        server.close()
