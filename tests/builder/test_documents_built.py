"""Joins, aggregates, filters, order and soft deletion, from real rows to documents."""

from __future__ import annotations

import pytest
from declared import (
    belongs_to,
    compiled,
    count,
    document,
    documents,
    followed,
    has_many,
    has_one,
    many_to_many,
    root,
    scalar,
    seeded,
    table,
    total,
)

from fix_postgres import Database
from flusso.errors import BuildError
from flusso.schema.model import (
    ColumnFilter,
    Direction,
    Filter,
    FilterOp,
    Group,
    OrderBy,
    RawFilter,
    ScalarKind,
    SoftDelete,
    Through,
)

pytestmark = pytest.mark.postgres

SHOP = """
create table countries (code text primary key, name text);
create table users (id int primary key, name text, country text references countries,
  boss int references users, deleted_at timestamptz, is_gone bool);
create table orders (id int primary key, user_id int references users, total numeric(10,2), placed date);
create table items (id int primary key, order_id int references orders, sku text, qty int);
create table notes (id int primary key, item_id int references items, body text);
create table tags (id int primary key, label text);
create table user_tags (user_id int, tag_id int, primary key (user_id, tag_id));
insert into countries values ('it', 'Italy'), ('jp', 'Japan');
insert into users values (1, 'ada', 'it', null), (2, 'bob', 'jp', 1), (3, 'cy', null, 2);
insert into orders values (10, 1, 5.50, '2024-01-03'), (11, 1, 7.25, null), (12, 1, 1.00, '2024-01-01'),
  (13, 2, 9, '2024-01-02');
insert into items values (100, 10, 'a', 1), (101, 10, 'b', 2), (102, 12, 'c', 3);
insert into notes values (1000, 101, 'fragile'), (1001, 101, 'gift');
insert into tags values (1, 'red'), (2, 'blue'), (3, 'green');
insert into user_tags values (1, 3), (1, 1), (2, 2);
"""
TAGGED = Through(table("user_tags"), ("user_id",), ("tag_id",))


@pytest.fixture
def shop(database: Database) -> Database:
    database.execute(SHOP)
    return database


def test_joins_nest_three_deep_in_one_statement(shop: Database) -> None:
    notes = has_many("notes", "notes", ("item_id",), scalar("body"))
    items = has_many("items", "items", ("order_id",), scalar("sku"), notes)
    schema = root("users", has_many("orders", "orders", ("user_id",), scalar("id", "integer"), items))
    assert documents(shop, schema) == {
        "1": {
            "orders": [
                {
                    "id": 10,
                    "items": [
                        {"sku": "a", "notes": []},
                        {"sku": "b", "notes": [{"body": "fragile"}, {"body": "gift"}]},
                    ],
                },
                {"id": 11, "items": []},
                {"id": 12, "items": [{"sku": "c", "notes": []}]},
            ]
        },
        "2": {"orders": [{"id": 13, "items": []}]},
        "3": {"orders": []},
    }


def test_belongs_to_gives_an_object_or_null(shop: Database) -> None:
    schema = root("users", belongs_to("country", "countries", ("country",), scalar("name")))
    found = documents(shop, schema)
    assert found["1"] == {"country": {"name": "Italy"}}
    assert found["3"] == {"country": None}


def test_belongs_to_climbs_several_levels(shop: Database) -> None:
    country = belongs_to("country", "countries", ("country",), scalar("code", "keyword"))
    user = belongs_to("user", "users", ("user_id",), scalar("name"), country)
    schema = root("items", belongs_to("order", "orders", ("order_id",), user))
    assert document(shop, schema, "102") == {"order": {"user": {"name": "ada", "country": {"code": "it"}}}}


def test_a_table_may_join_itself(shop: Database) -> None:
    schema = root(
        "users",
        belongs_to(
            "boss", "users", ("boss",), scalar("name"), belongs_to("boss", "users", ("boss",), scalar("name"))
        ),
        has_many("reports", "users", ("boss",), scalar("name")),
    )
    assert document(shop, schema, "3") == {"boss": {"name": "bob", "boss": {"name": "ada"}}, "reports": []}
    assert document(shop, schema, "1") == {"boss": None, "reports": [{"name": "bob"}]}


def test_has_one_takes_the_first_in_order(shop: Database) -> None:
    newest = has_one(
        "newest",
        "orders",
        ("user_id",),
        scalar("id", "integer"),
        order_by=(OrderBy("placed", Direction.DESC),),
    )
    found = documents(shop, root("users", newest))
    assert found == {"1": {"newest": {"id": 10}}, "2": {"newest": {"id": 13}}, "3": {"newest": None}}


def test_many_to_many_goes_through_the_junction(shop: Database) -> None:
    schema = root("users", many_to_many("tags", "tags", scalar("label", "keyword"), through=TAGGED))
    found = documents(shop, schema)
    assert found["1"] == {"tags": [{"label": "red"}, {"label": "green"}]}
    assert found["3"] == {"tags": []}


def test_order_and_limit_apply_with_nulls_last(shop: Database) -> None:
    fields = scalar("id", "integer")
    up = has_many("up", "orders", ("user_id",), fields, order_by=(OrderBy("placed"),))
    down = has_many(
        "down", "orders", ("user_id",), fields, order_by=(OrderBy("placed", Direction.DESC),), limit=2
    )
    found = document(shop, root("users", up, down), "1")
    assert [row["id"] for row in found["up"]] == [12, 10, 11]
    assert [row["id"] for row in found["down"]] == [10, 12]


def test_a_count_is_never_null_and_a_sum_of_nothing_is(shop: Database) -> None:
    schema = root(
        "users",
        count("orders", "orders", ("user_id",)),
        total("spent", "orders", "total", ("user_id",), value_type=ScalarKind.DECIMAL),
        total("whole", "orders", "total", ("user_id",), value_type=ScalarKind.LONG),
        count("tags", "tags", through=TAGGED),
    )
    found = documents(shop, schema)
    assert found["1"] == {"orders": 3, "spent": 13.75, "whole": 14, "tags": 2}
    assert found["3"] == {"orders": 0, "spent": None, "whole": None, "tags": 0}


def test_a_count_beside_the_rows_it_counts_is_their_number(shop: Database) -> None:
    notes = has_many("notes", "notes", ("item_id",), scalar("body"))
    items = has_many(
        "items",
        "items",
        ("order_id",),
        scalar("sku"),
        count("d", "notes", ("item_id",)),
        notes,
        order_by=(OrderBy("sku", Direction.DESC),),
        limit=1,
    )
    orders = has_many("s", "orders", ("user_id",), items, filters=(RawFilter("total > 1"),))
    number = count("orders", "orders", ("user_id",), filters=(RawFilter("total > 1"),))
    found = documents(shop, root("users", number, scalar("name"), orders))
    assert found == {
        "1": {
            "orders": 2,
            "name": "ada",
            "s": [
                {"items": [{"sku": "b", "d": 2, "notes": [{"body": "fragile"}, {"body": "gift"}]}]},
                {"items": []},
            ],
        },
        "2": {"orders": 1, "name": "bob", "s": [{"items": []}]},
        "3": {"orders": 0, "name": "cy", "s": []},
    }
    assert list(found["1"]) == ["orders", "name", "s"]


def test_a_sum_with_nan_is_null(database: Database) -> None:
    database.execute(
        "create table p (id int primary key); create table c (id int primary key, p int, x float8)"
    )
    database.execute("insert into p values (1); insert into c values (1, 1, 'NaN'), (2, 1, 1)")
    assert document(database, root("p", total("x", "c", "x", ("p",)))) == {"x": None}


def test_a_sum_of_floats_beyond_what_an_index_takes_is_null_and_does_not_fail(database: Database) -> None:
    database.execute(
        "create table p (id int primary key); create table c (id int primary key, p int, x float8)"
    )
    database.execute("insert into p values (1); insert into c values (1, 1, 1.7e308), (2, 1, 1.7e308)")
    assert document(database, root("p", total("x", "c", "x", ("p",)))) == {"x": None}


def test_a_sum_of_floats_is_the_same_in_any_order_of_the_rows(database: Database) -> None:
    database.execute(
        "create table p (id int primary key); create table c (id int primary key, p int, x float8)"
    )
    database.execute(
        "insert into p values (1);"
        "insert into c values (1, 1, 1e16), (2, 1, 1), (3, 1, -1e16), (4, 1, 0.1), (5, 1, 0.2)"
    )
    assert document(database, root("p", total("x", "c", "x", ("p",)))) == {"x": 1.3}


def test_a_group_is_an_object_of_the_same_row(shop: Database) -> None:
    schema = root("users", Group("who", (scalar("name"), count("orders", "orders", ("user_id",)))))
    assert document(shop, schema, "2") == {"who": {"name": "bob", "orders": 1}}


FILTERS: list[tuple[Filter, list[int]]] = [
    (ColumnFilter("placed", FilterOp.IS_NULL), [11]),
    (ColumnFilter("placed", FilterOp.IS_NOT_NULL), [10, 12]),
    (ColumnFilter("total", FilterOp.EQ, ("5.5",)), [10]),
    (ColumnFilter("total", FilterOp.EQ, (5.5,)), [10]),
    (ColumnFilter("total", FilterOp.EQ, (5.504,)), []),
    (ColumnFilter("total", FilterOp.NEQ, (5.5,)), [11, 12]),
    (ColumnFilter("total", FilterOp.LT, (5.5,)), [12]),
    (ColumnFilter("total", FilterOp.LTE, (5.5,)), [10, 12]),
    (ColumnFilter("total", FilterOp.GT, (5.5,)), [11]),
    (ColumnFilter("total", FilterOp.GTE, (5.5,)), [10, 11]),
    (ColumnFilter("total", FilterOp.LIKE, ("%.25",)), [11]),
    (ColumnFilter("total", FilterOp.ILIKE, ("7%",)), [11]),
    (ColumnFilter("id", FilterOp.IN, (10, 12, 99)), [10, 12]),
    (ColumnFilter("id", FilterOp.IN, ()), []),
    (ColumnFilter("id", FilterOp.NOT_IN, (10, 12)), [11]),
    (ColumnFilter("placed", FilterOp.BETWEEN, ("2024-01-01", "2024-01-02")), [12]),
    (RawFilter("total > 5 and id <> 11 -- not that one"), [10]),
    (RawFilter("orders.id = 11"), [11]),
]


def test_every_filter_selects_its_rows(shop: Database) -> None:
    fields = [
        has_many(f"f{n}", "orders", ("user_id",), scalar("id", "integer"), filters=(item,))
        for n, (item, _) in enumerate(FILTERS)
    ]
    found = document(shop, root("users", *fields), "1")
    assert {name: [row["id"] for row in rows] for name, rows in found.items()} == {
        f"f{n}": expected for n, (_, expected) in enumerate(FILTERS)
    }


def test_operands_are_text_to_the_database_whatever_they_hold(shop: Database) -> None:
    shop.execute("update users set name = %s where id = 1", "a\"b\\c','{}")
    evil = ("a\"b\\c','{}", "it's")
    schema = root("users", scalar("name"), filters=(ColumnFilter("name", FilterOp.IN, evil),))
    assert documents(shop, schema) == {"1": {"name": evil[0]}}


def test_a_raw_filter_means_its_own_tables_columns(shop: Database) -> None:
    # Both orders and users have an id; the junction of tags has none but a tag_id.
    schema = root(
        "users",
        count("few", "orders", ("user_id",), filters=(RawFilter("id = 10"),)),
        many_to_many("tags", "tags", scalar("label"), through=TAGGED, filters=(RawFilter("id = 3"),)),
        filters=(RawFilter("id < 3"),),
    )
    assert documents(shop, schema) == {
        "1": {"few": 1, "tags": [{"label": "green"}]},
        "2": {"few": 0, "tags": []},
    }


def test_a_root_row_that_a_filter_leaves_out_is_a_removal(shop: Database) -> None:
    schema = root("users", scalar("name"), filters=(ColumnFilter("country", FilterOp.EQ, ("it",)),))
    assert document(shop, schema, "2") is None
    assert document(shop, schema, "1") == {"name": "ada"}


def test_soft_deletion_hides_roots_and_related_rows(shop: Database) -> None:
    shop.execute("update users set deleted_at = now() where id = 2")
    reports = has_many(
        "reports", "users", ("boss",), scalar("id", "integer"), soft_delete=SoftDelete("deleted_at")
    )
    schema = root("users", reports, soft_delete=SoftDelete("deleted_at"))
    assert documents(shop, schema) == {"1": {"reports": []}, "3": {"reports": []}}


def test_a_boolean_soft_delete_column_deletes_when_true(shop: Database) -> None:
    shop.execute("update users set is_gone = (id = 2) where id < 3")
    schema = root("users", scalar("id", "integer"), soft_delete=SoftDelete("is_gone"))
    assert sorted(documents(shop, schema)) == ["1", "3"]


def test_soft_deletion_is_narrowed_by_when(shop: Database) -> None:
    shop.execute("update users set deleted_at = now()")
    when = (ColumnFilter("country", FilterOp.EQ, ("it",)), RawFilter("name = 'ada'"))
    schema = root("users", scalar("id", "integer"), soft_delete=SoftDelete("deleted_at", when))
    assert sorted(documents(shop, schema)) == ["2", "3"]


def test_composite_keys_join_and_identify(database: Database) -> None:
    database.execute("create table a (x int, y text, note text, primary key (x, y))")
    database.execute("create table b (id int primary key, ax int, ay text)")
    database.execute("insert into a values (1, 'p|q', 'one'), (1, 'r', 'two')")
    database.execute("insert into b values (1, 1, 'r'), (2, 1, 'p|q'), (3, 1, 'r')")
    schema = root("a", scalar("note"), has_many("bs", "b", ("ax", "ay"), scalar("id", "integer")))
    plan = compiled(database, schema)
    assert {built.id: built.body for built in seeded(database, plan)} == {
        "1|p\\|q": b'{"note":"one","bs":[{"id":2}]}',
        "1|r": b'{"note":"two","bs":[{"id":1},{"id":3}]}',
    }
    built = followed(database, plan, ("1", "r"), ("1", "p|q"), ("2", "r"))
    assert {item.id: item.body is None for item in built} == {"1|r": False, "1|p\\|q": False, "2|r": True}


def test_names_keep_their_case_spaces_and_quotes(database: Database) -> None:
    database.execute('create schema "My Shop"')
    database.execute('create table "My Shop"."User" ("Id" int primary key, "full ""name""" text)')
    database.execute('insert into "My Shop"."User" values (1, \'ada\')')
    schema = root("x", scalar('Größe "q"', column='full "name"'))
    mixed = type(schema)(table("User", "My Shop"), schema.fields, filters=(RawFilter('"Id" = 1'),))
    assert document(database, mixed) == {'Größe "q"': "ada"}


def test_a_field_without_a_column_of_its_name_takes_the_folded_one(shop: Database) -> None:
    boss = belongs_to("Boss", "users", ("Boss",), scalar("Name"))
    schema = root("users", scalar("Name"), Group("More", (scalar("IS_GONE", "boolean"),)), boss)
    assert document(shop, schema, "2") == {"Name": "bob", "More": {"IS_GONE": None}, "Boss": {"Name": "ada"}}
    shop.execute("alter table users add \"Name\" text default 'exact'")
    assert document(shop, schema, "2")["Name"] == "exact"


def test_a_field_name_too_long_for_an_alias_is_kept(shop: Database) -> None:
    name = "ü'\"" * 40
    orders = has_many("orders", "orders", ("user_id",), scalar(name, "integer", "id"), limit=1)
    schema = root("users", scalar(name, column="name"), scalar("country"), orders)
    assert document(shop, schema, "2") == {name: "bob", "country": "jp", "orders": [{name: 13}]}


def test_a_level_may_have_hundreds_of_fields(shop: Database) -> None:
    fields = [scalar(f"f{n}", column="name") for n in range(400)]
    orders = has_many(
        "orders", "orders", ("user_id",), *(scalar(f"o{n}", "integer", "id") for n in range(400))
    )
    found = document(shop, root("users", *fields, orders), "2")
    assert len(found) == 401
    assert len(found["orders"][0]) == 400


def test_a_field_may_be_called_like_an_alias(shop: Database) -> None:
    schema = root("users", scalar("d", column="name"), scalar("t0", column="country"))
    assert document(shop, schema, "1") == {"d": "ada", "t0": "it"}


def test_seeding_and_following_give_the_same_bytes(shop: Database) -> None:
    items = has_many("items", "items", ("order_id",), scalar("sku"), filters=(RawFilter("qty > 0"),))
    schema = root(
        "users",
        scalar("name"),
        has_many("orders", "orders", ("user_id",), scalar("total", "decimal"), items),
        many_to_many("tags", "tags", scalar("label"), through=TAGGED),
        belongs_to("country", "countries", ("country",), scalar("name")),
        total("spent", "orders", "total", ("user_id",), filters=(ColumnFilter("total", FilterOp.GT, (1,)),)),
        filters=(ColumnFilter("id", FilterOp.LT, (100,)),),
    )
    plan = compiled(shop, schema)
    by_range = {built.id: built.body for built in seeded(shop, plan)}
    assert by_range == {built.id: built.body for built in followed(shop, plan, ("1",), ("2",), ("3",))}
    assert len(by_range) == 3


def test_a_statement_that_fails_names_the_index_and_no_row_value(database: Database) -> None:
    database.execute("create table things (id int primary key, a text)")
    database.execute("insert into things values (1, 'secret-value')")
    schema = root("things", scalar("a"), filters=(RawFilter("no_such_column = 1"),))
    plan = compiled(database, schema)
    with pytest.raises(BuildError, match='index "things"'):
        followed(database, plan, ("1",))


def test_a_value_that_does_not_fit_is_not_told(database: Database) -> None:
    database.execute("create table things (id int primary key, a text)")
    database.execute("insert into things values (1, 'secret-value')")
    plan = compiled(database, root("things", scalar("a"), filters=(RawFilter("a::int > 1"),)))
    with pytest.raises(BuildError) as raised:
        seeded(database, plan)
    assert 'index "things"' in str(raised.value)
    assert "22P02" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
