"""Every tag beyond scalars and joins, from real rows to documents: constants, custom types, aggregates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from declared import (
    aggregate,
    belongs_to,
    compiled,
    count,
    document,
    documents,
    followed,
    has_many,
    many_to_many,
    root,
    scalar,
    seeded,
    table,
)

from fix_postgres import Database
from flusso.schema.model import (
    ColumnFilter,
    Constant,
    Custom,
    FilterOp,
    Group,
    IndexSchema,
    Json,
    RawFilter,
    ScalarKind,
    SoftDelete,
    Through,
)

pytestmark = pytest.mark.postgres

SHOP = """
create type mood as enum ('sad', 'glad');
create table users (id int primary key, name text, address inet, code uuid);
create table orders (id bigint primary key, user_id int, total numeric(10,2), paid bool, placed timestamptz,
  day date, label text, ref uuid, weight float8, price money, mood mood, parts int4range, gone timestamptz);
create table tags (id int primary key, label text, weight int, hidden bool);
create table user_tags (id int primary key, user_id int, tag_id int, removed bool);
create table places (x int, y text, user_id int, primary key (x, y));
insert into users values (1, 'ada', '10.0.0.1', null), (2, 'bob', null, null);
insert into orders values
  (10, 1, 5.50, true, '2024-01-03 10:00+01', '2024-01-03', 'b', '00000000-0000-0000-0000-00000000000b', 1.5,
    '7.10', 'glad', '[1,5)'),
  (11, 1, 7.25, false, null, 'infinity', 'C', '00000000-0000-0000-0000-00000000000a', -2,
    '1.20', 'sad', null),
  (12, 1, null, null, '2023-12-31 00:00+00', '2024-01-01', null, null, null, null, null, 'empty');
insert into tags values (1, 'red', 3, false), (2, 'blue', 5, true), (3, 'green', 7, false);
insert into user_tags values (1, 1, 3, false), (2, 1, 1, false), (3, 1, 3, false), (4, 1, 2, true);
insert into places values (2, 'b|c', 1), (1, 'a\\d', 1);
"""
TAGGED = Through(table("user_tags"), ("user_id",), ("tag_id",))
LIVE = Through(
    table("user_tags"), ("user_id",), ("tag_id",), (ColumnFilter("removed", FilterOp.EQ, (False,)),)
)


@pytest.fixture
def shop(database: Database) -> Database:
    database.execute(SHOP)
    return database


def test_a_constant_keeps_its_json_type(shop: Database) -> None:
    values: dict[str, Json] = {
        "text": 'it\'s "q" \\ é',
        "whole": 7,
        "real": 1.0,
        "flag": False,
        "nothing": None,
        "list": [1, "a", None],
        "object": {"b": {"c": []}, "a": "\n"},
    }
    fields = [Constant(name, value) for name, value in values.items()]
    (built,) = followed(shop, compiled(shop, root("users", *fields)), ("1",))
    assert built.body is not None
    assert json.loads(built.body) == values
    assert b'"real":1.0' in built.body
    assert b"\n" not in built.body


def reduced(kind: str, column: str, value_type: str | None = None, **extra: Any) -> Any:
    return aggregate(
        f"{kind}_{column}",
        kind,
        "orders",
        ("user_id",),
        column=column,
        value_type=None if value_type is None else ScalarKind(value_type),
        **extra,
    )


def test_aggregates_reduce_every_type_that_has_an_order(shop: Database) -> None:
    schema = root(
        "users",
        reduced("avg", "total"),
        reduced("avg", "weight"),
        reduced("avg", "price"),
        reduced("avg", "id"),
        reduced("min", "total", "decimal"),
        reduced("max", "total", "long"),
        reduced("max", "placed", "timestamp"),
        reduced("min", "day", "date"),
        reduced("max", "day", "date"),
        reduced("min", "label", "keyword"),
        reduced("max", "ref", "uuid"),
        reduced("max", "paid", "boolean"),
        reduced("min", "mood", "enum"),
        reduced("max", "id", "long"),
        reduced("min", "price", "decimal"),
    )
    found = documents(shop, schema)
    assert found["1"] == {
        "avg_total": 6.375,
        "avg_weight": -0.25,
        "avg_price": 4.15,
        "avg_id": 11,
        "min_total": 5.5,
        "max_total": 7,
        "max_placed": "2024-01-03T09:00:00Z",
        "min_day": "2024-01-01",
        "max_day": None,
        "min_label": "b" if shop.execute("select 'b' < 'C'")[0][0] else "C",
        "max_ref": "00000000-0000-0000-0000-00000000000b",
        "max_paid": True,
        "min_mood": "sad",
        "max_id": 12,
        "min_price": 1.2,
    }
    assert set(found["2"].values()) == {None}


def test_aggregates_honour_filters_and_soft_deletion(shop: Database) -> None:
    shop.execute("update orders set gone = now() where id = 12")
    filters = (ColumnFilter("total", FilterOp.GT, (6,)),)
    live = {"soft_delete": SoftDelete("gone")}
    schema = root(
        "users",
        reduced("max", "total", "decimal", filters=(RawFilter("total < 6"),)),
        aggregate("ids", "ids", "orders", ("user_id",), filters=filters, element_type=ScalarKind.LONG),
        aggregate("live", "ids", "orders", ("user_id",), element_type=ScalarKind.LONG, **live),
        count("count", "orders", ("user_id",), **live),
        has_many("orders", "orders", ("user_id",), scalar("id", "long"), **live),
    )
    assert document(shop, schema) == {
        "max_total": 5.5,
        "ids": [11],
        "live": [10, 11],
        "count": 2,
        "orders": [{"id": 10}, {"id": 11}],
    }


def test_ids_are_in_the_order_of_the_key_and_never_null(shop: Database) -> None:
    schema = root(
        "users",
        aggregate("orders", "ids", "orders", ("user_id",), element_type=ScalarKind.LONG),
        aggregate("texts", "ids", "orders", ("user_id",), element_type=ScalarKind.KEYWORD),
        aggregate("places", "ids", "places", ("user_id",), element_type=ScalarKind.KEYWORD),
    )
    found = documents(shop, schema)
    assert found["1"] == {
        "orders": [10, 11, 12],
        "texts": ["10", "11", "12"],
        "places": ["1|a\\\\d", "2|b\\|c"],
    }
    assert found["2"] == {"orders": [], "texts": [], "places": []}


def through(name: str, kind: str, way: Through, **extra: Any) -> Any:
    return aggregate(name, kind, "tags", through=way, **extra)


def test_aggregates_go_through_a_junction_row_by_row_or_distinct(shop: Database) -> None:
    weight = {"column": "weight", "value_type": ScalarKind.LONG}
    ids = {"element_type": ScalarKind.LONG}
    visible = {"soft_delete": SoftDelete("hidden")}
    schema = root(
        "users",
        through("all", "count", TAGGED),
        through("each", "count", TAGGED, is_distinct=True),
        through("sum", "sum", TAGGED, **weight),
        through("sum_each", "sum", TAGGED, is_distinct=True, **weight),
        through("avg", "avg", LIVE, column="weight", is_distinct=True),
        through("min", "min", LIVE, **weight),
        through("max", "max", LIVE, **weight, filters=(ColumnFilter("label", FilterOp.NEQ, ("green",)),)),
        through("ids", "ids", TAGGED, **ids),
        through("ids_each", "ids", LIVE, is_distinct=True, **ids),
        through("ids_filtered", "ids", LIVE, **ids, filters=(RawFilter("id > 1"),)),
        through("ids_visible", "ids", TAGGED, is_distinct=True, **ids, **visible),
        many_to_many("tags", "tags", scalar("label"), through=LIVE),
    )
    found = documents(shop, schema)
    assert found["1"] == {
        "all": 4,
        "each": 3,
        "sum": 22,
        "sum_each": 15,
        "avg": 5,
        "min": 3,
        "max": 3,
        "ids": [1, 2, 3, 3],
        "ids_each": [1, 3],
        "ids_filtered": [3, 3],
        "ids_visible": [1, 3],
        "tags": [{"label": "red"}, {"label": "green"}, {"label": "green"}],
    }
    assert (found["2"]["all"], found["2"]["ids"], found["2"]["tags"]) == (0, [], [])


def test_a_raw_filter_on_a_junction_means_the_junctions_columns(shop: Database) -> None:
    way = Through(table("user_tags"), ("user_id",), ("tag_id",), (RawFilter("id = 1"),))
    schema = root("users", through("ids", "ids", way, element_type=ScalarKind.LONG))
    assert document(shop, schema) == {"ids": [3]}


def test_a_custom_field_is_the_columns_own_json(shop: Database) -> None:
    schema = root(
        "users",
        Custom("address", "address", ("inet",), "ip"),
        Custom("other", "address", ("inet",), "ip", default="127.0.0.1"),
        belongs_to("first", "orders", ("id",), Custom("total", "total", ("numeric",), "scaled_float")),
    )
    assert document(shop, schema, "1") == {"address": "10.0.0.1", "other": "10.0.0.1", "first": None}
    assert document(shop, schema, "2") == {"address": None, "other": "127.0.0.1", "first": None}


def many_fields() -> IndexSchema:
    long_name = "n" * 100
    inner = (scalar(long_name, "keyword", "label"), *(Constant(f"c{n}", n) for n in range(2000)))
    return root(
        "users",
        *(scalar(f"f{n}", column="name") for n in range(1700)),
        Group("group", tuple(Constant(f"g{n}", n) for n in range(1601))),
        has_many("orders", "orders", ("user_id",), *inner, limit=1),
        scalar("last", column="name"),
    )


def test_a_level_may_have_more_fields_than_a_select_has_columns(shop: Database) -> None:
    schema = many_fields()
    found = document(shop, schema)
    assert list(found) == [item.name for item in schema.fields]
    assert found["f1699"] == found["last"] == "ada"
    assert found["group"] == {f"g{n}": n for n in range(1601)}
    assert list(found["orders"][0]) == ["n" * 100, *(f"c{n}" for n in range(2000))]
    plan = compiled(shop, schema)
    assert seeded(shop, plan)[0].body == followed(shop, plan, ("1",))[0].body
