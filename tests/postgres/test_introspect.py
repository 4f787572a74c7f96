from __future__ import annotations

import pytest

from fix_postgres import Database
from flusso.catalog import Column, IdentityKind, Table, TableKind, TableName
from flusso.postgres.introspect import read_catalog, read_source_identity

pytestmark = pytest.mark.postgres


def _read(database: Database, name: str, schema: str = "public") -> Table:
    wanted = TableName(schema, name)
    with database.connect() as conn:
        return read_catalog(conn, [wanted, TableName("public", "no such table")]).tables[wanted]


def test_a_numeric_is_short_when_its_declaration_keeps_it_in_bounds(
    database: Database,
) -> None:
    database.execute(
        "create table t (a numeric(12, 2), b numeric, c numeric(400, 2), d numeric(5, -3),"
        " e numeric(300, 300), f int, g numeric(12, 2)[])"
    )
    columns = _read(database, "t").columns.values()
    assert [column.name for column in columns if column.is_short] == ["a", "e"]


def test_columns_have_their_resolved_types(database: Database) -> None:
    database.execute("create schema shop; create type shop.\"Mood\" as enum ('sad')")
    database.execute(
        "create domain price as numeric(10,2); create domain fair_price as price check (value > 0)"
    )
    database.execute("create domain prices as price[]")
    database.execute(
        'create table t (a int not null, b varchar(3), c char(5), d timestamptz, e shop."Mood", f fair_price,'
        " g text[], h prices, i fair_price[], j int generated always as (a * 2) stored, gone int)"
    )
    database.execute("alter table t drop column gone")
    columns = _read(database, "t").columns
    assert list(columns.values()) == [
        Column("a", "integer", "int4", not_null=True),
        Column("b", "character varying", "varchar"),
        Column("c", "bpchar", "bpchar"),
        Column("d", "timestamp with time zone", "timestamptz"),
        Column("e", 'shop."Mood"', "Mood", is_enum=True),
        Column("f", "numeric", "numeric"),
        Column("g", "text[]", "text", is_array=True),
        Column("h", "numeric[]", "numeric", is_array=True),
        Column("i", "numeric[]", "numeric", is_array=True),
        Column("j", "integer", "int4", is_generated=True),
    ]


def test_a_primary_key_comes_in_key_order(database: Database) -> None:
    database.execute("create table t (a int, b int, c int, primary key (c, a) include (b))")
    assert _read(database, "t").primary_key == ("c", "a")


@pytest.mark.parametrize(
    ("change", "identity", "columns"),
    [
        ("", IdentityKind.DEFAULT, ("id",)),
        ("alter table t replica identity full", IdentityKind.FULL, ("id", "parent", "note")),
        ("alter table t replica identity using index t_links", IdentityKind.INDEX, ("parent", "id")),
        ("alter table t replica identity nothing", IdentityKind.NOTHING, ()),
        ("alter table t drop constraint t_pkey, add primary key (id) deferrable", IdentityKind.DEFAULT, ()),
    ],
)
def test_the_columns_of_the_old_row_follow_the_replica_identity(
    database: Database, change: str, identity: IdentityKind, columns: tuple[str, ...]
) -> None:
    database.execute("create table t (id int primary key, parent int not null, note text)")
    database.execute("create unique index t_links on t (parent, id)")
    if change:
        database.execute(change)
    table = _read(database, "t")
    assert (table.identity, table.identity_columns) == (identity, columns)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("create table t (id int)", TableKind.TABLE),
        ("create table t (id int) partition by range (id)", TableKind.PARTITIONED),
        ("create view t as select 1 as id", TableKind.VIEW),
        ("create materialized view t as select 1 as id", TableKind.MATERIALIZED_VIEW),
    ],
)
def test_the_kind_of_a_relation_is_told(database: Database, sql: str, kind: TableKind) -> None:
    database.execute(sql)
    assert _read(database, "t").kind is kind


def test_names_are_as_the_catalog_has_them(database: Database) -> None:
    database.execute('create schema "My Shop"; create table "My Shop"."T" ("Id" int primary key)')
    assert _read(database, "T", "My Shop").primary_key == ("Id",)


def test_the_number_of_queries_does_not_grow_with_the_tables(database: Database) -> None:
    names = [f"t{n}" for n in range(50)]
    database.execute(";".join(f"create table {name} (id int primary key)" for name in names))
    with database.connect() as conn:
        executed = []
        execute = conn.execute
        conn.execute = lambda *args, **kwargs: executed.append(args) or execute(*args, **kwargs)  # type: ignore[assignment,func-returns-value,method-assign]
        catalog = read_catalog(conn, [TableName("public", name) for name in names])
    assert len(catalog.tables) == 50
    assert len(executed) == 3


def test_the_identity_names_cluster_timeline_version_and_database(database: Database) -> None:
    with database.connect() as conn:
        identity = read_source_identity(conn)
        version = conn.info.server_version
    assert identity.system_identifier.isdigit()
    assert (identity.timeline, identity.server_version, identity.database) == (1, version, database.name)
