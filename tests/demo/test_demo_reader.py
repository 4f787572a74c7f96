from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flusso.demo.reader import IndexReader, describe, differences, excerpt, parse
from flusso.document import Write
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexState, IndexTarget
from flusso.sinks.sqlite import SqliteSpec

_SCHEMA = "version: 1\ntable: customers\nprimary_key: id\nfields:\n  - text: name\n"


def _customer(*orders: int, category: str = "Books") -> dict[str, object]:
    product = {"id": 1, "name": "Alpine Cookbook", "category": {"name": category}}
    return {
        "name": "Giulia Novak",
        "city": "Bologna",
        "orderCount": len(orders),
        "lifetimeValue": 10.50,
        "orders": [{"id": id_, "items": [{"quantity": 2, "product": product}]} for id_ in orders],
    }


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[IndexReader]:
    """Two thousand documents, of which the last one does not say yes."""
    sink = SqliteSpec("local", tmp_path / "index.sqlite").open()
    target = IndexTarget("customers", "d", 1, ("name",))
    sink.ensure(target, parse_schema(_SCHEMA, file="x"))
    words = ["yes"] * 1999 + ["no"]
    writes = [Write(str(n), 1, json.dumps({"name": word}).encode()) for n, word in enumerate(words)]
    sink.write(target, writes, refresh=True)
    sink.save_state(IndexState("customers", "d", 1))
    reader = IndexReader(sink)
    yield reader
    reader.close()


def test_documents_that_lack_a_text_are_told_apart(reader: IndexReader) -> None:
    assert reader.without("customers", [str(n) for n in range(2000)], "yes") == ["1999"]


def test_a_document_that_is_not_there_lacks_every_text(reader: IndexReader) -> None:
    assert reader.without("customers", ["1", "9999"], "yes") == ["9999"]


def test_no_document_lacks_a_text_that_all_have(reader: IndexReader) -> None:
    assert reader.without("customers", [str(n) for n in range(1999)], "yes") == []


def test_a_document_is_read_by_its_id(reader: IndexReader) -> None:
    assert reader.find("customers", "1999") == {"name": "no"}
    assert reader.find("customers", "2000") is None


def test_a_number_keeps_its_digits() -> None:
    assert str(parse(b'{"total": 10.50}')["total"]) == "10.50"


def test_an_order_that_is_not_there_yet_is_a_dash() -> None:
    before, after = excerpt(_customer(1), 2), excerpt(_customer(1, 2), 2)
    assert differences(before, after) == [
        ("orderCount", "1", "2"),
        ("order 2", "–", "2 × Alpine Cookbook"),
        ("  category", "–", "Books"),
    ]


def test_only_what_changed_is_a_difference() -> None:
    before, after = excerpt(_customer(1), 1), excerpt(_customer(1, category="Stories"), 1)
    assert differences(before, after) == [("  category", "Books", "Stories")]


def test_a_hit_is_described_by_what_was_bought_in_the_category() -> None:
    assert describe(_customer(1), "Books") == ("Giulia Novak", "Bologna", "Alpine Cookbook (Books)")
