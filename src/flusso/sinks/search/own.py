"""The sink's own small indexes: what it remembers, and the documents that were refused.

    {prefix}flusso_meta           states and requests, under their keys
    {prefix}flusso_quarantine     refused documents
    …_WRITER                      an alias of each, for writers, as generations have one

Somebody may delete one while flusso runs. Left to the server, the next write would make it anew with a
guessed mapping. Under the alias nothing can be made by accident: whoever writes is told that the index is
gone, makes it with its mapping, and writes once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flusso.errors import GenerationGone
from flusso.schema.model import Json
from flusso.sinks.search import quarantine
from flusso.sinks.search.generations import Names, create_index
from flusso.sinks.search.server import Server

T = TypeVar("T")
_META_PROPERTIES: dict[str, Json] = {"state": {"type": "keyword", "index": False, "doc_values": False}}


class OwnIndexes:
    """Both indexes of one sink, as far as this process knows."""

    def __init__(self, server: Server, names: Names, number_of_replicas: int) -> None:
        self._server = server
        self._names = names
        self._number_of_replicas = number_of_replicas
        self._are_there = False

    def ensure(self) -> None:
        """Make the indexes, unless that was done; those of an earlier start or release get what they lack."""
        if self._are_there:
            return
        self._ensure(self._names.meta, _META_PROPERTIES)
        self._ensure(self._names.quarantine, quarantine.PROPERTIES)
        self._are_there = True

    def writing(self, step: Callable[[], T]) -> T:
        """Take a step that writes to one of them; if that is gone, make it and take the step once more."""
        try:
            return step()
        except GenerationGone:
            self._are_there = False
            self.ensure()
            return step()

    def _ensure(self, name: str, properties: dict[str, Json]) -> None:
        replicas = {"number_of_replicas": self._number_of_replicas}
        alias = self._names.own_writers(name)
        body = {
            "settings": {"number_of_shards": 1} | replicas,
            "mappings": {"dynamic": "strict", "properties": properties},
            "aliases": {alias: {}},
        }
        if not create_index(self._server, name, body):
            self._server.request("PUT", f"/{name}/_settings", {"index": replicas})
            self._server.request("PUT", f"/{name}/_mapping", {"properties": properties})
            self._server.request("PUT", f"/{name}/_alias/{alias}")
