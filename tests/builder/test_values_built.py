"""Every scalar kind, from a real column to the bytes in the document."""

from __future__ import annotations

import json

import pytest
from declared import compiled, documents, followed, root, scalar, seeded

from fix_postgres import Database
from flusso.schema.model import Transform

pytestmark = pytest.mark.postgres

# (declared kind, column type, SQL value, JSON text in the document)
CASES = [
    ("text", "text", "'a \"quoted\" ü'", '"a \\"quoted\\" ü"'),
    ("text", "varchar(9)", "'abc'", '"abc"'),
    ("keyword", "char(5)", "'ab'", '"ab"'),
    ("keyword", "int", "7", '"7"'),
    ("keyword", "inet", "'10.0.0.1'", '"10.0.0.1"'),
    ("identifier", "text", "''", '""'),
    ("enum", "mood", "'glad'", '"glad"'),
    ("enum", "text", "'glad'", '"glad"'),
    ("text", "label", "'in a domain'", '"in a domain"'),
    ("uuid", "uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
    ("boolean", "bool", "true", "true"),
    ("short", "int2", "-32768", "-32768"),
    ("integer", "int", "2147483647", "2147483647"),
    ("long", "int8", "9223372036854775807", "9223372036854775807"),
    ("float", "float4", "1.5", "1.5"),
    ("float", "float4", "'NaN'", "null"),
    ("double", "float8", "0.1", "0.1"),
    ("double", "float8", "'NaN'", "null"),
    ("double", "float8", "'Infinity'", "null"),
    ("double", "float8", "'-Infinity'", "null"),
    (
        "decimal",
        "numeric",
        "12345678901234567890.123456789012345678900",
        "12345678901234567890.123456789012345678900",
    ),
    ("decimal", "numeric(10,2)", "1.5", "1.50"),
    ("decimal", "numeric", "'NaN'", "null"),
    ("decimal", "numeric", "'Infinity'", "null"),
    ("decimal", "money", "'1234.5'", "1234.50"),
    ("date", "date", "'2024-02-29'", '"2024-02-29"'),
    ("date", "date", "'infinity'", "null"),
    ("date", "date", "'0044-03-15 BC'", "null"),
    ("date", "date", "'9999-12-31'", '"9999-12-31"'),
    ("date", "date", "'10000-01-01'", "null"),
    ("timestamp", "timestamp", "'2024-01-02 03:04:05.6'", '"2024-01-02T03:04:05.6"'),
    ("timestamp", "timestamp", "'-infinity'", "null"),
    ("timestamp", "timestamptz", "'2024-01-02 03:04:05+02'", '"2024-01-02T01:04:05Z"'),
    ("timestamp", "timestamptz", "'2024-01-02 03:04:05.000001Z'", '"2024-01-02T03:04:05.000001Z"'),
    ("timestamp", "timestamptz", "'infinity'", "null"),
    ("timestamp", "timestamptz", "'12024-01-02 03:04:05Z'", "null"),
    ("timestamp", "time", "'23:59:59.5'", '"23:59:59.5"'),
    ("timestamp", "timetz", "'12:00:00+02'", '"10:00:00"'),
    ("binary", "bytea", "decode(repeat('00ff', 60), 'hex')", json.dumps("AP8A/wD/" * 20)),
    ("json", "jsonb", "'{\"b\": [1, null]}'", '{"b": [1, null]}'),
    ("json", "json", '\'{"b":  1, "b": 2}\'', '{"b":  1, "b": 2}'),
    ("json", "json", "E'{\"b\":\\n1}'", '{"b": 1}'),
    ("text", "text[]", "array['a', null, 'b']", '["a",null,"b"]'),
    ("text", "text[]", "'{}'", "[]"),
    ("enum", "mood[]", "array['sad', 'glad']::mood[]", '["sad","glad"]'),
    ("long", "int[]", "array[1, null]", "[1,null]"),
    ("double", "float8[]", "array[1, 'NaN', null]::float8[]", "[1,null,null]"),
    (
        "timestamp",
        "timestamptz[]",
        "array['2024-01-02Z', null]::timestamptz[]",
        '["2024-01-02T00:00:00Z",null]',
    ),
    ("date", "date[]", "array['2024-01-02', 'infinity']::date[]", '["2024-01-02",null]'),
    ("binary", "bytea[]", "array['a', 'b']::bytea[]", '["YQ==","Yg=="]'),
    ("json", "jsonb[]", "array['{}', '1']::jsonb[]", "[{},1]"),
]


def test_every_kind_renders_as_documented(database: Database) -> None:
    database.execute("create type mood as enum ('sad', 'glad')")
    database.execute("create domain label as text check (value <> '')")
    columns = ", ".join(f"c{n} {case[1]}" for n, case in enumerate(CASES))
    values = ", ".join(case[2] for case in CASES)
    database.execute(f"create table things (id int primary key, {columns})")
    database.execute(f"insert into things values (1, {values})")
    fields = [scalar(f"c{n}", case[0]) for n, case in enumerate(CASES)]
    (built,) = followed(database, compiled(database, root("things", *fields)), ("1",))
    expected = ",".join(f'"c{n}":{case[3]}' for n, case in enumerate(CASES))
    assert (built.body or b"").decode() == "{" + expected + "}"


def test_every_kind_renders_null_as_null(database: Database) -> None:
    database.execute("create type mood as enum ('sad', 'glad')")
    database.execute("create domain label as text check (value <> '')")
    columns = ", ".join(f"c{n} {case[1]}" for n, case in enumerate(CASES))
    database.execute(f"create table things (id int primary key, {columns})")
    database.execute("insert into things values (1)")
    fields = [scalar(f"c{n}", case[0]) for n, case in enumerate(CASES)]
    found = documents(database, root("things", *fields))
    assert set(found["1"].values()) == {None}


def test_a_default_stands_for_null_with_its_own_json_type(database: Database) -> None:
    database.execute("create table things (id int primary key, a text, b int, c timestamptz, d text[])")
    database.execute(
        "insert into things values (1, null, null, null, null), (2, 'x', 5, '2024-01-01Z', '{y}')"
    )
    schema = root(
        "things",
        scalar("a", default="it's \\ none"),
        scalar("b", "integer", default=0),
        scalar("c", "timestamp", default="1970-01-01T00:00:00Z"),
        scalar("d", default=["z"]),
    )
    assert documents(database, schema) == {
        "1": {"a": "it's \\ none", "b": 0, "c": "1970-01-01T00:00:00Z", "d": ["z"]},
        "2": {"a": "x", "b": 5, "c": "2024-01-01T00:00:00Z", "d": ["y"]},
    }


def test_transforms_apply_in_the_order_written(database: Database) -> None:
    database.execute("create table things (id int primary key, a text, b text[])")
    database.execute("insert into things values (1, '  LOUD ', array[' X', null])")
    both = (Transform.TRIM, Transform.LOWERCASE)
    schema = root("things", scalar("a", transforms=both), scalar("b", transforms=both))
    assert documents(database, schema) == {"1": {"a": "loud", "b": ["x", None]}}


def test_what_a_role_sets_for_dates_changes_nothing(database: Database) -> None:
    database.execute("create table things (id int primary key, at timestamptz, on_day date)")
    database.execute("insert into things values (1, '2024-01-02 03:04:05Z', '2024-01-02')")
    database.execute(f"alter database {database.name} set datestyle = 'German'")
    database.execute(f"alter database {database.name} set timezone = 'Asia/Tokyo'")
    schema = root("things", scalar("at", "timestamp"), scalar("on_day", "date"))
    assert documents(database, schema) == {"1": {"at": "2024-01-02T03:04:05Z", "on_day": "2024-01-02"}}


def test_a_document_never_contains_a_line_break(database: Database) -> None:
    database.execute("create table things (id int primary key, a text, b json, c json[])")
    database.execute(
        "insert into things values (1, E'x\\ny', E'{\\r\\n\"k\":\\n1}', array[E'[\\n1]']::json[])"
    )
    plan = compiled(database, root("things", scalar("a"), scalar("b", "json"), scalar("c", "json")))
    (built,) = seeded(database, plan)
    assert built.body is not None
    assert b"\n" not in built.body
    assert json.loads(built.body) == {"a": "x\ny", "b": {"k": 1}, "c": [[1]]}
