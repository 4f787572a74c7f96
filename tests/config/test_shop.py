"""The shop that the demo and the examples use: its files are right, and its data has the promised size."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from fix_postgres import Database
from flusso.builder.check.fit import find_problems
from flusso.builder.plan import compile_index, watched_tables
from flusso.capture.coverage import inspect_coverage
from flusso.config.load import load_deployment
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import Aggregate, AggregateKind, Join, JoinKind, tables_of, walk

SHOP = Path(__file__).parents[2] / "src" / "flusso" / "demo" / "shop"


def _load_shop(database: Database, *settings: str) -> None:
    sql = (SHOP / "shop.sql").read_text()
    with psycopg.connect(database.dsn.text) as conn:
        for setting in settings:
            conn.execute(f"set {setting}")
        conn.execute(sql)


def _count(database: Database, table: str) -> object:
    return database.execute(f"select count(*) from {table}")[0][0]


def test_the_shop_is_a_deployment_that_loads() -> None:
    shop = load_deployment(SHOP / "flusso.toml", env={"DATABASE_URL": "postgresql://h/shop"})
    assert [index.name for index in shop.indexes] == ["customers", "products"]
    assert [sink.name for sink in shop.sinks] == ["local"]


def test_the_customers_of_the_shop_use_every_kind_of_relation_but_has_one() -> None:
    shop = load_deployment(SHOP / "flusso.toml", env={"DATABASE_URL": "postgresql://h/shop"})
    fields = list(walk(shop.indexes[0].schema.fields))
    assert {item.kind for item in fields if isinstance(item, Join)} == set(JoinKind) - {JoinKind.HAS_ONE}
    assert {item.kind for item in fields if isinstance(item, Aggregate)} == {
        AggregateKind.COUNT,
        AggregateKind.SUM,
    }


@pytest.mark.postgres
def test_the_shop_has_the_promised_sizes(database: Database) -> None:
    _load_shop(database)
    assert _count(database, "customers") == 20_000
    assert _count(database, "orders") == 60_000
    assert _count(database, "order_items") == 150_000
    assert _count(database, "products") == 500
    assert _count(database, "categories") == 20


@pytest.mark.postgres
def test_the_size_of_the_shop_is_a_setting_of_the_session(database18: Database) -> None:
    _load_shop(database18, "shop.customers = '300'", "shop.orders = '900'")
    assert _count(database18, "customers") == 300
    assert _count(database18, "orders") == 900


@pytest.mark.postgres
def test_every_table_that_the_shop_reads_is_in_the_database(database18: Database) -> None:
    _load_shop(database18, "shop.customers = '30'", "shop.orders = '90'")
    shop = load_deployment(SHOP / "flusso.toml", env={"DATABASE_URL": "postgresql://h/shop"})
    there = {
        (schema, name)
        for schema, name in database18.execute(
            "select schemaname, tablename from pg_tables where schemaname = 'public'"
        )
    }
    for index in shop.indexes:
        assert {(table.schema, table.name) for table in tables_of(index.schema)} <= there


@pytest.mark.postgres
def test_the_schemas_of_the_shop_fit_its_database(database: Database) -> None:
    _load_shop(database, "shop.customers = '30'", "shop.orders = '90'")
    shop = load_deployment(SHOP / "flusso.toml", env={"DATABASE_URL": "postgresql://h/shop"})
    with database.connect() as conn:
        for index in shop.indexes:
            catalog = read_catalog(conn, tables_of(index.schema))
            assert find_problems(index.name, index.schema, catalog) == []


@pytest.mark.postgres
def test_no_relation_of_the_shop_is_blind(database18: Database) -> None:
    _load_shop(database18, "shop.customers = '30'", "shop.orders = '90'")
    shop = load_deployment(SHOP / "flusso.toml", env={"DATABASE_URL": "postgresql://h/shop"})
    with database18.connect() as conn:
        for index in shop.indexes:
            catalog = read_catalog(conn, tables_of(index.schema))
            watched = watched_tables([compile_index(index.name, index.schema, catalog)])
            assert inspect_coverage(conn, "flusso", watched).identities == ()


@pytest.mark.postgres
def test_the_total_of_an_order_is_what_its_items_come_to(database18: Database) -> None:
    _load_shop(database18, "shop.customers = '300'", "shop.orders = '900'")
    wrong = database18.execute(
        """
        select count(*)
        from orders
        where total <> (select sum(quantity * unit_price) from order_items where order_id = orders.id)
        """
    )
    assert wrong == [(0,)]


@pytest.mark.postgres
def test_every_reference_in_the_shop_has_an_index(database18: Database) -> None:
    _load_shop(database18, "shop.customers = '30'", "shop.orders = '90'")
    without = database18.execute(
        """
        select conrelid::regclass::text, conkey
        from pg_constraint
        where contype = 'f'
          and not exists (
              select from pg_index
              where indrelid = conrelid
                and (indkey::int2[])[0 : cardinality(conkey) - 1] = conkey
          )
        """
    )
    assert without == []


@pytest.mark.postgres
def test_new_rows_of_the_shop_get_ids_of_their_own(database18: Database) -> None:
    _load_shop(database18, "shop.customers = '30'", "shop.orders = '90'")
    assert database18.execute("insert into orders (customer_id) values (1) returning id") == [(91,)]
