"""A place for books in a real search server of either kind, reached directly or through a proxy."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

from flusso.catalog import TableName
from flusso.document import Write
from flusso.schema.model import IndexSchema, Scalar, ScalarKind
from flusso.sinks.base import IndexTarget
from flusso.sinks.search.connection import SearchSpec
from flusso.sinks.search.server import Server

TARGET = IndexTarget("books", "a" * 64, 1)
SCHEMA = IndexSchema(
    TableName("public", "books"),
    (Scalar("title", ScalarKind.TEXT, "title"), Scalar("pages", ScalarKind.LONG, "pages")),
)
BOOK = Write("1", 5, b'{"title":"Momo"}')
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix of its own in a real server."""

    kind: type[SearchSpec]
    url: str
    prefix: str

    def spec(self, *urls: str, **changes: Any) -> SearchSpec:
        common = {"prefix": self.prefix, "number_of_replicas": 0, "text_analysis": "plain", "max_retries": 0}
        return self.kind("search", urls or (self.url,), **(common | changes))

    def written(self, spec: SearchSpec) -> bool:
        """Whether a document comes through and back."""
        sink = spec.open()
        try:
            sink.ensure(TARGET, SCHEMA)
            sink.write(TARGET, [BOOK], refresh=True)
            return sink.read(TARGET, ["1"])["1"].body == BOOK.body
        finally:
            sink.close()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask the server itself; `@` in the path is the prefix."""
        server = Server(self.spec().client(), "search", 0)
        try:
            return server.once(method, path.replace("@", self.prefix), body).json
        finally:
            server.close()

    def clear(self) -> None:
        """Delete all, by name: a newer server refuses to delete by a pattern."""
        for name in self.ask("GET", "/@*"):
            self.ask("DELETE", f"/{name}")


def new_place(kind: type[SearchSpec], url: str) -> Place:
    return Place(kind, url, f"place{os.getpid()}_{next(_numbers)}_")
