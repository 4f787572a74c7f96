"""The fingerprint of a schema: pinned, so that nobody reindexes everybody by accident."""

from __future__ import annotations

import re

import pytest

from flusso.schema.digest import digest
from flusso.schema.model import Json
from flusso.schema.parse import parse_schema

SMALL = "version: 1\ntable: customers\nprimary_key: id\nfields:\n  - text: name\n"
LARGE = """
version: 1
table: customers
schema: shop
primary_key: [region, id]
filters:
  - {raw: "a > b"}
  - {column: a, op: in, value: [1, 2.5, x, true]}
soft_delete: {column: gone, when: [{column: b, op: is_null}]}
fields:
  - keyword: email
    column: mail
    required: true
    default: none
    transforms: [trim, lowercase]
    options: {ignore_above: 10, null_value: é}
  - enum: level
    variants: [low, high]
  - object: address
    fields: [{text: street}]
  - has_many: orders
    table: orders
    primary_key: id
    foreign_key: [customer_region, customer_id]
    order_by: [{column: placed_at, direction: desc}]
    limit: 3
    fields:
      - belongs_to: shop_id
        table: shops
        fields: [{text: name}]
  - sum: total
    table: orders
    foreign_key: [customer_region, customer_id]
    column: total
    value_type: decimal
  - many_to_many: tags
    table: tags
    through: {table: customer_tags, left_key: [region, customer_id], right_key: tag_id}
    fields: [{keyword: label}]
"""
TAGGED = """
version: 1
table: customers
fields:
  - custom: price
    postgres: [numeric]
    opensearch: scaled_float
    options: {scaling_factor: 100}
  - geo: home
    lat: latitude
    lon: longitude
  - geo: work
    column: office
  - map: titles
    values: text
  - constant: origin
    value: {b: [1, 2.5, null], a: true}
  - object: more
    options: {dynamic: false}
    fields: [{text: street}]
  - avg: mean
    table: orders
    foreign_key: customer_id
    column: total
  - max: last
    table: orders
    foreign_key: customer_id
    column: placed_at
    value_type: timestamp
  - ids: tagIds
    table: tags
    element_type: long
    distinct: true
    through: {table: t, left_key: a, right_key: b, filters: [{column: c, op: is_null}]}
"""
SHAPE: dict[str, Json] = {"text_analysis": "builtin", "auto_subfields": True}


def of(text: str) -> str:
    return digest(parse_schema(text, file="f"), {})


def test_the_digest_of_a_small_schema_is_pinned() -> None:
    assert of(SMALL) == "0fa5e7a3f8b567e35794b5ef72c9a7d52171b60147bc1579ab05a6ba1a281796"


def test_the_digest_of_a_schema_with_every_newer_tag_is_pinned() -> None:
    assert of(TAGGED) == "826e3690c7e7a18653c13362e4c06524452f548504bde70baa30deefb6e4ba23"


def test_the_digest_of_a_schema_that_uses_nothing_new_is_the_first_one_ever_taken_of_it() -> None:
    found = digest(parse_schema(LARGE.replace("    variants: [low, high]\n", ""), file="f"), SHAPE)
    assert found == "daae64d974c48ee3bb9c3895da874f6e120ff7f83fc42b345b8d2f3f631076ac"


@pytest.mark.parametrize("tag", ["keyword: email", "object: more", "has_many: orders"])
def test_how_a_field_is_searched_does_not_count(tag: str) -> None:
    text = TAGGED if "more" in tag else LARGE
    plain = re.sub(r"    options: .*\n", "", text)
    searched = plain.replace(tag, tag + "\n    options: {search_analyzer: simple, meta: {unit: m}}")
    assert searched != plain
    assert of(searched) == of(plain)
    assert of(searched.replace("meta:", "metadata:")) != of(plain)


def test_the_order_of_keys_in_a_constant_does_not_count() -> None:
    assert of(TAGGED) == of(TAGGED.replace("{b: [1, 2.5, null], a: true}", "{a: true, b: [1, 2.5, null]}"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("value: {b: [1, 2.5, null], a: true}", "value: {b: [1, 2.5, 0], a: true}"),
        ("value: {b: [1, 2.5, null], a: true}", "value: {b: [1.0, 2.5, null], a: true}"),
        ("distinct: true", "distinct: false"),
        ("op: is_null", "op: is_not_null"),
        ("dynamic: false", "dynamic: true"),
        ("values: text", "values: keyword"),
        ("element_type: long", "element_type: integer"),
        ("opensearch: scaled_float", "opensearch: double"),
    ],
)
def test_what_a_newer_tag_carries_counts(before: str, after: str) -> None:
    assert of(TAGGED.replace(before, after)) != of(TAGGED)


def test_the_digest_of_a_large_schema_is_pinned() -> None:
    found = digest(parse_schema(LARGE, file="f"), SHAPE)
    assert found == "67cd795905e488649b986c071ed1e0672e23c06ed509c4f267f1d3c5e9d70b89"


def test_a_digest_is_a_sha256_in_hex() -> None:
    assert re.fullmatch("[0-9a-f]{64}", of(LARGE))


@pytest.mark.parametrize(
    "same",
    [
        pytest.param("# a comment\n" + SMALL, id="a comment"),
        pytest.param(
            "fields: [{text: name}]\nprimary_key: id\ntable: customers\nversion: 1", id="the order of keys"
        ),
        pytest.param(
            '{"version": 1, "table": "customers", "primary_key": ["id"], "fields": [{"text": "name"}]}',
            id="the way of writing",
        ),
        pytest.param(
            SMALL.replace("table:", "schema: public\ntable:")
            + "    column: name\n    required: false\n    transforms: []\n    options: {}\n",
            id="a default spelled out",
        ),
    ],
)
def test_does_not_change_the_digest(same: str) -> None:
    assert of(same) == of(SMALL)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("text: name", "keyword: name", id="another kind"),
        pytest.param("text: name", "text: names", id="another name"),
        pytest.param("  - text: name\n", "  - text: name\n    column: nom\n", id="another column"),
        pytest.param("  - text: name\n", "  - text: name\n    required: true\n", id="required"),
        pytest.param("table: customers", "table: clients", id="another table"),
        pytest.param("primary_key: id", "primary_key: key", id="another key"),
        pytest.param("fields:", "filters: [{raw: a}]\nfields:", id="a filter"),
        pytest.param("fields:", "soft_delete: {column: a}\nfields:", id="a soft delete"),
    ],
)
def test_changes_the_digest(before: str, after: str) -> None:
    assert of(SMALL.replace(before, after)) != of(SMALL)


def test_the_order_of_fields_counts_because_it_is_the_order_in_the_document() -> None:
    one = SMALL + "  - text: other\n"
    other = SMALL.replace("  - text: name", "  - text: other\n  - text: name")
    assert of(one) != of(other)


def test_the_shape_of_the_sink_counts() -> None:
    schema = parse_schema(SMALL, file="f")
    assert digest(schema, {"auto_subfields": True}) != digest(schema, {"auto_subfields": False})


def test_the_order_of_the_shape_does_not_count() -> None:
    schema = parse_schema(SMALL, file="f")
    assert digest(schema, {"a": 1, "b": 2}) == digest(schema, {"b": 2, "a": 1})
