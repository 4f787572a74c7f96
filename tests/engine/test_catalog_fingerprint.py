"""Fingerprints of the catalog: which differences are owed, which refused, and which are nobody's business."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fix_postgres import Database
from flusso.builder.plan import compile_referring
from flusso.catalog import TableName
from flusso.debt import Scope
from flusso.engine.catalogs import reads_of
from flusso.engine.fingerprint import Reads, find_differences, is_routed_alike, take
from flusso.errors import CatalogChanged
from flusso.postgres.introspect import read_catalog
from flusso.postgres.shapes import has_rows, read_shapes
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema

pytestmark = pytest.mark.postgres

USERS, ORDERS = TableName("public", "users"), TableName("public", "orders")
READS = Reads(
    "users",
    USERS,
    ("id int4",),
    {USERS: frozenset({"id", "mood", "loud"}), ORDERS: frozenset({"id", "user_id", "total"})},
    is_root_alone=True,
)
TABLES = """
create type mood as enum ('fine', 'sad');
create table users (id int primary key, mood mood, name text, note text,
  loud text generated always as (upper(name)) stored);
create table orders (id int, user_id int, total numeric(12, 2)) partition by list (id);
create table orders_1 partition of orders for values in (1);
create table orders_2 partition of orders for values in (2);
create table orders_3 as select 3 as id, 3 as user_id, 3::numeric(12, 2) as total;
insert into users values (1, 'fine', 'Ann');
insert into orders values (1, 1, 10);
"""


class Catalog:
    """One catalog for all cases: each begins with what the one before left."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.execute(TABLES)

    def take(self) -> str:
        with self.database.connect() as conn:
            return take(READS, read_shapes(conn, READS.columns))

    def differences(self, before: str) -> list[tuple[Scope, str]]:
        with self.database.connect() as conn:
            shapes = read_shapes(conn, READS.columns)
            names = {oid: name for shape in shapes.values() for oid, name in shape.leaves.items()}
            found = find_differences(
                READS, before, take(READS, shapes), lambda oid: has_rows(conn, names[oid])
            )
        return [(difference.scope, difference.reason) for difference in found]


@pytest.fixture
def catalog(database18: Database) -> Catalog:
    return Catalog(database18)


UNNOTICED = (
    "alter table users add column age int default 1",
    "alter table users drop column note",
    "alter type mood add value 'merry' before 'sad'",
    "grant select (mood) on users to public",
    "cluster users using users_pkey",
    "alter table users alter column mood set default 'sad'",
    "create table orders_4 partition of orders for values in (4)",
)
MOOD, LOUD, TOTAL = (
    'column "mood" of public.users',
    'column "loud" of public.users',
    'column "total" of public.orders',
)
WENT = "a partition of public.orders was detached or dropped"
OWED = {
    "alter type mood rename value 'fine' to 'well'": (Scope.WHOLE, f"a renamed label of {MOOD}"),
    "alter table orders alter column total type numeric(12, 1)": (
        Scope.HELD,
        f"another definition of {TOTAL}",
    ),
    "alter table users alter column mood type mood using 'sad'": (
        Scope.WHOLE,
        f"rewritten values of {MOOD}",
    ),
    "alter table users alter column loud set expression as (lower(name))": (
        Scope.WHOLE,
        f"another definition of {LOUD}",
    ),
    "alter table users drop column mood; alter table users add column mood mood": (
        Scope.WHOLE,
        f"another definition of {MOOD}",
    ),
    """alter table orders_3 alter column total type numeric(12, 1);
       alter table orders attach partition orders_3 for values in (3)""": (
        Scope.HELD,
        "a partition with rows was attached to public.orders",
    ),
    "alter table orders detach partition orders_2": (Scope.HELD, WENT),
    "drop table orders_1": (Scope.HELD, WENT),
    "drop table orders; create table orders (id int, user_id int, total int)": (
        Scope.HELD,
        "public.orders was dropped and made again",
    ),
}


def test_each_kind_of_ddl_owes_what_it_may_have_changed(catalog: Catalog) -> None:
    cases = {sql: [] for sql in UNNOTICED} | {sql: [found] for sql, found in OWED.items()}
    for sql, expected in cases.items():
        before = catalog.take()
        catalog.database.execute(sql)
        assert catalog.differences(before) == expected, sql
        assert catalog.differences(catalog.take()) == []


def test_a_partition_of_a_root_that_went_owes_only_what_is_gone(catalog: Catalog) -> None:
    before = catalog.take()
    catalog.database.execute("drop table orders_1")
    with catalog.database.connect() as conn:
        now = take(READS, read_shapes(conn, READS.columns))
    as_root = replace(READS, root=ORDERS)
    assert [each.scope for each in find_differences(as_root, before, now, lambda _: True)] == [Scope.GONE]


TAGGED = """
version: 1
table: notes
fields:
  - many_to_many: tags
    table: tags
    through: { table: note_tags, left_key: note_id, right_key: tag_id }
    fields: [{ keyword: name }]
"""


def test_other_keys_of_rows_that_documents_keep_references_to_are_owed(catalog: Catalog) -> None:
    catalog.database.execute(
        """create table notes (id int primary key);
           create table tags (id int primary key, name text);
           create table note_tags (id int primary key, note_id int, tag_id int);
           insert into note_tags values (1, 1, 1)"""
    )
    schema = parse_schema(TAGGED, file="notes")
    with catalog.database.connect() as conn:
        tables = read_catalog(conn, tables_of(schema))
        reads = reads_of(compile_referring("notes", schema, tables), schema, tables)
        before = take(reads, read_shapes(conn, reads.columns))
        catalog.database.execute("alter table note_tags alter id type uuid using gen_random_uuid()")
        found = find_differences(
            reads, before, take(reads, read_shapes(conn, reads.columns)), lambda _: False
        )
    assert [(each.scope, each.reason) for each in found] == [
        (Scope.HELD, 'another definition of column "id" of public.note_tags')
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "alter table users rename to people",
        "alter table orders rename column total to sum",
        "create table orders_5 partition of orders for values in (5)",
        "alter table users drop constraint users_pkey",
    ],
)
def test_tables_keys_columns_and_partitions_that_come_or_go_ask_for_a_new_look(
    catalog: Catalog, sql: str
) -> None:
    before = catalog.take()
    catalog.database.execute(sql)
    assert not is_routed_alike(before, catalog.take())


@pytest.mark.parametrize(("before", "after"), [("default", "full"), ("full", "default"), ("full", "nothing")])
def test_another_identity_of_one_partition_alone_asks_for_a_new_look_and_owes_nothing(
    catalog: Catalog, before: str, after: str
) -> None:
    for leaf in ("orders_1", "orders_2"):
        catalog.database.execute(f"alter table {leaf} replica identity {before}")
    known = catalog.take()
    catalog.database.execute(f"alter table orders_1 replica identity {after}")
    assert not is_routed_alike(known, catalog.take())
    assert catalog.differences(known) == []


def of_key(*key: str) -> str:
    return take(replace(READS, key=key), {})


@pytest.mark.parametrize("key", [("id int8",), ("id int4",), ("id int2",)])
def test_a_key_whose_ids_stay_readable_goes_on(key: tuple[str, ...]) -> None:
    assert find_differences(READS, of_key(*key), of_key(*READS.key), lambda _: True) == []


@pytest.mark.parametrize("key", [("code int4",), ("id uuid",), ("id int4", "region text"), ()])
def test_a_key_with_other_ids_is_refused_with_its_remedy(key: tuple[str, ...]) -> None:
    with pytest.raises(CatalogChanged, match=r'public\.users.*"users".*run flusso reindex users'):
        find_differences(READS, of_key(*key), of_key(*READS.key), lambda _: True)
