from __future__ import annotations

import psycopg
import pytest

from fix_postgres import Database
from flusso.capture import publication
from flusso.capture.publication import ensure_publication
from flusso.catalog import TableName
from flusso.errors import PublicationError, SourceUnavailable

pytestmark = pytest.mark.postgres

USERS = TableName("public", "users")
ODD = TableName("Shop", 'odd "name"')


def _ensure(database: Database, *tables: TableName, manage: bool = True, **columns: list[str]) -> bool:
    wanted = {TableName("public", name): names for name, names in columns.items()}
    with database.connect() as conn:
        return ensure_publication(conn, "flusso", tables, manage=manage, columns=wanted)


def _published(database: Database) -> set[tuple[object, ...]]:
    return set(
        database.execute("select schemaname, tablename from pg_publication_tables where pubname = 'flusso'")
    )


def test_a_missing_publication_is_created(database: Database) -> None:
    database.execute("create table users (id int primary key)")
    assert _ensure(database, USERS)
    assert _published(database) == {("public", "users")}
    assert database.execute("select pubviaroot from pg_publication") == [(False,)]


def test_a_publication_is_extended_by_what_it_lacks(database: Database) -> None:
    database.execute("create table users (id int primary key)")
    database.execute('create schema "Shop"; create table "Shop"."odd ""name""" (id int primary key)')
    _ensure(database, USERS)
    assert _ensure(database, USERS, ODD)
    assert _published(database) == {("public", "users"), ("Shop", 'odd "name"')}


def test_a_publication_that_covers_all_is_left_alone(database: Database) -> None:
    database.execute("create table users (id int primary key)")
    _ensure(database, USERS)
    assert not _ensure(database, USERS)
    assert not _ensure(database, USERS, manage=False, users=["id"])


def test_a_publication_for_all_tables_covers_them(database: Database) -> None:
    database.execute("create table users (id int primary key); create publication flusso for all tables")
    assert not _ensure(database, USERS)


def test_a_partitioned_table_is_covered_by_its_leaves(database: Database) -> None:
    database.execute("create table users (id int primary key) partition by range (id)")
    database.execute("create table users_1 partition of users for values from (0) to (10)")
    assert _ensure(database, USERS)
    assert _published(database) == {("public", "users_1")}
    assert not _ensure(database, USERS)


def test_without_leave_to_manage_the_error_carries_the_sql(database: Database) -> None:
    database.execute("create table users (id int primary key); create table more (id int primary key)")
    with pytest.raises(PublicationError) as creating:
        _ensure(database, USERS, manage=False)
    assert creating.value.hint is not None
    database.execute(creating.value.hint)
    with pytest.raises(PublicationError) as extending:
        _ensure(database, USERS, TableName("public", "more"), manage=False)
    assert extending.value.hint is not None
    database.execute(extending.value.hint)
    assert not _ensure(database, USERS, TableName("public", "more"), manage=False)


@pytest.mark.parametrize(
    "sql",
    [
        "create table users (id int)",
        "create table users (id int primary key); alter table users replica identity nothing",
        "create table users (id int primary key deferrable initially deferred)",
        "create unlogged table users (id int primary key)",
        "create view users as select 1 as id",
    ],
    ids=["no-key", "nothing", "deferrable", "unlogged", "view"],
)
def test_a_table_whose_writes_would_break_is_never_published(database: Database, sql: str) -> None:
    database.execute(sql)
    with pytest.raises(PublicationError):
        _ensure(database, USERS)
    assert database.execute("select pubname from pg_publication") == []


def test_a_full_identity_with_a_generated_column_is_never_published_on_18(database18: Database) -> None:
    database18.execute(
        "create table users (id int primary key, twice int generated always as (id * 2) stored);"
        "alter table users replica identity full"
    )
    with pytest.raises(PublicationError, match="generated"):
        _ensure(database18, USERS)


def test_a_table_that_does_not_exist_is_refused_by_name(database: Database) -> None:
    with pytest.raises(PublicationError, match=r"public\.users does not exist"):
        _ensure(database, USERS)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("create publication flusso for table users with (publish = 'insert, update')", "delete, truncate"),
        ("create publication flusso for table users with (publish_via_partition_root = true)", "partition"),
        ("create publication flusso for table users where (id > 5)", "filters the rows"),
        ("create publication flusso for table users (id)", "does not publish boss"),
    ],
    ids=["operations", "root", "filter", "columns"],
)
def test_a_publication_that_would_miss_changes_is_refused(database: Database, sql: str, words: str) -> None:
    database.execute("create table users (id int primary key, boss int)")
    database.execute(sql)
    with pytest.raises(PublicationError, match=words):
        _ensure(database, USERS, users=["id", "boss"])


def test_a_locked_table_is_not_waited_for_without_end(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "_LOCK_TIMEOUT", "50ms")
    database.execute("create table users (id int primary key)")
    with psycopg.connect(database.dsn.text) as other:
        other.execute("lock table users")
        with pytest.raises(SourceUnavailable, match="lock"):
            _ensure(database, USERS)


def test_a_role_that_does_not_own_the_table_gets_the_sql_for_the_owner(database: Database) -> None:
    database.execute("create table users (id int primary key)")
    role = f"guest_{database.name}"
    database.execute(f"create role {role} login; grant create on database {database.name} to {role}")
    try:
        guest = Database(database.server, database.name)
        guest.dsn = type(guest.dsn)(database.dsn.text.replace("user=flusso", f"user={role}"))
        with pytest.raises(PublicationError, match="as the owner: create publication"):
            _ensure(guest, USERS)
        with guest.connect() as conn:
            (finding,) = publication.inspect_publication(conn, "flusso", [USERS], manage=True)
        assert finding.message.endswith('may not create publication "flusso": it must own public.users')
        assert finding.hint is not None
        database.execute(finding.hint.removeprefix("as the owner: "))
        with guest.connect() as conn:
            assert publication.inspect_publication(conn, "flusso", [USERS], manage=True) == []
    finally:
        database.execute(f"drop owned by {role}; drop role {role}")


def test_an_inspection_finds_every_table_that_cannot_be_published_and_changes_nothing(
    database: Database,
) -> None:
    database.execute(
        "create table users (id int); create unlogged table more (id int primary key);"
        "create table good (id int primary key)"
    )
    tables = [TableName("public", name) for name in ("users", "more", "good")]
    with database.connect() as conn:
        found = publication.inspect_publication(conn, "flusso", tables, manage=True)
        unmanaged = publication.inspect_publication(conn, "flusso", tables, manage=False)
    assert [finding.message.split()[1] for finding in found] == ["public.more", "public.users"]
    assert unmanaged[-1].message == 'publication "flusso" does not exist'
    assert database.execute("select pubname from pg_publication") == []
