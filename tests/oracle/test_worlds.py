"""The generator makes what it promises: many different worlds, each again from its seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ruamel.yaml import YAML

from flusso.schema.parse import parse_schema
from oracle.histories import random_transaction
from oracle.schemas import DEEPEST
from oracle.tables import IDENTITIES
from oracle.world import World, fixed_seeds, make_world, new_seeds

_WORLDS = [make_world(str(number)) for number in range(60)]
_TAGS = ("belongs_to", "has_one", "has_many", "many_to_many", "count", "sum", "avg", "min", "max", "ids")


def _nodes(fields: list[dict[str, Any]], depth: int = 1) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for field in fields:
        found.append((depth, field))
        inner = depth if "object" in field else depth + 1
        found += _nodes(field.get("fields", []), inner)
    return found


def test_a_seed_gives_the_same_world_and_the_same_transactions_again() -> None:
    for identity in IDENTITIES:
        assert make_world("x", identity) == make_world("x", identity)
    assert make_world("x") != make_world("y")
    one, two = (_transactions(make_world("x")) for _ in range(2))
    assert one == two


def _transactions(world: World) -> list[object]:
    rng = world.rng("writer 0")
    return [random_transaction(rng, world.tables) for _ in range(20)]


def test_every_schema_is_one_that_flusso_reads_and_says_what_was_meant() -> None:
    for world in _WORLDS[:20]:
        for name, text in world.schemas.items():
            parse_schema(text, file=name)
            assert YAML(typ="safe", pure=True).load(text) == world.nodes[name]


def test_worlds_have_every_kind_of_relation_at_every_depth() -> None:
    met: Counter[tuple[str, int]] = Counter()
    for world in _WORLDS:
        for schema in world.nodes.values():
            for depth, node in _nodes(schema["fields"]):
                met.update((tag, depth) for tag in _TAGS if tag in node)
    assert {(tag, depth) for tag in _TAGS for depth in range(1, DEEPEST + 1)} <= met.keys()


@pytest.mark.parametrize(
    "word",
    ["filters", "soft_delete", "order_by", "limit", "distinct", "primary_key", "schema", "object", "raw"],
)
def test_worlds_have_what_else_a_schema_can_say(word: str) -> None:
    assert sum(f"{word}:" in text for world in _WORLDS for text in world.schemas.values()) >= 5


def test_worlds_have_all_kinds_of_tables() -> None:
    tables = [table for world in _WORLDS for table in world.tables]
    assert any(len(table.key) == 2 and table.key[0].startswith("r") for table in tables), "junctions"
    assert any(len(table.key) == 2 and table.key[0] == "id" for table in tables), "composite keys"
    assert any(table.type_of(table.key[0]) == "text" for table in tables), "text keys"
    assert any(table.partitions for table in tables), "partitions"
    links = [(table, link) for table in tables for link in table.links]
    assert any(link.table == table.name for table, link in links), "self-reference"
    assert any(link.target == ("code",) for _, link in links), "references by a unique column"
    assert any(len(world.schemas) > 1 for world in _WORLDS), "several indexes"


def test_with_an_identity_by_index_no_link_is_ever_null() -> None:
    for number in range(20):
        for table in make_world(str(number), "index").tables:
            assert not [c for c in table.columns if c.name in table.linking and c.is_nullable]


def test_a_given_seed_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUSSO_ORACLE_SEED", raising=False)
    assert len(set(new_seeds(5))) == 5
    assert fixed_seeds("one", "two") == ["one", "two"]
    monkeypatch.setenv("FLUSSO_ORACLE_SEED", "abc")
    assert new_seeds(5) == fixed_seeds("one") == ["abc"]
