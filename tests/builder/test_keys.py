"""Keys of every type that Postgres lets into a primary key: seeded, followed, removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from declared import belongs_to, compiled, followed, has_many, root, scalar
from follower import Follower, following

from citext import CITEXT
from fix_postgres import Database
from flusso.document import id_text, key_of
from flusso.errors import SchemaError
from flusso.schema.model import IndexSchema
from typematrix import MADE

pytestmark = pytest.mark.postgres

# A type, and three of its values: the first changes into the second, the third is updated and deleted. Some
# first and second are equal in SQL: they differ as text only, and so as ids.
KEYS = {
    "int2": ("-32768", "0", "32767"),
    "int4": ("-2147483648", "0", "2147483647"),
    "int8": ("-9223372036854775808", "0", "9223372036854775807"),
    "numeric": ("1.0", "1.00", "NaN"),
    "float4": ("0", "-0", "3.4028235e+38"),
    "float8": ("0.1", "-Infinity", "NaN"),
    "money": ("$1.00", "-$1.00", "$92,233,720,368,547,758.07"),
    "text": ("", "a|b\\c\"d'e{},~%\t\n é", "~sha256-" + "0" * 64),
    "varchar(2600)": ("x" * 513, "é" * 300, "~"),
    "char(4)": ("ab  ", "abc ", "    "),
    '"char"': ("a", "b", "\\"),
    "name": ("a", "B", ""),
    "public.citext": ("abc", "ABC", "Éé"),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
             "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "bool": ("t", "f"),
    "date": ("2024-01-02", "0044-03-15 BC", "infinity"),
    "timestamp": ("2024-01-02 03:04:05", "2024-01-02 03:04:05.000001", "-infinity"),
    "timestamptz": ("2024-01-02 03:04:05+00", "10000-01-02 00:00:00+00", "infinity"),
    "time": ("00:00:00", "24:00:00", "12:00:00.5"),
    "timetz": ("12:00:00+00", "12:00:00+02", "12:00:00-05:30"),
    "interval": ("1 mon", "30 days", "-1 days"),
    "bytea": ("\\x", "\\x00ff", "\\x7e5c7c"),
    "public.mood": ("sad", 'très "glad"'),
    "label": ("in a domain", "", "~"),
    "inet": ("10.0.0.1", "10.0.0.1/24", "::1"),
    "cidr": ("10.0.0.0/8", "10.0.0.0/9", "::/0"),
    "macaddr": ("08:00:2b:01:02:03", "08:00:2b:01:02:04"),
    "macaddr8": ("08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03:04:06"),
    "bit(3)": ("101", "111", "000"),
    "varbit": ("", "101", "0"),
    "oid": ("0", "4294967295", "1"),
    "pg_lsn": ("0/0", "FFFFFFFF/FFFFFFFF", "1/A"),
    "xid8": ("0", "18446744073709551615", "1"),
    "jsonb": ('{"a": 1.0}', '{"a": 1.00}', '"x"'),
    "tsvector": ("'a':1", "'a':1 'b':2", ""),
    "int4range": ("[1,5)", "empty", "(,)"),
    "nummultirange": ("{[1,5)}", "{[1.0,5)}", "{}"),
    "int4[]": ("{1,NULL,3}", "{{1},{2}}", "{}"),
    "public.pair": ('(1,"a b")', "(,)", '(2,"\\\\x"",|")'),
}  # fmt: skip


def test_keys_of_every_type_seed_update_and_delete(database18: Database) -> None:
    with _following(database18, *KEYS) as follower:
        first = {n: (values[0], *values[2:]) for n, values in enumerate(KEYS.values())}
        assert _names(follower) == _ids(first)

        steps = []
        for n, (kind, values) in enumerate(KEYS.items()):
            old, new = _sql(values[0], kind), _sql(values[1], kind)
            steps.append(
                f"""
                update one_{n} set id = {new} where concat(id) = concat({old});
                update two_{n} set a = {new} where concat(a) = concat({old});
                insert into child_{n} values (1, {new}, 7, 'child');
                """
            )
        _assert_exact(follower, steps)
        assert _names(follower) == _ids({n: values[1:] for n, values in enumerate(KEYS.values())})
        assert {_children(body) for body in _of_second(follower)} == {("child",)}

        steps = []
        for n, (kind, values) in enumerate(KEYS.items()):
            steps.append(f"update child_{n} set note = 'changed';")
            for value in values[2:]:
                third = f"concat({_sql(value, kind)})"
                steps.append(f"update one_{n} set note = 'third' where concat(id) = {third};")
                steps.append(f"delete from two_{n} where concat(a) = {third};")
        _assert_exact(follower, steps)
        assert {_children(body) for body in _of_second(follower)} == {("changed",)}

        every = range(len(KEYS))
        _assert_exact(
            follower, [f"delete from child_{n}; delete from one_{n}; delete from two_{n};" for n in every]
        )
        assert _names(follower) == set()


def test_a_reference_that_equals_a_key_in_sql_alone_leads_to_its_document(database: Database) -> None:
    references = {"numeric": "1.000", "public.citext": "ABC", "interval": "30 days"}
    with _following(database, *references) as follower:
        inserts = [
            f"insert into child_{n} values (1, {_sql(value, kind)}, 7, 'child');"
            for n, (kind, value) in enumerate(references.items())
        ]
        _assert_exact(follower, inserts)
        found = {
            (index, id_)
            for index, documents in follower.documents.items()
            for id_, body in documents.items()
            if _children(body)
        }
        assert found == _ids({0: ("1.0",), 1: ("abc",), 2: ("1 mon",)})


def test_documents_with_hashed_ids_go_and_stay_as_their_rows_after_truncate(database: Database) -> None:
    with _following(database, "varchar(2600)") as follower:
        _assert_exact(
            follower,
            [
                "insert into one_0 values (repeat('y', 600), 'x'), (repeat('z', 700), 'x');",
                "insert into two_0 values (repeat('y', 600), 7, 'x'), (repeat('z', 700), 7, 'x');",
            ],
        )
        _assert_exact(
            follower,
            [
                "truncate one_0; insert into one_0 values (repeat('y', 600), 'again');",
                "truncate two_0; insert into two_0 values (repeat('z', 700), 7, 'again');",
            ],
        )
        assert _names(follower) == {
            ("one_0", id_text(("y" * 600,))),
            ("two_0", id_text(("z" * 700, "7"))),
        }


def test_a_hashed_id_leads_to_its_row_in_a_database_of_another_encoding(latin_database: Database) -> None:
    latin_database.execute(
        "create table t (id text primary key, n int); insert into t values (repeat('€', 200), 1)"
    )
    plan = compiled(latin_database, root("t", scalar("n", "integer")))
    id_ = id_text(("€" * 200,))
    (built,) = followed(latin_database, plan, key_of(id_, 1))
    assert (built.id, built.body) == (id_, b'{"n":1}')


def test_a_key_that_is_stored_out_of_line_is_followed(database: Database) -> None:
    long = "(select string_agg(md5(n::text), '') from generate_series(1, 80) as n)"
    with _following(database, "varchar(2600)") as follower:
        _assert_exact(
            follower, [f"insert into one_0 values ({long}, 'a'); insert into two_0 values ({long}, 7, 'a');"]
        )
        _assert_exact(follower, ["update one_0 set note = 'b'; update two_0 set note = 'b';"])
        _assert_exact(follower, ["delete from one_0 where length(id) = 2560; delete from two_0;"])


MIXED = """
create table roots (id int8 primary key, code varchar(8), name text);
create table children (id int primary key, root_id numeric(10, 2), kind char(6), note text);
create table kinds (code text primary key, note text);
create table marks (code char(6) primary key, note text);
create table root_marks (root_id float8, mark text, primary key (root_id, mark));
alter table children replica identity full;
insert into roots values (1, 'ab', 'one'), (2, 'cd', 'two');
insert into children values (1, 1, 'x', 'a'), (2, 2, 'y', 'b'), (3, 1.5, 'x', 'c'), (4, 'NaN', 'x', 'd');
insert into kinds values ('x', 'kind x'), ('y', 'kind y');
insert into marks values ('ab', 'mark ab'), ('cd', 'mark cd');
insert into root_marks values (1, 'ab'), (2, 'cd'), (1e300, 'ab');
"""
MIXED_SCHEMA = """
version: 1
table: roots
fields:
  - text: name
  - belongs_to: mark
    table: marks
    column: code
    fields: [{ text: note }]
  - has_many: children
    table: children
    foreign_key: root_id
    fields:
      - text: note
      - belongs_to: kind
        table: kinds
        column: kind
        fields: [{ text: note }]
  - many_to_many: marks
    table: marks
    through: { table: root_marks, left_key: root_id, right_key: mark }
    fields: [{ text: note }]
"""


MIXED_CHANGES = {
    "update children set note = 'new' where id = 1": {"1"},
    "update children set root_id = 2 where id = 1": {"1", "2"},
    "update children set note = 'new' where root_id > 1e9": set(),
    "update kinds set note = 'new' where code = 'y'": {"2"},
    "update marks set note = 'new' where code = 'ab'": {"1"},
    "delete from root_marks where root_id = 2": {"2"},
    "insert into root_marks values (2, 'ab'), (-1e300, 'ab')": {"2"},
}


def test_references_of_another_type_lead_to_their_documents(database: Database) -> None:
    database.execute(MIXED)
    with following(database, {"roots": MIXED_SCHEMA}) as follower:
        for sql, ids in MIXED_CHANGES.items():
            assert {id_ for _, id_ in follower.apply(sql)} == ids, sql
            assert follower.documents == follower.seed(), sql


def test_a_plain_reference_to_a_key_of_an_extension_is_refused(database18: Database) -> None:
    database18.execute(CITEXT)
    database18.execute("create table langs (code citext primary key, note text)")
    database18.execute("create table books (id int primary key, lang varchar(9))")
    schema = root("books", belongs_to("lang", "langs", ("lang",), scalar("note")))
    with pytest.raises(SchemaError, match="cannot be compared with"):
        compiled(database18, schema)


@contextmanager
def _following(database: Database, *kinds: str) -> Iterator[Follower]:
    """For each type two roots, one with a key of that type alone, and a child that refers to both."""
    database.execute(MADE + "create domain label as text check (value is not null)")
    for n, kind in enumerate(kinds):
        values = [_sql(value, kind) for value in (KEYS[kind][0], *KEYS[kind][2:])]
        database.execute(
            f"""
            create table one_{n} (id {kind} primary key, note text);
            create table two_{n} (a {kind}, b int, note text, primary key (a, b));
            create table child_{n} (id int primary key, a {kind}, b int, note text);
            alter table child_{n} replica identity full;
            insert into one_{n} values {", ".join(f"({value}, 'one')" for value in values)};
            insert into two_{n} values {", ".join(f"({value}, 7, 'two')" for value in values)};
            """
        )
    schemas: dict[str, str | IndexSchema] = {}
    for n in range(len(kinds)):
        for name, key in (("one", ("a",)), ("two", ("a", "b"))):
            children = has_many("children", f"child_{n}", key, scalar("note"))
            schemas[f"{name}_{n}"] = root(f"{name}_{n}", scalar("note"), children)
    with following(database, schemas) as run:
        yield run


def _children(body: bytes) -> tuple[str, ...]:
    return tuple(child["note"] for child in json.loads(body)["children"])


def _assert_exact(follower: Follower, steps: list[str]) -> None:
    """Make the changes; following them gives what seeding would."""
    follower.apply("".join(steps))
    assert follower.documents == follower.seed()


def _names(follower: Follower) -> set[tuple[str, str]]:
    return {(index, id_) for index, documents in follower.documents.items() for id_ in documents}


def _ids(values: dict[int, tuple[str, ...]]) -> set[tuple[str, str]]:
    ones = {(f"one_{n}", id_text((text,))) for n, texts in values.items() for text in texts}
    return ones | {(f"two_{n}", id_text((text, "7"))) for n, texts in values.items() for text in texts}


def _of_second(follower: Follower) -> list[bytes]:
    """The documents of the row that has the second value."""
    return [
        follower.documents[f"{table}_{n}"][id_text((values[1], *rest))]
        for n, values in enumerate(KEYS.values())
        for table, rest in (("one", ()), ("two", ("7",)))
    ]


def _sql(text: str, kind: str) -> str:
    return "'" + text.replace("'", "''") + f"'::{kind}"
