from __future__ import annotations

import pickle
from typing import Any

import psycopg
import pytest
from declared import compiled, count, followed, has_many, root, scalar, seeded

from fix_postgres import Database
from flusso.builder.read import BlockRange, Built, plan_ranges, read_documents, read_range

pytestmark = pytest.mark.postgres

THINGS = root("things", scalar("id", "long"), scalar("name"))


def _fill(database: Database, rows: int) -> None:
    database.execute("create table things (id bigint primary key, name text)")
    database.execute(
        "insert into things select n, repeat('x', 200) || n from generate_series(1, %s::int) as n", rows
    )
    database.execute("analyze things")


def test_a_requested_key_without_a_row_is_a_removal(database: Database) -> None:
    _fill(database, 1)
    built = followed(database, compiled(database, THINGS), ("2",), ("1",), ("2",))
    assert [(item.id, item.body is None) for item in built] == [("1", False), ("2", True)]


def test_ids_are_compared_as_text_not_as_numbers(database: Database) -> None:
    database.execute("create table things (id numeric primary key, name text)")
    database.execute("insert into things values (1.00, 'a')")
    built = followed(database, compiled(database, root("things", scalar("name"))), ("1.0",))
    assert built == [Built("1.00", b'{"name":"a"}'), Built("1.0", None)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("bool", "t"), ("char(4)", "ab  "), ("inet", "10.0.0.1"), ("bytea", "\\x00ff"),
     ("timestamptz", "2024-01-02 03:04:05+00"), ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
     ("numeric", "1.00"), ("date", "2024-01-02"), ("text", 'a"b\\c,{}')],
)  # fmt: skip
def test_a_key_is_the_text_that_the_wal_prints(database: Database, kind: str, value: str) -> None:
    database.execute(f"create table things (id {kind} primary key, name text)")
    database.execute("insert into things values (%s, 'a')", value)
    plan = compiled(database, root("things", scalar("name")))
    assert followed(database, plan, (value,)) == [Built(value, b'{"name":"a"}')]
    assert seeded(database, plan) == [Built(value, b'{"name":"a"}')]


def test_no_keys_cost_no_statement(database: Database) -> None:
    _fill(database, 1)
    assert followed(database, compiled(database, THINGS)) == []


def test_ranges_cover_every_row_exactly_once(database: Database) -> None:
    _fill(database, 5000)
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        ranges = plan_ranges(conn, plan, 0.1)
        ids = [built.id for part in ranges for batch in read_range(conn, plan, part) for built in batch]
    assert len(ranges) > 10
    assert sorted(ids, key=int) == [str(n) for n in range(1, 5001)]


def test_rows_added_after_the_ranges_were_planned_are_in_the_last(database: Database) -> None:
    _fill(database, 1000)
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        ranges = plan_ranges(conn, plan, 0.1)
        database.execute(
            "insert into things select n, repeat('y', 500) from generate_series(1001, 2000) as n"
        )
        ids = {built.id for part in ranges for batch in read_range(conn, plan, part) for built in batch}
    assert len(ids) == 2000


def test_an_empty_table_is_one_open_range(database: Database) -> None:
    database.execute("create table things (id bigint primary key, name text)")
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        assert plan_ranges(conn, plan, 8) == [BlockRange("things", 0, None)]
        assert list(read_range(conn, plan, BlockRange("things", 0, None))) == []


def test_a_range_comes_a_few_first_and_then_in_pieces_of_a_size_in_bytes(database: Database) -> None:
    _fill(database, 50)
    database.execute("update things set name = repeat('x', 40000)")
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        sizes = [len(batch) for batch in read_range(conn, plan, BlockRange("things", 0, None), first=20)]
    assert sizes == [20, 9, 9, 9, 3]


def test_a_range_left_in_the_middle_leaves_no_transaction_behind(database: Database) -> None:
    _fill(database, 250)
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        reading = read_range(conn, plan, BlockRange("things", 0, None), first=100)
        next(iter(reading))
        reading.close()  # type: ignore[attr-defined]
        assert conn.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
        assert len(read_documents(conn, plan, [("1",)])) == 1


def _explain(database: Database, sql: str, parameters: list[str]) -> str:
    with database.connect() as conn:
        rows: list[tuple[Any, ...]] = (
            psycopg.RawCursor(conn).execute(f"explain {sql}".encode(), parameters).fetchall()
        )
    return "\n".join(row[0] for row in rows)


def test_documents_by_key_are_found_by_index_and_by_range_by_tid(database: Database) -> None:
    _fill(database, 10_000)
    database.execute("create table parts (id int primary key, thing_id bigint)")
    database.execute("insert into parts select n, n / 3 from generate_series(1, 30000) as n")
    database.execute("create index on parts (thing_id); analyze")
    schema = root(
        "things",
        has_many("parts", "parts", ("thing_id",), scalar("id", "integer")),
        count("n", "parts", ("thing_id",)),
    )
    plan = compiled(database, schema)
    by_keys = _explain(database, plan.by_keys.sql, ["{" + ",".join(map(str, range(1, 501))) + "}"])
    by_range = _explain(database, plan.by_range.sql, ["(0,0)", "(10,0)"])
    assert "Seq Scan" not in by_keys
    assert "things_pkey" in by_keys
    assert "Tid Range Scan" in by_range
    assert "Seq Scan" not in by_range


def test_documents_by_a_composite_key_are_found_by_index(database: Database) -> None:
    database.execute("create table pairs (a int, b text, name text, primary key (a, b))")
    database.execute("insert into pairs select n / 10, n::text, 'x' from generate_series(1, 10000) as n")
    database.execute("analyze")
    plan = compiled(database, root("pairs", scalar("name")))
    assert "pairs_pkey" in _explain(database, plan.by_keys.sql, ["{1,2}", '{"10","20"}'])


def test_a_plan_survives_pickling(database: Database) -> None:
    _fill(database, 1)
    plan = compiled(database, THINGS)
    assert pickle.loads(pickle.dumps(plan)) == plan
