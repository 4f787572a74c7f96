"""One bad row keeps only its own document from being built."""

from __future__ import annotations

import contextlib

import pytest

from fix_postgres import Database
from flusso.builder.isolate import Unfit, read_isolated
from flusso.builder.plan import IndexPlan, compile_index
from flusso.builder.ranges import plan_ranges, read_keys, read_range
from flusso.document import Key
from flusso.errors import RowUnfit
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
