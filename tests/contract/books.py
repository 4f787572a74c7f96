"""Books: the index that the contract of a sink is tested with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from flusso.catalog import TableName
from flusso.document import Write
from flusso.schema.mapping import text_field_names
from flusso.schema.model import IndexSchema, Join, JoinKind, Scalar, ScalarKind
from flusso.sinks.base import IndexTarget, Page, Sink

SCHEMA = IndexSchema(
    TableName("public", "books"),
    (
        Scalar("title", ScalarKind.TEXT, "title"),
        Scalar("tags", ScalarKind.KEYWORD, "tags"),
        Scalar("price", ScalarKind.DECIMAL, "price"),
        Join(
            "reviews",
            JoinKind.HAS_MANY,
            TableName("public", "reviews"),
            ("id",),
            (Scalar("comment", ScalarKind.TEXT, "comment"),),
            foreign_key=("book_id",),
        ),
    ),
)
FIRST = IndexTarget("books", "a" * 64, 1, text_field_names(SCHEMA))
SECOND = replace(FIRST, digest="b" * 64, generation=2)


def book(title: str, version: int, id_: str = "1") -> Write:
    return Write(id_, version, json.dumps({"title": title}).encode())


def removal(version: int, id_: str = "1") -> Write:
    return Write(id_, version, None)


def title_of(sink: Sink, id_: str = "1") -> str | None:
    found = sink.read(FIRST, [id_])
    return json.loads(found[id_].body)["title"] if id_ in found else None


def pages(sink: Sink, limit: int, after: str = "") -> Iterator[Page]:
    """Go through pages to the last, from a place on."""
    while True:
        page = sink.page(FIRST, after, limit)
        yield page
        after = page.after
        if not after:
            return
