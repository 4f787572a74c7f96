"""Under the default replica identity, with nothing altered in the database: the rows that a document was
built from are kept as tokens, and what a row leaves is found by its token."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from declared import aggregate, belongs_to, count, has_many, many_to_many, root, scalar, table
from follower import following
from test_following import CHANGES, INDEXES, TABLES

from fix_postgres import Database
from flusso.builder.plan import IndexPlan, compile_index, watched_tables
from flusso.builder.read import read_documents
from flusso.builder.references import Reference, find_references, token_of, tokens_of
from flusso.builder.resolve import find_hidden
from flusso.change import Operation
from flusso.debt import Owed, Scope
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import (
    AggregateKind,
    ColumnFilter,
    Direction,
    FilterOp,
    IndexSchema,
    OrderBy,
    ScalarKind,
    Through,
    tables_of,
)
from flusso.sinks.base import Sink
from flusso.sinks.sqlite import SqliteSpec

pytestmark = pytest.mark.postgres

AS_IT_COMES = "\n".join(line for line in TABLES.splitlines() if "replica identity" not in line)

SHOP = """
create table users (id int primary key, code text unique not null, name text);
create table orders (id int primary key, user_id int, total numeric, placed date, open bool default true);
create table items (id int primary key, order_id int, sku text);
create table tags (id int primary key, label text);
create table user_tags (id int primary key, user_id int, tag_id int);
insert into users values (1, 'a', 'ada'), (2, 'b', 'bob');
insert into orders values (10, 1, 5, '2024-01-01'), (11, 1, 9, '2024-01-02'), (12, 1, 9, '2024-01-03'),
  (13, 2, 1, '2024-01-01');
update orders set open = false where id = 12;
insert into items values (100, 10, 'x'), (101, 11, 'y'), (102, 12, 'z'), (103, 13, 'x');
insert into tags values (1, 'red'), (2, 'blue');
insert into user_tags values (1, 1, 1), (2, 1, 2), (3, 1, 1);
"""
ORDERS = has_many("orders", "orders", ("user_id",), scalar("id", "integer"))
JUNCTION = Through(table("user_tags"), ("user_id",), ("tag_id",))


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    opened = SqliteSpec("kept", tmp_path / "kept.db").open()
    yield opened
    opened.close()


def referring(database: Database, schema: IndexSchema) -> IndexPlan:
    with database.connect() as conn:
        catalog = read_catalog(conn, tables_of(schema))
    plan = compile_index("users", schema, catalog)
    return compile_index("users", schema, catalog, find_references(plan.paths, catalog))


def tokens(database: Database, plan: IndexPlan, key: str = "1") -> set[str]:
    with database.connect() as conn:
        (built,) = read_documents(conn, plan, [(key,)])
    assert built.tokens is not None
    return set(json.loads(built.tokens))


def named(name: str, *keys: int | str) -> set[str]:
    return {token_of(table(name), [str(key)]) for key in keys}


def test_with_the_default_identity_every_change_leaves_the_documents_of_a_seed(
    database: Database, sink: Sink
) -> None:
    database.execute(AS_IT_COMES)
    with following(database, INDEXES, sink) as follower:
        for name, sql in CHANGES.items():
            follower.apply(sql)
            assert follower.documents == follower.seed(), f"after {name}"


def test_only_places_whose_old_link_the_wal_lacks_keep_references(database18: Database) -> None:
    database18.execute(SHOP)
    country = belongs_to("first", "tags", ("id",), scalar("label"))
    plan = referring(database18, root("users", scalar("name"), ORDERS, country))
    assert plan.references == (Reference("orders", table("orders"), ("id",)),)
    database18.execute("alter table orders replica identity full")
    assert referring(database18, root("users", scalar("name"), ORDERS)).references == ()


def test_a_document_has_a_token_for_each_row_it_contains_and_for_no_other(database18: Database) -> None:
    """Filters and limits count, and what lies below rows that are left out is left out as well."""
    database18.execute(SHOP)
    items = has_many("items", "items", ("order_id",), scalar("sku"))
    latest = has_many(
        "latest",
        "orders",
        ("user_id",),
        scalar("id", "integer"),
        items,
        filters=(ColumnFilter("open", FilterOp.EQ, (True,)),),
        order_by=(OrderBy("placed", Direction.DESC),),
        limit=1,
    )
    assert tokens(database18, referring(database18, root("users", latest))) == {
        *named("orders", 11),
        *named("items", 101),
    }
    whole = root("users", has_many("orders", "orders", ("user_id",), items))
    assert tokens(database18, referring(database18, whole)) == {
        *named("orders", 10, 11, 12),
        *named("items", 100, 101, 102),
    }


def test_relations_over_one_table_share_their_tokens(database18: Database) -> None:
    database18.execute(SHOP)
    plan = referring(database18, root("users", ORDERS, count("many", "orders", ("user_id",))))
    with database18.connect() as conn:
        (built,) = read_documents(conn, plan, [("1",)])
    assert len(json.loads(built.tokens or b"")) == 3


def test_of_a_maximum_only_the_row_that_is_taken_has_a_token(database18: Database) -> None:
    database18.execute(SHOP)
    latest = aggregate(
        "latest", AggregateKind.MAX, "orders", ("user_id",), column="placed", value_type=ScalarKind.DATE
    )
    plan = referring(database18, root("users", latest))
    assert tokens(database18, plan) == named("orders", 12)


@pytest.mark.parametrize("kind", [AggregateKind.MIN, AggregateKind.MAX])
def test_of_equal_values_document_and_token_take_the_one_with_the_lowest_key(
    database18: Database, kind: AggregateKind
) -> None:
    """1.0 and 1.00 are equal, and two numbers in a document."""
    database18.execute(SHOP + "update orders set total = 1.00; update orders set total = 1.0 where id = 10")
    only = aggregate("only", kind, "orders", ("user_id",), column="total", value_type=ScalarKind.KEYWORD)
    plan = referring(database18, root("users", only))
    with database18.connect() as conn:
        (built,) = read_documents(conn, plan, [("1",)])
    assert (built.body, built.tokens) == (b'{"only":"1.0"}', json.dumps([*named("orders", 10)]).encode())


def test_of_a_table_without_a_key_every_row_that_may_be_the_maximum_has_a_token(database18: Database) -> None:
    database18.execute(
        """
        create table users (id int primary key);
        create table orders (id int not null, user_id int, total numeric);
        create unique index codes on orders (id);
        alter table orders replica identity using index codes;
        insert into users values (1);
        insert into orders values (1, 1, 1.0), (2, 1, 1.00);
        """
    )
    most = aggregate(
        "most",
        AggregateKind.MAX,
        "orders",
        ("user_id",),
        column="total",
        value_type=ScalarKind.KEYWORD,
        primary_key=("id",),
    )
    assert tokens(database18, referring(database18, root("users", most))) == named("orders", 1, 2)


def test_every_row_of_a_junction_with_a_key_of_its_own_has_a_token(database18: Database) -> None:
    database18.execute(SHOP)
    tags = many_to_many("tags", "tags", scalar("label"), through=JUNCTION)
    once = aggregate("once", AggregateKind.COUNT, "tags", through=JUNCTION, is_distinct=True)
    for schema in (root("users", tags), root("users", once)):
        assert tokens(database18, referring(database18, schema)) == named("user_tags", 1, 2, 3)


def test_what_is_referred_to_by_a_column_outside_the_identity_has_a_token(database18: Database) -> None:
    database18.execute(SHOP + "alter table tags add owner text; update tags set owner = 'b';")
    owner = belongs_to("owner", "users", ("owner",), scalar("name"), primary_key=("code",))
    plan = referring(database18, root("tags", scalar("label"), owner))
    assert tokens(database18, plan) == named("users", 2)


def test_a_root_by_another_key_than_the_identity_has_its_own_token(database18: Database) -> None:
    database18.execute(SHOP)
    plan = referring(database18, root("users", scalar("name"), primary_key=("code",)))
    assert tokens(database18, plan, "a") == named("users", 1)


KEYS = {
    "text": ("'plain'", "'a|b\\c\"''ü'", "repeat('ü', 101)", "repeat('x', 5000)"),
    "numeric": ("1.50", "10 ^ 150"),
    "boolean": ("true",),
    "char(4)": ("'a'",),
    "timestamptz": ("'2024-01-01 12:00+02'",),
    "inet": ("'10.0.0.1'",),
    "bytea": ("'\\x00ff'",),
    "int[]": ("'{1,2}'",),
}


@pytest.mark.parametrize("type_", KEYS)
def test_a_token_is_the_same_from_the_table_and_from_the_log(
    database18: Database, sink: Sink, type_: str
) -> None:
    assert_same_tokens(database18, sink, type_, KEYS[type_])


def test_a_token_is_the_same_from_a_database_of_another_encoding(
    latin_database: Database, sink: Sink
) -> None:
    assert_same_tokens(latin_database, sink, "text", ("'a€'", "repeat('€', 100)", "repeat('€', 300)"))


def assert_same_tokens(database: Database, sink: Sink, type_: str, values: Sequence[str]) -> None:
    database.execute(
        "create table roots (id int primary key);"
        f"create table rows (k {type_}, n int, root int, primary key (k, n));"
        "insert into roots values (1);"
        + "".join(f"insert into rows values ({value}, 1, 1);" for value in values)
    )
    schema = root(
        "roots", has_many("rows", "rows", ("root",), scalar("n", "integer"), primary_key=("k", "n"))
    )
    with following(database, {"roots": schema}, sink) as follower:
        plan = follower.plans[0]
        before = tokens(database, plan)
        changes = follower.read("update rows set root = null; delete from rows")
        for operation in (Operation.UPDATE, Operation.DELETE):
            done = [change for change in changes if change.operation is operation]
            assert set(tokens_of(plan.references, done, watched_tables([plan]))) == before
    assert len(before) == len(values)


def test_a_row_whose_key_changes_is_looked_up_by_the_key_it_had(database18: Database, sink: Sink) -> None:
    database18.execute(SHOP)
    with following(database18, {"users": root("users", ORDERS)}, sink) as follower:
        changes = follower.read("update orders set id = 99, user_id = 2 where id = 10")
        plan = follower.plans[0]
        assert set(tokens_of(plan.references, changes, watched_tables([plan]))) == named("orders", 10)


def test_a_change_that_shows_its_old_link_is_not_blind_whatever_comes_later(
    database18: Database, sink: Sink
) -> None:
    """The log tells by which identity a row was written, the catalog only which it has now."""
    database18.execute(SHOP)
    with following(database18, {"users": root("users", ORDERS)}, sink) as follower:
        changes = follower.read(
            "insert into orders values (20, 1); delete from orders where id = 10",
            "alter table orders replica identity full",
            "delete from orders where id = 11",
            "update orders set user_id = 2 where id = 12",
            "alter table orders replica identity default",
            "update orders set total = 3 where id = 12",
        )
        told = [(change.operation.value, change.is_blind) for change in changes]
    assert told == [("i", False), ("d", True), ("d", False), ("u", False), ("u", True)]


def test_within_one_transaction_each_change_tells_by_which_identity_it_was_written(
    database18: Database, sink: Sink
) -> None:
    database18.execute(SHOP)
    with following(database18, {"users": root("users", ORDERS)}, sink) as follower:
        changes = follower.read(
            "delete from orders where id = 10; alter table orders replica identity full;"
            "delete from orders where id = 11; alter table orders replica identity default;"
            "delete from orders where id = 12"
        )
    assert len({change.commit_lsn for change in changes}) == 1
    assert [(change.old, change.is_blind) for change in changes] == [
        (("10", None), True),
        (("11", "1"), False),
        (("12", None), True),
    ]


def test_one_partition_may_show_more_for_a_while(database18: Database, sink: Sink) -> None:
    """Each tells by its own identity, also of rows that move between one that shows all and one that does
    not; documents keep references to both."""
    database18.execute(
        """
        create table users (id int primary key);
        create table orders (id int primary key, user_id int) partition by range (id);
        create table orders_0 partition of orders for values from (0) to (100);
        create table orders_1 partition of orders for values from (100) to (200);
        insert into users values (1), (2), (3);
        insert into orders select n, 1 from generate_series(0, 109) as n where n % 100 < 10;
        """
    )
    with following(database18, {"users": root("users", ORDERS)}, sink) as follower:
        for round_, identity in enumerate(("default", "full", "default")):
            database18.execute(f"alter table orders_1 replica identity {identity}")
            for sql in (
                f"update orders set user_id = 2 where id in ({round_}, {100 + round_})",
                f"delete from orders where id in ({3 + round_}, {103 + round_})",
                f"update orders set user_id = 3, id = id + 120 where id = {6 + round_}",
                f"update orders set user_id = 2, id = id - 50 where id = {106 + round_}",
            ):
                follower.apply(sql)
                assert follower.documents == follower.seed(), f"{identity}: {sql}"


def test_a_row_is_looked_up_by_a_key_that_lies_outside_of_it(database: Database, sink: Sink) -> None:
    """An update that leaves such a key alone does not have it in its new row."""
    database.execute(
        """
        create table roots (id int primary key);
        create table rows (k text primary key, root int);
        alter table rows alter k set storage external;
        insert into roots values (1), (2);
        insert into rows select string_agg(md5(n::text), ''), 1 from generate_series(1, 72) as n;
        """
    )
    is_outside = "select pg_relation_size(reltoastrelid) > 0 from pg_class where relname = 'rows'"
    assert database.execute(is_outside) == [(True,)]
    schema = root("roots", has_many("rows", "rows", ("root",), scalar("root", "integer"), primary_key=("k",)))
    with following(database, {"roots": schema}, sink) as follower:
        for sql in ("update rows set root = 2", "delete from rows"):
            follower.apply(sql)
            assert follower.documents == follower.seed()


HIDDEN = [Owed("users", Scope.HELD, "the replica identity of public.orders hid what rows left")]
FOR_A_MOMENT = ("alter table orders replica identity default", "alter table orders replica identity full")


@pytest.mark.parametrize(
    "leaving", ["delete from orders where id = 10", "update orders set user_id = 2 where id = 10"]
)
def test_rows_that_left_under_an_identity_of_a_moment_are_owed(
    database18: Database, sink: Sink, leaving: str
) -> None:
    database18.execute(SHOP + FOR_A_MOMENT[1])
    with following(database18, {"users": root("users", ORDERS)}, sink) as follower:
        changes = follower.read(FOR_A_MOMENT[0], leaving, FOR_A_MOMENT[1])
        assert list(find_hidden(follower.plans, changes, follower.watched)) == HIDDEN


def test_what_a_reference_finds_is_not_owed(database18: Database, sink: Sink) -> None:
    database18.execute(SHOP)
    with following(database18, {"users": root("users", ORDERS)}, sink) as follower:
        changes = follower.read("delete from orders where id = 10; update orders set user_id = 2")
        assert any(change.is_blind for change in changes)
        assert list(find_hidden(follower.plans, changes, follower.watched)) == []


def test_a_row_without_the_key_of_its_reference_is_owed(database18: Database, sink: Sink) -> None:
    database18.execute(SHOP + "alter table orders add code int not null generated always as identity unique;")
    with following(database18, {"users": root("users", ORDERS)}, sink) as follower:
        by_code = "alter table orders replica identity using index orders_code_key"
        changes = follower.read(by_code, "delete from orders where id = 10", FOR_A_MOMENT[0])
        assert list(find_hidden(follower.plans, changes, follower.watched)) == HIDDEN


def test_an_index_whose_link_is_shown_owes_nothing_for_that_of_another(
    database18: Database, sink: Sink
) -> None:
    database18.execute(SHOP + FOR_A_MOMENT[1])
    bought = belongs_to("order", "orders", ("order_id",), scalar("id", "integer"))
    schemas = {"users": root("users", ORDERS), "items": root("items", bought)}
    with following(database18, schemas, sink) as follower:
        left = "delete from orders where id = 10; update orders set total = 1 where id = 11"
        changes = follower.read(FOR_A_MOMENT[0], left, FOR_A_MOMENT[1])
        assert list(find_hidden(follower.plans, changes, follower.watched)) == HIDDEN


def test_an_index_that_keeps_no_references_owes_nothing(database18: Database) -> None:
    """`check` and `ignore` take what is stale for granted."""
    database18.execute(SHOP + FOR_A_MOMENT[1])
    with following(database18, {"users": root("users", ORDERS)}) as follower:
        changes = follower.read(FOR_A_MOMENT[0], "delete from orders where id = 10", FOR_A_MOMENT[1])
        assert [change.is_blind for change in changes] == [True]
        assert list(find_hidden(follower.plans, changes, follower.watched)) == []


def test_partitions_without_a_column_that_all_identities_show_owe_nothing(
    database18: Database, sink: Sink
) -> None:
    """No token can be made there, and `check` says so; each change would owe the whole index."""
    database18.execute(
        """
        create table users (id int primary key);
        create table orders (id int not null, code int not null, user_id int) partition by range (id);
        create table orders_0 partition of orders for values from (0) to (10);
        create table orders_1 partition of orders for values from (10) to (20);
        alter table orders_0 add primary key (id);
        create unique index codes on orders_1 (code);
        alter table orders_1 replica identity using index codes;
        insert into users values (1);
        insert into orders values (1, 1, 1), (11, 11, 1);
        """
    )
    orders = has_many("orders", "orders", ("user_id",), scalar("id", "integer"), primary_key=("id",))
    with following(database18, {"users": root("users", orders)}, sink) as follower:
        changes = follower.read("delete from orders")
        assert any(change.is_blind for change in changes)
        assert list(find_hidden(follower.plans, changes, follower.watched)) == []
