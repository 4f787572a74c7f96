from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from declared import compiled, count, followed, has_many, root, scalar, seeded

from fix_postgres import Database
from flusso.builder.choose import choose_keys
from flusso.builder.ranges import BlockRange, plan_ranges, read_range
from flusso.builder.read import Built, find_documents, read_documents
from flusso.builder.statement import in_range
from flusso.document import id_text, key_of
from flusso.errors import BuildError
from flusso.schema.model import RawFilter

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


def test_an_id_that_no_key_has_is_a_removal(database18: Database) -> None:
    _fill(database18, 1)
    database18.execute("create table pairs (a text, b text, primary key (a, b))")
    database18.execute("insert into pairs values ('a', '')")
    (one,) = followed(database18, compiled(database18, THINGS), key_of("~1", 1))
    assert one == Built("~1", None)
    pairs = compiled(database18, root("pairs", scalar("a")))
    for id_ in ("~a|", "a|\\"):
        assert followed(database18, pairs, key_of(id_, 2)) == [Built(id_, None)]


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


@pytest.mark.parametrize(
    ("kind", "odd"), [("bigint", "ghost"), ("uuid", "7"), ("date", "2024-02-31"), ("int", "9e9")]
)
def test_an_id_that_no_key_can_be_has_no_row_and_hinders_no_other(
    database: Database, kind: str, odd: str
) -> None:
    good = {"bigint": "1", "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "date": "2024-01-02", "int": "3"}[
        kind
    ]
    database.execute(f"create table things (id {kind} primary key, name text)")
    database.execute("insert into things values (%s, 'a')", good)
    plan = compiled(database, root("things", scalar("name")))
    keys = [(odd,), (good,), ("nul\x00",), ("two", "parts")]
    built = {item.id: item.body for item in followed(database, plan, *keys)}
    assert built == {good: b'{"name":"a"}', odd: None, "nul\x00": None, "two|parts": None}
    with database.connect() as conn:
        assert find_documents(conn, plan, keys) == {good}


def test_a_document_that_cannot_be_built_is_an_error_and_no_removal(database: Database) -> None:
    database.execute("create table things (id bigint primary key, name text)")
    database.execute("insert into things values (1, 'x'), (2, '3')")
    plan = compiled(database, root("things", scalar("name"), filters=(RawFilter("name::int > 0"),)))
    for keys in ([("1",)], [("1",), ("ghost",)]):
        with database.connect() as conn, pytest.raises(BuildError):
            read_documents(conn, plan, keys)


def test_documents_are_found_by_the_rules_that_build_them(database: Database) -> None:
    database.execute(
        "create table things (id numeric, part text, name text, gone bool, primary key (id, part))"
    )
    database.execute(
        "insert into things values (1.00, 'a|b', 'x', false), (2, 'c', 'y', true), (3, 'd', 'z', false)"
    )
    schema = root("things", scalar("name"), primary_key=("id", "part"), filters=(RawFilter("not gone"),))
    plan = compiled(database, schema)
    keys = [("1.00", "a|b"), ("1.0", "a|b"), ("2", "c"), ("3", "d"), ("4", "e")]
    with database.connect() as conn:
        assert find_documents(conn, plan, keys) == {id_text(keys[0]), id_text(keys[3])}
        built = read_documents(conn, plan, keys)
        assert {item.id for item in built if item.body is not None} == find_documents(conn, plan, keys)


def test_finding_documents_reads_no_related_table(database: Database) -> None:
    _fill(database, 100)
    database.execute("create table parts (id bigint primary key, thing_id bigint)")
    plan = compiled(database, root("things", scalar("id", "long"), count("parts", "parts", ("thing_id",))))
    with database.connect() as conn:
        sql = f"explain {plan.found_by_keys.sql}".encode()
        explained = str(psycopg.RawCursor(conn).execute(sql, ["{1}"]).fetchall())
    assert "things" in explained
    assert "parts" not in explained


def test_chosen_rows_are_distinct_rows_of_all_parts_of_the_table(database: Database) -> None:
    _fill(database, 3000)
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        chosen = choose_keys(conn, plan, 50, Random(1))
        assert len(set(chosen)) == 50
        assert min(int(key[0]) for key in chosen) < 1000
        assert max(int(key[0]) for key in chosen) > 2000
        assert choose_keys(conn, plan, 50, Random(2)) != chosen
        assert sorted(choose_keys(conn, plan, 10_000, Random(1)), key=lambda key: int(key[0])) == [
            (str(n),) for n in range(1, 3001)
        ]


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
        (block_range,) = plan_ranges(conn, plan, 8)
        assert (block_range.start_block, block_range.end_block) == (0, None)
        assert list(read_range(conn, plan, block_range)) == []


def test_a_range_comes_in_pieces_of_a_size_in_bytes(database: Database) -> None:
    _fill(database, 50)
    database.execute("update things set name = repeat('x', 40000)")
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        sizes = [len(batch) for batch in read_range(conn, plan, BlockRange("things", 0, None))]
    assert sizes == [13, 13, 13, 11]


def test_memory_holds_a_few_rows_of_a_range_however_large_they_are(database18: Database) -> None:
    database18.execute("create table things (id bigint primary key, name text)")
    # Small ones first: whoever guesses from them how many to fetch asks for far too many.
    database18.execute("insert into things select n, 'small' from generate_series(1, 3000) as n")
    database18.execute(
        "insert into things select n, repeat('x', 8000000) from generate_series(3001, 3050) as n"
    )
    schema = "version: 1\ntable: things\nfields:\n  - text: name\n"
    read = subprocess.run(
        [sys.executable, Path(__file__).parent / "read_large.py", database18.dsn.text, schema],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert read.returncode == 0, read.stderr
    count, size_mb, grown_mb = map(int, read.stdout.split())
    assert (count, size_mb) == (3050, 400)
    assert grown_mb < 100


def test_a_range_left_in_the_middle_leaves_no_transaction_behind(database: Database) -> None:
    _fill(database, 250)
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        reading = read_range(conn, plan, BlockRange("things", 0, None), chunk_bytes=1)
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
    by_range = _explain(database, in_range(plan.by_range, plan.root, "(0,0)", "(10,0)"), [])
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


def test_a_range_is_no_larger_where_rows_have_their_large_values_elsewhere(database: Database) -> None:
    database.execute("create table things (id int primary key, name text)")
    database.execute("alter table things alter name set storage external")
    database.execute("insert into things select n, repeat('x', 8000) from generate_series(1, 2000) as n")
    plan = compiled(database, THINGS)
    with database.connect() as conn:
        ranges = plan_ranges(conn, plan, 4.0)
        read = [[built for some in read_range(conn, plan, each) for built in some] for each in ranges]
    assert sum(len(built) for built in read) == 2000
    sizes = [sum(len(each.body or b"") for each in built) for built in read]
    assert 1_000_000 < max(sizes) <= 4 * 1024 * 1024


def test_a_block_whose_rows_are_larger_than_a_range_is_one(database18: Database) -> None:
    database18.execute("create table things (id int primary key, name text)")
    database18.execute(
        "insert into things select n, repeat(md5(n::text), 50000) from generate_series(1, 9) as n"
    )
    with database18.connect() as conn:
        ranges = plan_ranges(conn, compiled(database18, THINGS), 0.0625)
    assert [(each.start_block, each.end_block) for each in ranges] == [(0, None)]
