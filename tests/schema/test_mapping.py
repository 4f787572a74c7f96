"""The mapping: golden files for whole mappings, and one claim each for the parts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from flusso.catalog import TableName
from flusso.schema.mapping import index_mapping, text_field_names
from flusso.schema.model import (
    Aggregate,
    AggregateKind,
    Constant,
    Custom,
    Field,
    Geo,
    Group,
    IndexSchema,
    Join,
    JoinKind,
    Json,
    Map,
    Scalar,
    ScalarKind,
    Through,
)

GOLDEN = Path(__file__).parent.parent / "golden"


def table(name: str) -> TableName:
    return TableName("public", name)


EVERYTHING = IndexSchema(
    table("products"),
    (
        *(Scalar(kind.value, kind, kind.value) for kind in ScalarKind if kind is not ScalarKind.ENUM),
        Scalar(
            "state", ScalarKind.ENUM, "state", variants=("draft", "on sale", "gone => for good", "n/a é😀")
        ),
        Scalar("bare_state", ScalarKind.ENUM, "state"),
        Group("size", (Scalar("width", ScalarKind.FLOAT, "width"),)),
        Join(
            "category",
            JoinKind.BELONGS_TO,
            table("categories"),
            ("id",),
            (Scalar("name", ScalarKind.TEXT, "name"),),
            column=("category_id",),
        ),
        Join(
            "reviews",
            JoinKind.HAS_MANY,
            table("reviews"),
            ("id",),
            (
                Scalar("comment", ScalarKind.TEXT, "comment"),
                Join(
                    "author",
                    JoinKind.HAS_ONE,
                    table("authors"),
                    ("id",),
                    (Scalar("name", ScalarKind.KEYWORD, "name"),),
                    foreign_key=("review_id",),
                ),
            ),
            foreign_key=("product_id",),
        ),
        Join(
            "tags",
            JoinKind.MANY_TO_MANY,
            table("tags"),
            ("id",),
            (Scalar("name", ScalarKind.KEYWORD, "name"),),
            through=Through(table("product_tags"), ("product_id",), ("tag_id",)),
        ),
        Aggregate("review_count", AggregateKind.COUNT, table("reviews"), foreign_key=("product_id",)),
        Aggregate(
            "stars",
            AggregateKind.SUM,
            table("reviews"),
            foreign_key=("product_id",),
            column="stars",
            value_type=ScalarKind.LONG,
        ),
        Aggregate("worth", AggregateKind.SUM, table("sales"), foreign_key=("product_id",), column="amount"),
        Aggregate("mean", AggregateKind.AVG, table("sales"), foreign_key=("product_id",), column="amount"),
        Aggregate(
            "first_sale",
            AggregateKind.MIN,
            table("sales"),
            foreign_key=("product_id",),
            column="day",
            value_type=ScalarKind.DATE,
            options={"format": "strict_date"},
        ),
        Aggregate(
            "best_label",
            AggregateKind.MAX,
            table("sales"),
            foreign_key=("product_id",),
            column="label",
            value_type=ScalarKind.TEXT,
        ),
        Aggregate(
            "sale_ids",
            AggregateKind.IDS,
            table("sales"),
            foreign_key=("product_id",),
            element_type=ScalarKind.LONG,
        ),
        Custom("price", "price", ("numeric",), "scaled_float", options={"scaling_factor": 100}),
        Geo("place", lat="lat", lon="lon", options={"ignore_z_value": True}),
        Map("titles", "titles", ScalarKind.TEXT),
        Map("stock", "stock", ScalarKind.INTEGER, options={"dynamic": "true"}),
        Group("more", (Map("words", "words", ScalarKind.KEYWORD),), options={"dynamic": False}),
        Constant("origin", "shop"),
        Constant("number", 7),
        Constant("ratio", 0.5),
        Constant("flags", [True, False]),
        Constant("mixed", [1, "a"]),
        Constant("nothing", None),
        Constant("huge", 2**70),
    ),
)


def mapping_of(*fields: Field, analysis: str = "builtin", auto_subfields: bool = True) -> dict[str, Any]:
    schema = IndexSchema(table("t"), fields)
    return index_mapping(schema, text_analysis=analysis, auto_subfields=auto_subfields)


def only(item: Field, **choices: Any) -> Any:
    return mapping_of(item, **choices)["mappings"]["properties"][item.name]


@pytest.mark.parametrize("analysis", ["builtin", "icu", "plain"])
def test_the_mapping_of_everything_is_the_golden_one(analysis: str) -> None:
    found = index_mapping(EVERYTHING, text_analysis=analysis, auto_subfields=True)
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    golden = GOLDEN / f"everything.{analysis}.mapping.json"
    if os.environ.get("FLUSSO_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_the_mapping_is_strict() -> None:
    assert mapping_of()["mappings"]["dynamic"] == "strict"


def test_a_to_many_join_is_nested_and_a_to_one_join_an_object() -> None:
    properties = index_mapping(EVERYTHING, text_analysis="plain", auto_subfields=True)["mappings"]
    assert isinstance(properties, dict)
    fields: Any = properties["properties"]
    kinds = {name: fields[name]["type"] for name in ("category", "reviews", "tags", "size")}
    assert kinds == {"category": "object", "reviews": "nested", "tags": "nested", "size": "object"}


def test_options_are_merged_into_objects_within() -> None:
    options: dict[str, Json] = {
        "boost": 2,
        "fields": {"keyword": {"ignore_above": 10}, "raw": {"type": "binary"}},
    }
    found = only(Scalar("a", ScalarKind.TEXT, "a", options=options))
    assert found["boost"] == 2
    assert found["fields"]["keyword"] == {"type": "keyword", "ignore_above": 10}
    assert set(found["fields"]) == {"keyword", "keyword_lowercase", "raw"}


@pytest.mark.parametrize("kind", [ScalarKind.TEXT, ScalarKind.IDENTIFIER, ScalarKind.KEYWORD])
def test_without_auto_subfields_there_are_none(kind: ScalarKind) -> None:
    assert "fields" not in only(Scalar("a", kind, "a"), auto_subfields=False)


def test_plain_analysis_needs_no_setting() -> None:
    assert mapping_of(Scalar("a", ScalarKind.TEXT, "a"), analysis="plain")["settings"] == {}


def test_enums_with_the_same_variants_share_one_order() -> None:
    fields = [Scalar(name, ScalarKind.ENUM, name, variants=("x", "y")) for name in "ab"]
    found = mapping_of(*fields, Scalar("c", ScalarKind.ENUM, "c", variants=("y", "x")))
    ranks = [name for name in found["settings"]["analysis"]["char_filter"] if "rank" in name]
    assert ranks == ["flusso_rank_1", "flusso_rank_2"]


def test_ranks_of_many_variants_have_one_width() -> None:
    variants = tuple(f"v{n}" for n in range(11))
    found = mapping_of(Scalar("a", ScalarKind.ENUM, "a", variants=variants))
    rules = found["settings"]["analysis"]["char_filter"]["flusso_rank_1"]["mappings"]
    assert (rules[2], rules[10]) == ("\\ue000v2\\ue000 => 02", "\\ue000v10\\ue000 => 10")


def test_a_large_schema_raises_the_field_limit() -> None:
    found = mapping_of(*(Scalar(f"f{n}", ScalarKind.TEXT, "a") for n in range(400)))
    assert found["settings"]["index.mapping.total_fields.limit"] == 1201


def test_many_nested_fields_raise_the_nested_limit() -> None:
    joins = [Join(f"j{n}", JoinKind.HAS_MANY, table("c"), ("id",), (), foreign_key=("t",)) for n in range(51)]
    assert mapping_of(*joins)["settings"]["index.mapping.nested_fields.limit"] == 51


def test_a_map_gives_every_key_the_mapping_of_its_kind() -> None:
    inner = Join(
        "rows",
        JoinKind.HAS_MANY,
        table("c"),
        ("id",),
        (Map("m", "m", ScalarKind.DATE),),
        foreign_key=("t",),
    )
    found = mapping_of(Map("m", "m", ScalarKind.UUID), inner)
    assert found["mappings"]["dynamic_templates"] == [
        {"flusso_map_1": {"path_match": "m.*", "mapping": {"type": "keyword"}}},
        {"flusso_map_2": {"path_match": "rows.m.*", "mapping": {"type": "date", "ignore_malformed": True}}},
    ]
    assert found["mappings"]["properties"]["m"] == {"type": "object", "dynamic": True}


def test_a_map_has_room_for_many_keys() -> None:
    found = mapping_of(Map("m", "m", ScalarKind.LONG), Map("n", "n", ScalarKind.LONG))
    assert found["settings"]["index.mapping.total_fields.limit"] == 20_003


def test_text_field_names_are_the_fields_with_words_each_once() -> None:
    expected = (
        *("text", "identifier", "keyword", "state", "bare_state", "name", "comment"),
        *("best_label", "titles", "words"),
    )
    assert text_field_names(EVERYTHING) == expected
