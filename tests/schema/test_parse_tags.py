"""What the tags beyond scalars and joins mean, and what any tag may carry."""

from __future__ import annotations

import pytest

from flusso.catalog import TableName
from flusso.schema.model import (
    Aggregate,
    AggregateKind,
    ColumnFilter,
    Constant,
    Custom,
    Field,
    FilterOp,
    Geo,
    Group,
    Join,
    Json,
    Map,
    Scalar,
    ScalarKind,
    SoftDelete,
    Through,
)
from flusso.schema.parse import parse_schema

HEAD = "version: 1\ntable: shops\nprimary_key: id\nfields:\n"


def field(text: str) -> Field:
    (found,) = parse_schema(HEAD + text, file="f").fields
    return found


def test_a_custom_field_names_its_types() -> None:
    text = (
        "- custom: price\n  column: cents\n  postgres: [numeric, integer]\n  opensearch: scaled_float\n"
        "  required: true\n  default: 0\n  options: {scaling_factor: 100}"
    )
    assert field(text) == Custom(
        "price",
        "cents",
        ("numeric", "integer"),
        "scaled_float",
        is_required=True,
        default=0,
        options={"scaling_factor": 100},
    )


def test_a_custom_field_takes_one_type_without_a_list() -> None:
    assert field("- custom: a\n  postgres: inet\n  opensearch: ip") == Custom("a", "a", ("inet",), "ip")


def test_a_point_has_two_columns_or_one_or_that_of_its_name() -> None:
    assert field("- geo: a\n  lat: y\n  lon: x") == Geo("a", lat="y", lon="x")
    assert field("- geo: a\n  column: b\n  required: true") == Geo("a", "b", is_required=True)
    assert field("- geo: a") == Geo("a", "a")


def test_a_map_names_the_kind_of_its_values() -> None:
    assert field("- map: title\n  values: text\n  column: titles\n  options: {dynamic: false}") == Map(
        "title", "titles", ScalarKind.TEXT, options={"dynamic": False}
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("crm", "crm"),
        ("7", 7),
        ("1.0", 1.0),
        ("true", True),
        ("null", None),
        ("[1, {a: b}]", [1, {"a": "b"}]),
        ("'2024-01-01'", "2024-01-01"),
    ],
)
def test_a_constant_is_any_json(text: str, value: Json) -> None:
    found = field(f"- constant: a\n  value: {text}")
    assert found == Constant("a", value)
    assert isinstance(found, Constant)
    assert type(found.value) is type(value)


def test_a_constant_without_a_value_is_null() -> None:
    assert field("- constant: a") == Constant("a", None)


@pytest.mark.parametrize("kind", ["min", "max"])
def test_the_least_and_the_greatest_are_of_any_kind(kind: str) -> None:
    text = f"- {kind}: a\n  table: t\n  foreign_key: f\n  column: c\n  value_type: timestamp"
    assert field(text) == Aggregate(
        "a",
        AggregateKind(kind),
        TableName("public", "t"),
        foreign_key=("f",),
        column="c",
        value_type=ScalarKind.TIMESTAMP,
    )


def test_ids_go_through_a_filtered_junction_each_once() -> None:
    text = (
        "- ids: a\n  table: t\n  element_type: long\n  distinct: true\n  soft_delete: {column: gone}\n"
        "  through: {table: j, left_key: l, right_key: r, filters: [{column: c, op: is_null}]}"
    )
    junction = Through(TableName("public", "j"), ("l",), ("r",), (ColumnFilter("c", FilterOp.IS_NULL),))
    assert field(text) == Aggregate(
        "a",
        AggregateKind.IDS,
        TableName("public", "t"),
        through=junction,
        element_type=ScalarKind.LONG,
        is_distinct=True,
        soft_delete=SoftDelete("gone"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "- object: a\n  fields: [{text: b}]",
        "- has_many: a\n  table: t\n  foreign_key: f\n  fields: [{text: b}]",
        "- belongs_to: a\n  table: t\n  fields: [{text: b}]",
        "- count: a\n  table: t\n  foreign_key: f",
        "- constant: a",
        "- geo: a",
        "- map: a\n  values: text",
    ],
)
def test_options_go_with_every_tag_that_is_mapped(text: str) -> None:
    found = field(f"{text}\n  options: {{enabled: false}}")
    assert found.options == {"enabled": False}


def test_a_key_that_is_null_counts_as_absent() -> None:
    found = field(
        "- has_many: a\n  table: t\n  foreign_key: f\n  filters:\n  order_by: ~\n  limit:\n"
        "  fields: [{text: b}]"
    )
    assert isinstance(found, Join)
    assert (found.filters, found.order_by, found.limit) == ((), (), None)
    bare = parse_schema(
        "version: 1\ntable: t\nprimary_key:\nfilters: ~\nsoft_delete:\nfields: [{text: a}]", file="f"
    )
    assert bare == parse_schema("version: 1\ntable: t\nfields: [{text: a}]", file="f")


def test_an_enum_without_variants_is_a_plain_keyword() -> None:
    assert field("- enum: a\n  variants: []") == field("- enum: a") == Scalar("a", ScalarKind.ENUM, "a")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("text", "7", "7"),
        ("keyword", "true", "true"),
        ("long", "'12'", 12),
        ("double", "'1.5'", 1.5),
        ("boolean", "'true'", True),
        ("date", "2024-12-31", "2024-12-31"),
        ("timestamp", "2024-12-31 10:00:00+02:00", "2024-12-31T08:00:00Z"),
        ("timestamp", "2024-12-31 10:00", "2024-12-31T10:00:00"),
        ("timestamp", "'10:30'", "10:30:00"),
        ("uuid", "'{0000000000000000000000000000000A}'", "00000000-0000-0000-0000-00000000000a"),
        ("json", "{a: [1]}", {"a": [1]}),
        ("integer", "null", None),
    ],
)
def test_a_default_has_the_form_that_its_kind_has_in_a_document(kind: str, text: str, value: Json) -> None:
    found = field(f"- {kind}: a\n  default: {text}")
    assert isinstance(found, Scalar)
    assert found.default == value


def test_a_soft_delete_by_field_finds_the_fields_of_groups_too() -> None:
    text = "- object: state\n  fields:\n    - timestamp: deletedAt\n      column: deleted_at\n"
    schema = parse_schema(f"{HEAD}{text}soft_delete: {{field: deletedAt}}", file="f")
    assert schema.soft_delete == SoftDelete("deleted_at")
    assert isinstance(schema.fields[0], Group)
