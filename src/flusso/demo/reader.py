"""What the demo reads from the index it shows: documents by id, and full-text search.

Reads through the sink, as `flusso search` does, so what the demo calls searchable is what a reader finds.
The excerpts are what the story shows of a document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from flusso.sinks.base import Hit, Sink

Document = dict[str, Any]

_AT_A_TIME = 500
_NONE = "–"


class IndexReader:
    """An open sink, and the generations that are being written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        states = sink.load_states()
        self._targets = {
            each.index: shown.target for each in states.all if (shown := states.shown(each.index))
        }

    def find(self, index: str, id_: str) -> Document | None:
        """Read one document."""
        stored = self._sink.read(self._targets[index], [id_]).get(id_)
        return None if stored is None else parse(stored.body)

    def search(self, index: str, query: str, limit: int = 3) -> Sequence[Hit]:
        """Find documents that have all the words."""
        return self._sink.search(index, query, limit)

    def without(self, index: str, ids: Sequence[str], text: str) -> list[str]:
        """Tell which documents do not have the text in them yet; stops at the first lot that has none."""
        wanted = json.dumps(text, ensure_ascii=False).encode()
        rest = list(ids)
        while rest:
            found = self._sink.read(self._targets[index], rest[:_AT_A_TIME])
            lacking = [id_ for id_ in rest[:_AT_A_TIME] if id_ not in found or wanted not in found[id_].body]
            rest = lacking + rest[_AT_A_TIME:]
            if lacking:
                break
        return rest

    def close(self) -> None:
        """Let go of the file."""
        self._sink.close()


def parse(body: bytes) -> Document:
    """Read a document, every digit of its numbers kept."""
    found = json.loads(body, parse_float=Decimal)
    assert isinstance(found, dict)
    return found


def excerpt(document: Document, order: int) -> dict[str, str]:
    """Show what the story is about: the figures, and one order with what is in it."""
    placed = next((each for each in document["orders"] if each["id"] == order), None)
    items = placed["items"] if placed else []
    return {
        "orderCount": str(document["orderCount"]),
        "lifetimeValue": str(document["lifetimeValue"]),
        f"order {order}": ", ".join(f"{each['quantity']} × {each['product']['name']}" for each in items)
        or _NONE,
        "  category": ", ".join(each["product"]["category"]["name"] for each in items) or _NONE,
    }


def describe(document: Document, category: str) -> tuple[str, str, str]:
    """Show a hit: who, where, and a product of the category that was bought."""
    products = (item["product"] for order in document["orders"] for item in order["items"])
    bought = next((each["name"] for each in products if each["category"]["name"] == category), _NONE)
    return document["name"], document["city"], f"{bought} ({category})"


def differences(before: dict[str, str], after: dict[str, str]) -> list[tuple[str, str, str]]:
    """Name what changed: (field, before, after)."""
    return [(name, text, after[name]) for name, text in before.items() if text != after[name]]
