"""What a good schema file means, and how problems are reported."""

from __future__ import annotations

import pickle

import pytest

from flusso.catalog import TableName
from flusso.diagnostic import Code, Diagnostic, Excerpt
from flusso.errors import SchemaError
from flusso.schema.model import (
    Aggregate,
    AggregateKind,
    ColumnFilter,
    Direction,
    Field,
    FilterOp,
    Group,
    IndexSchema,
    Join,
    JoinKind,
    OrderBy,
    RawFilter,
    Scalar,
    ScalarKind,
    SoftDelete,
    Through,
    Transform,
)
from flusso.schema.parse import parse_schema

HEAD = "version: 1\ntable: customers\nprimary_key: id\n"


def parse(text: str) -> IndexSchema:
    return parse_schema(text, file="customers.schema.yml")


def field(text: str) -> Field:
    (found,) = parse(f"{HEAD}fields:\n{text}").fields
    return found


def join(text: str) -> Join:
    found = field(text)
    assert isinstance(found, Join)
    return found


def test_the_root_takes_its_table_from_public_unless_told_otherwise() -> None:
    assert parse(HEAD + "fields: [{text: a}]").table == TableName("public", "customers")


def test_the_root_takes_its_table_from_the_schema_it_names() -> None:
    assert parse(HEAD + "schema: shop\nfields: [{text: a}]").table == TableName("shop", "customers")


def test_a_key_may_be_a_list_of_columns() -> None:
    assert parse("version: 1\ntable: t\nprimary_key: [a, b]\nfields: [{text: x}]").primary_key == ("a", "b")


def test_without_a_primary_key_the_catalog_decides() -> None:
    assert parse("version: 1\ntable: t\nfields: [{text: x}]").primary_key == ()


@pytest.mark.parametrize("kind", ScalarKind)
def test_every_scalar_tag_is_read(kind: ScalarKind) -> None:
    assert field(f"- {kind}: a") == Scalar("a", kind, "a")


def test_a_scalar_carries_all_its_siblings() -> None:
    text = """
- keyword: email
  column: email_address
  required: true
  default: none
  transforms: [trim, lowercase]
  options: {ignore_above: 10, meta: {unit: x, list: [1, 2.5, null]}}
"""
    assert field(text) == Scalar(
        "email",
        ScalarKind.KEYWORD,
        "email_address",
        is_required=True,
        default="none",
        transforms=(Transform.TRIM, Transform.LOWERCASE),
        options={"ignore_above": 10, "meta": {"unit": "x", "list": [1, 2.5, None]}},
    )


def test_variants_keep_their_order() -> None:
    assert field("- enum: a\n  variants: [low, high, mid]") == Scalar(
        "a", ScalarKind.ENUM, "a", variants=("low", "high", "mid")
    )


def test_a_default_of_an_array_column_may_be_a_list() -> None:
    found = field("- integer: a\n  default: []")
    assert isinstance(found, Scalar)
    assert found.default == []


def test_a_group_has_fields_of_the_same_row() -> None:
    assert field("- object: g\n  fields: [{text: a}]") == Group("g", (Scalar("a", ScalarKind.TEXT, "a"),))


def test_belongs_to_takes_the_name_of_the_field_for_its_column() -> None:
    assert join("- belongs_to: city_id\n  table: cities\n  fields: [{text: a}]").column == ("city_id",)


def test_belongs_to_may_refer_by_several_columns() -> None:
    found = join(
        "- belongs_to: p\n  table: t\n  column: [a, b]\n  primary_key: [c, d]\n  fields: [{text: a}]"
    )
    assert (found.column, found.primary_key) == (("a", "b"), ("c", "d"))


def test_has_one_may_be_required() -> None:
    text = "- has_one: p\n  table: t\n  foreign_key: x\n  required: true\n  fields: [{text: a}]"
    assert join(text).is_required


def test_has_many_carries_all_its_siblings() -> None:
    text = """
- has_many: orders
  table: orders
  schema: sales
  primary_key: id
  foreign_key: customer_id
  filters: [{column: status, op: neq, value: cancelled}]
  order_by: [{column: placed_at, direction: desc}, {column: id}]
  limit: 5
  soft_delete: {field: gone, when: [{column: a, op: is_null}]}
  fields:
    - boolean: gone
      column: is_gone
"""
    assert field(text) == Join(
        name="orders",
        kind=JoinKind.HAS_MANY,
        table=TableName("sales", "orders"),
        primary_key=("id",),
        fields=(Scalar("gone", ScalarKind.BOOLEAN, "is_gone"),),
        foreign_key=("customer_id",),
        filters=(ColumnFilter("status", FilterOp.NEQ, ("cancelled",)),),
        order_by=(OrderBy("placed_at", Direction.DESC), OrderBy("id")),
        limit=5,
        soft_delete=SoftDelete("is_gone", (ColumnFilter("a", FilterOp.IS_NULL),)),
    )


def test_many_to_many_goes_through_its_junction() -> None:
    text = """
- many_to_many: tags
  table: tags
  primary_key: id
  through: {table: customer_tags, schema: links, left_key: customer_id, right_key: tag_id}
  fields: [{keyword: label}]
"""
    expected = Through(TableName("links", "customer_tags"), ("customer_id",), ("tag_id",))
    assert join(text).through == expected


def test_a_join_and_its_junction_are_in_the_schema_of_the_root_unless_told_otherwise() -> None:
    text = """
schema: shop
fields:
- many_to_many: tags
  table: tags
  through: {table: j, left_key: a, right_key: b}
  fields: [{keyword: label}]
"""
    (found,) = parse(HEAD + text).fields
    assert isinstance(found, Join)
    assert found.through is not None
    assert (found.table.schema, found.through.table.schema) == ("shop", "shop")


def test_joins_nest_and_may_return_to_the_table_of_the_root() -> None:
    text = """
- belongs_to: boss_id
  table: customers
  fields:
    - belongs_to: boss_id
      table: customers
      fields: [{text: name}]
"""
    inner = join(text).fields[0]
    assert isinstance(inner, Join)
    assert inner.table == TableName("public", "customers")


def test_a_count_is_reached_by_a_foreign_key() -> None:
    assert field("- count: n\n  table: orders\n  foreign_key: customer_id") == Aggregate(
        "n", AggregateKind.COUNT, TableName("public", "orders"), foreign_key=("customer_id",)
    )


def test_a_sum_is_reached_through_a_junction() -> None:
    text = """
- sum: points
  table: badges
  through: {table: earned, left_key: customer_id, right_key: badge_id}
  column: points
  value_type: long
"""
    assert field(text) == Aggregate(
        "points",
        AggregateKind.SUM,
        TableName("public", "badges"),
        through=Through(TableName("public", "earned"), ("customer_id",), ("badge_id",)),
        column="points",
        value_type=ScalarKind.LONG,
    )


def test_filters_are_read_in_every_form() -> None:
    text = """
filters:
  - {raw: "a > b"}
  - {column: a, op: is_not_null}
  - {column: a, op: gte, value: 1.5}
  - {column: a, op: ilike, value: "x%"}
  - {column: a, op: not_in, value: [1, two, true]}
  - {column: a, op: between, value: [2024-01-01, 2024-12-31]}
fields: [{text: a}]
"""
    assert parse(HEAD + text).filters == (
        RawFilter("a > b"),
        ColumnFilter("a", FilterOp.IS_NOT_NULL),
        ColumnFilter("a", FilterOp.GTE, (1.5,)),
        ColumnFilter("a", FilterOp.ILIKE, ("x%",)),
        ColumnFilter("a", FilterOp.NOT_IN, (1, "two", True)),
        ColumnFilter("a", FilterOp.BETWEEN, ("2024-01-01", "2024-12-31")),
    )


def test_a_soft_delete_by_field_means_the_column_of_that_field() -> None:
    text = "soft_delete: {field: gone}\nfields: [{timestamp: gone, column: deleted_at}]"
    assert parse(HEAD + text).soft_delete == SoftDelete("deleted_at")


def test_names_are_kept_as_they_are_written() -> None:
    assert parse('version: 1\ntable: "Odd Table"\nfields: [{text: a}]').table.name == "Odd Table"


def test_all_problems_of_a_file_are_reported_at_once_from_top_to_bottom() -> None:
    with pytest.raises(SchemaError) as caught:
        parse("version: 3\ntable: 1\nfields: [{txt: a}, {text: b, limit: 1}]")
    assert [problem.line for problem in caught.value.problems] == [1, 2, 3, 3]


def test_a_problem_reads_as_file_line_column_path_message() -> None:
    with pytest.raises(SchemaError) as caught:
        parse(HEAD + "fields:\n  - text: a\n    colum: b")
    assert str(caught.value) == (
        'customers.schema.yml:6:5: fields[0].colum: unknown key "colum": did you mean "column"?'
    )
    assert caught.value.problems == (
        Diagnostic(
            Code.UNKNOWN_KEY,
            'unknown key "colum"',
            'did you mean "column"?',
            "customers.schema.yml",
            6,
            5,
            5,
            "fields[0].colum",
            excerpt=Excerpt("    colum: b", 4, 5),
        ),
    )


def test_the_text_of_all_problems_survives_pickling() -> None:
    with pytest.raises(SchemaError) as caught:
        parse("version: 3\ntable: 1\nfields: []")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, SchemaError)
    assert str(again) == str(caught.value)
