"""Partitioned tables as root, relation and junction: seeded by partition, followed by partition."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from declared import compiled, root, scalar, seeded, table
from follower import Follower, following

from fix_postgres import Database
from flusso.builder.plan import compile_index, find_shared_rows, watched_tables
from flusso.builder.ranges import plan_ranges
from flusso.catalog import TableName
from flusso.errors import CatalogOutdated, SchemaError
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import IndexSchema, RawFilter

pytestmark = pytest.mark.postgres

# Users by list and then by range, with columns in another order; orders by range; tags of users by hash.
TABLES = """
create schema "Old";
create table users (region text, id int, name text, primary key (id, region)) partition by list (region);
create table users_eu partition of users for values in ('eu') partition by range (id);
create table users_eu_1 partition of users_eu for values from (0) to (100);
create table "Old".users_us (name text, gone int, id int not null, region text not null);
alter table "Old".users_us drop column gone;
alter table users attach partition "Old".users_us for values in ('us');
create table users_rest partition of users default;

create table orders (id int, user_id int, region text, day date, total numeric, primary key (id, day))
  partition by range (day);
create table orders_1 (day date not null, total numeric, region text, user_id int, id int not null);
alter table orders attach partition orders_1 for values from ('2024-01-01') to ('2024-02-01');
create table orders_2 partition of orders for values from ('2024-02-01') to ('2024-03-01');
alter table orders_1 replica identity full;
alter table orders_2 replica identity full;

create table tags (id int primary key, label text);
create table user_tags (user_id int, region text, tag_id int, primary key (user_id, region, tag_id))
  partition by hash (user_id);
create table user_tags_0 partition of user_tags for values with (modulus 2, remainder 0);
create table user_tags_1 partition of user_tags for values with (modulus 2, remainder 1);

insert into users select case n % 3 when 0 then 'eu' when 1 then 'us' else 'as' end, n, 'user ' || n
from generate_series(1, 60) as n;
insert into orders select n, u.id, u.region, date '2024-01-01' + n % 59, n
from generate_series(1, 120) as n join users as u on u.id = 1 + n % 60;
insert into tags select n, 'tag ' || n from generate_series(1, 5) as n;
insert into user_tags select id, region, 1 + id % 5 from users;
"""

SCHEMA = """
version: 1
table: users
filters:
  - raw: name is not null
  - { column: id, op: gt, value: 0 }
fields:
  - text: name
  - keyword: region
  - has_many: orders
    table: orders
    foreign_key: [user_id, region]
    fields: [{ date: day }, { decimal: total }]
  - many_to_many: tags
    table: tags
    through: { table: user_tags, left_key: [user_id, region], right_key: tag_id }
    fields: [{ keyword: label }]
"""

CHANGES = {
    "a row of each partition": "insert into users values ('eu', 90, 'n'), ('us', 91, 'n'), ('af', 92, 'n')",
    "an update in a partition": "update users set name = 'renamed' where id in (3, 4, 5)",
    "an update of a partition by its own name": "update \"Old\".users_us set name = 'direct' where id = 7",
    "a row that moves to another partition": "update users set region = 'us' where id = 6",
    "a deleted row": "delete from users where id = 9",
    "a related row": "insert into orders values (900, 12, 'eu', '2024-01-05', 7)",
    "a related row that moves to another partition": "update orders set day = '2024-02-20' where id = 900",
    "a related row that moves to another parent": "update orders set user_id = 15 where id = 900",
    "a related row that moves both": "update orders set user_id = 18, day = '2024-01-06' where id = 900",
    "a deleted related row": "delete from orders where id in (900, 1, 2)",
    "a junction row": "insert into user_tags values (21, 'eu', 4)",
    "a junction row that moves": "update user_tags set user_id = 24 where user_id = 21 and tag_id = 4",
    "a deleted junction row": "delete from user_tags where user_id = 24",
    "a renamed tag": "update tags set label = 'hot' where id = 3",
    "a truncated partition of a relation": "truncate orders_1",
    "a truncated partition of a junction": "truncate user_tags_0",
    "a truncated relation": "truncate orders",
    "a truncated partition of the root": 'truncate "Old".users_us',
    "a truncated root": "truncate users",
}


@pytest.fixture
def follower(database: Database) -> Iterator[Follower]:
    database.execute(TABLES)
    with following(database, {"users": SCHEMA}) as made:
        yield made


def test_every_change_of_a_partition_is_one_of_its_table(follower: Follower) -> None:
    assert len(follower.documents["users"]) == 60
    for name, sql in CHANGES.items():
        touched = follower.apply(sql)
        assert touched, name
        assert follower.documents == follower.seed(), name
    assert follower.documents["users"] == {}


def test_a_partition_that_came_after_the_start_asks_for_a_new_look(
    database: Database, follower: Follower
) -> None:
    database.execute("create table users_eu_2 partition of users_eu for values from (100) to (200)")
    database.execute("create table stranger (id int primary key)")
    database.execute("alter publication flusso add table stranger; insert into stranger values (1)")
    follower.apply("insert into users values ('eu', 95, 'n')")
    with pytest.raises(CatalogOutdated, match=r"a partition came to public.users"):
        follower.apply("insert into users values ('eu', 101, 'n')")


def test_a_table_is_followed_under_whatever_name_it_has(follower: Follower) -> None:
    follower.apply(
        "alter table tags rename to labels; update labels set label = 'hot' where id = 3;"
        "alter table labels rename to tags"
    )
    assert follower.documents == follower.seed()


def test_a_table_that_took_the_name_of_another_is_not_taken_for_it(follower: Follower) -> None:
    with pytest.raises(CatalogOutdated, match=r"public.tags is another table now"):
        follower.apply(
            "alter table tags rename to old_tags; create table tags (id int primary key, label text);"
            "alter publication flusso add table tags; insert into tags values (1, 'new')"
        )


def test_changes_of_rows_that_lacked_a_link_owe_all_that_read_the_table(follower: Follower) -> None:
    touched = follower.apply(
        "alter table user_tags rename column user_id to who; delete from user_tags where who = 21;"
        "alter table user_tags rename column who to user_id"
    )
    assert len(touched) == 60
    assert follower.documents == follower.seed()


def test_seeding_goes_partition_by_partition(database: Database) -> None:
    database.execute("create table things (id int primary key, name text) partition by range (id)")
    database.execute("create table a partition of things for values from (0) to (1000)")
    database.execute("create table b partition of things for values from (1000) to (9000)")
    database.execute("insert into things select n, repeat('x', 400) from generate_series(0, 2999) as n")
    plan = compiled(database, root("things", scalar("name"), filters=(RawFilter("things.id > 1"),)))
    with database.connect() as conn:
        ranges = plan_ranges(conn, plan, 0.1)
    assert {part.partition for part in ranges} == {table("a"), table("b")}
    assert [part.partition for part in ranges if part.end_block is None] == [table("a"), table("b")]
    assert len(ranges) > 6
    ids = [built.id for built in seeded(database, plan)]
    assert sorted(ids, key=int) == [str(n) for n in range(2, 3000)]


def test_a_table_without_partitions_is_seeded_with_nothing(database: Database) -> None:
    database.execute("create table things (id int primary key, name text) partition by range (id)")
    plan = compiled(database, root("things", scalar("name")))
    with database.connect() as conn:
        assert plan_ranges(conn, plan, 1) == []
    assert seeded(database, plan) == []


def test_a_table_and_its_own_partition_cannot_both_be_read(database: Database) -> None:
    database.execute(TABLES)
    schemas = {
        "all": root("orders", scalar("total", "decimal")),
        "some": root("orders_2", scalar("day", "date")),
    }
    with database.connect() as conn:
        catalog = read_catalog(conn, [table("orders"), table("orders_2")])
    plans = [compile_index(name, schema, catalog) for name, schema in schemas.items()]
    (found,) = find_shared_rows(watched_tables(plans))
    assert found.message.startswith("public.orders_2 holds rows of public.orders and of public.orders_2")


SERVER = "create foreign data wrapper w; create server s foreign data wrapper w"
PARTED = "create table t (id int) partition by list (id)"
REFUSED = {
    "create view t as select 1 as id": "is a view: its changes are not in the WAL",
    "create materialized view t as select 1 as id": "is a materialized view: its changes are not in the WAL",
    "create unlogged table t (id int primary key)": "is unlogged: its changes are not in the WAL",
    f"{SERVER}; create foreign table t (id int) server s": "is a foreign table: its changes are not",
    "create table t (id int primary key); create table u () inherits (t)":
        "public.t has tables that inherit from it: their rows would be read with its own, but not followed",
    f"{PARTED}; create unlogged table u partition of t default": "has partition public.u, which is unlogged",
    f"{SERVER}; {PARTED}; create foreign table u partition of t default server s":
        "public.t has partition public.u, which is a foreign table",
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_a_table_whose_rows_the_wal_does_not_have_is_refused_with_the_reason(
    database18: Database, sql: str
) -> None:
    database18.execute(sql)
    with pytest.raises(SchemaError, match=re.escape(REFUSED[sql])):
        compiled(database18, root("t", scalar("id", "long"), primary_key=("id",)))


def test_a_temporary_table_is_refused(database18: Database) -> None:
    with database18.connect() as conn:
        conn.execute("create temporary table t (id int primary key)")
        row = conn.execute("select nspname from pg_namespace where oid = pg_my_temp_schema()").fetchone()
        assert row is not None
        name = TableName(row[0], "t")
        schema = IndexSchema(name, (scalar("id", "long"),))
        with pytest.raises(SchemaError, match="is a temporary table: its rows belong to one session"):
            compile_index("things", schema, read_catalog(conn, [name]))
