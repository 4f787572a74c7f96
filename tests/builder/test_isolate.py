"""One bad row keeps only its own document from being built."""

from __future__ import annotations

import contextlib

import pytest

from fix_postgres import Database
from flusso.builder.isolate import Unfit, read_isolated
from flusso.builder.plan import IndexPlan, compile_index
from flusso.builder.ranges import plan_ranges, read_keys, read_range
from flusso.document import Key
from flusso.errors import BuildError, RowUnfit, SourceUnavailable
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema

pytestmark = pytest.mark.postgres

SCHEMA = """
version: 1
table: users
fields:
  - long: id
  - has_many: notes
    table: notes
    foreign_key: user_id
    filters: [{raw: "worth::int > 0"}]
    fields: [{keyword: worth}]
"""
BAD = {3, 4, 500, 999}


@pytest.fixture
def plan(database: Database) -> IndexPlan:
    database.execute("create table users (id int primary key)")
    database.execute("create table notes (id int primary key, user_id int references users, worth text)")
    database.execute("insert into users select generate_series(1, 1000)")
    database.execute("insert into notes select id, id, '7' from users")
    for id_ in BAD:
        database.execute("update notes set worth = 'a secret' where id = %s", id_)
    schema = parse_schema(SCHEMA, file="users.schema.yml")
    with database.connect() as conn:
        return compile_index("users", schema, read_catalog(conn, tables_of(schema)))


def test_all_documents_but_the_bad_ones_are_built(database: Database, plan: IndexPlan) -> None:
    keys: list[Key] = [(str(id_),) for id_ in range(1, 1002)]
    with database.connect() as conn:
        built, unfit = read_isolated(conn, plan, keys)
    assert {int(each.id) for each in built if each.body is not None} == set(range(1, 1001)) - BAD
    assert [each.id for each in built if each.body is None] == ["1001"]
    reason = "invalid text representation (SQLSTATE 22P02)"
    assert sorted(unfit, key=lambda each: int(each.id)) == [Unfit(str(id_), reason) for id_ in sorted(BAD)]


def test_a_range_with_a_bad_row_fails_as_a_whole_and_has_the_keys_of_all_its_rows(
    database: Database, plan: IndexPlan
) -> None:
    with database.connect() as conn:
        ranges = plan_ranges(conn, plan, 0.01)
        for each in ranges:
            with contextlib.suppress(RowUnfit):
                assert not BAD & {int(built.id) for some in read_range(conn, plan, each) for built in some}
        keys = [key for each in ranges for key in read_keys(conn, plan, each)]
    assert len(ranges) > 1
    assert sorted(keys) == sorted((str(id_),) for id_ in range(1, 1001))


def test_no_value_of_a_row_is_told(database: Database, plan: IndexPlan) -> None:
    with database.connect() as conn:
        _, unfit = read_isolated(conn, plan, [("3",)])
    assert "secret" not in repr(unfit)


# The server's own errors, at a size that costs little: a text of more than a gigabyte, JSON nested too deep,
# a piece of memory of more than a gigabyte, and a function that does not want the row.
TROUBLE = """
create function trouble(kind text) returns boolean immutable language plpgsql as $$
begin
  case kind
    when 'large' then return length(repeat('x', 2000000000)) > 0;
    when 'deep' then return json_typeof(repeat('[', 100000)::json) = 'array';
    when 'at once' then return length(to_char(now(), repeat('x', 100000000))) > 0;
    when 'raised' then raise exception 'of %', kind;
    when 'asserted' then assert false, kind;
    when 'own code' then raise exception using errcode = 'SHOP1';
    when 'internal' then raise exception using errcode = 'XX000';
    when 'away' then raise exception using errcode = '57P03';
    when 'newer' then raise exception using errcode = '57Z99';
    else return true;
  end case;
end $$
"""
TROUBLED = SCHEMA.replace("worth::int > 0", "public.trouble(worth)")


@pytest.fixture
def troubled(database: Database) -> IndexPlan:
    database.execute(TROUBLE)
    database.execute("create table users (id int primary key)")
    database.execute("create table notes (id int primary key, user_id int references users, worth text)")
    database.execute("insert into users select generate_series(1, 20)")
    database.execute("insert into notes select id, id, 'none' from users")
    schema = parse_schema(TROUBLED, file="users.schema.yml")
    with database.connect() as conn:
        return compile_index("users", schema, read_catalog(conn, tables_of(schema)))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("large", "program limit exceeded (SQLSTATE 54000)"),
        ("deep", "statement too complex (SQLSTATE 54001)"),
        ("at once", "internal error (SQLSTATE XX000)"),
        ("raised", "raise exception (SQLSTATE P0001)"),
        ("asserted", "assert failure (SQLSTATE P0004)"),
        ("own code", "database error (SQLSTATE SHOP1)"),
    ],
)
def test_a_document_that_is_too_much_or_whose_function_raises_stands_alone(
    database: Database, troubled: IndexPlan, kind: str, reason: str
) -> None:
    database.execute("update notes set worth = %s where id = 7", kind)
    with database.connect() as conn:
        built, unfit = read_isolated(conn, troubled, [(str(id_),) for id_ in range(1, 21)])
        (whole,) = plan_ranges(conn, troubled, 64)
        with pytest.raises(RowUnfit):
            list(read_range(conn, troubled, whole))
    assert unfit == [Unfit("7", reason)]
    assert len(built) == 19


@pytest.mark.parametrize(
    ("kind", "error"), [("internal", BuildError), ("away", SourceUnavailable), ("newer", SourceUnavailable)]
)
def test_an_error_that_may_be_of_all_documents_is_none_of_a_single_one(
    database: Database, troubled: IndexPlan, kind: str, error: type[Exception]
) -> None:
    database.execute("update notes set worth = %s where id = 7", kind)
    with database.connect() as conn, pytest.raises(error) as raised:
        read_isolated(conn, troubled, [("7",)])
    assert not isinstance(raised.value, RowUnfit)
