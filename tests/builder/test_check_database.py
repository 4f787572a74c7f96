"""What the check finds in a real database: one with many faults, and what mends them."""

from __future__ import annotations

import psycopg
import pytest

from fix_postgres import Database
from flusso.builder.check.database import check_schemas
from flusso.diagnostic import Code, Diagnostic
from flusso.postgres.connect import Dsn, connect
from flusso.postgres.introspect import read_catalog
from flusso.schema.locate import locate
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema

pytestmark = pytest.mark.postgres

TABLES = """
create type mood as enum ('sad', 'ok', 'happy');
create table users (
  id bigint primary key, email text not null, nick text, age int, feels mood not null, born date,
  country text, doc json, seen timestamptz
);
create unique index on users (nick);
create unique index on users (email) where age > 0;
create table countries (code text not null, name text, primary key (code));
create table posts (id bigint primary key, author bigint not null, title text, words int, at timestamptz);
create table tags (id int primary key, slug text not null);
create table post_tags (post bigint, tag int, primary key (post, tag));
create view people as select * from users;
create table "Odd Table" ("Key" int primary key, "user id" bigint);
"""

GOOD = """
version: 1
table: users
fields:
  - long: id
  - keyword: email
    required: true
  - enum: feels
    variants: [happy, ok, sad]
filters:
  - { column: age, op: between, value: [1, 2] }
  - { raw: "nick ~ '^[a-z]+$' and age > 0 -- today" }
  - { raw: "users.nick <> 'now'" }
"""

FAULTY = """
version: 1
table: users
primary_key: email
filters:
  - { column: age, op: eq, value: many }
  - { column: doc, op: eq, value: x }
  - { raw: "posts.id > 1" }
  - { raw: "seen > now()" }
  - { raw: "exists (select from public.posts)" }
  - { raw: "born = 'today'" }
  - { raw: "seen::date > '2020-01-01'" }
fields:
  - text: nick
    required: true
  - keyword: mail
  - date: age
  - enum: feels
    variants: [sad, glad]
  - belongs_to: country
    table: countries
    primary_key: name
    required: true
    fields: [{ text: name }]
  - object: more
    fields:
      - has_many: posts
        table: posts
        foreign_key: author
        order_by: [{ column: tilte }]
        filters: [{ column: words, op: in, value: [1, two] }]
        fields:
          - text: title
          - many_to_many: tags
            table: tags
            through:
              table: post_tags
              left_key: post
              right_key: tag
              filters: [{ column: tag, op: gt, value: x }, { raw: "random() > tag" }]
            fields: [{ keyword: slug }]
  - geo: spot
    lat: age
    lon: born
    required: true
  - count: odd
    table: Odd Table
    foreign_key: user id
  - count: views
    table: people
    foreign_key: id
  - count: gone
    table: nowhere
    foreign_key: id
  - has_one: post
    table: posts
    foreign_key: title
    fields: [{ long: id }]
"""


def check(database: Database, text: str, dsn: Dsn | None = None) -> list[Diagnostic]:
    schema = parse_schema(text, file="t.yml")
    with connect(dsn or database.dsn) as conn:
        return list(check_schemas(conn, {"t": schema}, read_catalog(conn, tables_of(schema))).findings)


def codes(findings: list[Diagnostic]) -> set[tuple[str, str, str]]:
    return {(finding.code.value, finding.field, finding.path) for finding in findings}


def test_a_schema_that_fits_has_no_findings(database: Database) -> None:
    database.execute(TABLES)
    assert check(database, GOOD) == []


def test_all_faults_are_found_at_once(database: Database) -> None:
    database.execute(TABLES)
    assert codes(check(database, FAULTY)) == {
        ("unfit-key", "", "primary_key"),
        ("unfit-filter", "", "filters[0].value"),
        ("unfit-filter", "", "filters[1].op"),
        ("unfit-filter", "", "filters[2].raw"),
        ("mutable-filter", "", "filters[3].raw"),
        ("mutable-filter", "", "filters[4].raw"),
        ("mutable-filter", "", "filters[5].raw"),
        ("mutable-filter", "", "filters[6].raw"),
        ("nullable-required", "nick", "required"),
        ("missing-column", "mail", "column"),
        ("unfit-type", "age", ""),
        ("other-labels", "feels", "variants"),
        ("nullable-required", "country", "required"),
        ("ambiguous-key", "country", "primary_key"),
        ("missing-index", "country", "column"),
        ("missing-column", "more.posts", "order_by[0].column"),
        ("unfit-filter", "more.posts", "filters[0].value"),
        ("unfit-link", "more.posts", "foreign_key"),
        ("missing-index", "more.posts", "foreign_key"),
        ("missing-index", "more.posts.tags", "through.right_key"),
        ("unfit-filter", "more.posts.tags", "through.filters[0].value"),
        ("mutable-filter", "more.posts.tags", "through.filters[1].raw"),
        ("nullable-required", "spot", "required"),
        ("unfit-type", "spot", "lon"),
        ("unfit-link", "odd", "foreign_key"),
        ("missing-index", "odd", "foreign_key"),
        ("unfollowable-table", "views", "table"),
        ("unfit-link", "views", "foreign_key"),
        ("missing-table", "gone", "table"),
        ("missing-index", "post", "foreign_key"),
    }


def test_findings_are_placed_in_the_file(database18: Database) -> None:
    database18.execute(TABLES)
    lines = FAULTY.splitlines()
    for finding in locate(check(database18, FAULTY), FAULTY, "t.yml"):
        assert finding.excerpt is not None
        assert finding.excerpt.text == lines[finding.line - 1]
        place = finding.excerpt
        marked = place.text[place.start : place.start + place.length]
        match finding.code:
            case Code.MISSING_TABLE:
                assert marked == "nowhere"
            case Code.MISSING_COLUMN:
                assert marked in ("mail", "tilte")
            case Code.OTHER_LABELS:
                assert marked == "[sad, glad]"
            case Code.UNFIT_TYPE:
                assert marked in ("age", "born")


def test_the_statements_in_the_hints_mend_what_they_are_about(database: Database) -> None:
    database.execute(TABLES)
    mended = {Code.MISSING_INDEX, Code.UNFIT_KEY, Code.AMBIGUOUS_KEY, Code.NULLABLE_REQUIRED}
    findings = [finding for finding in check(database, FAULTY) if finding.code in mended]
    with psycopg.connect(database.dsn.text, autocommit=True) as conn:
        for finding in findings:
            assert finding.hint
            conn.execute(finding.hint.removesuffix(" or leave required out").encode())
    assert not [finding for finding in check(database, FAULTY) if finding.code in mended]


def test_nothing_is_left_in_the_database(database18: Database) -> None:
    database18.execute(TABLES)
    objects = "select count(*) from pg_class where relpersistence = 't' or relname like '%expr%'"
    before = database18.execute(objects)
    with database18.connect() as conn:
        schema = parse_schema(GOOD, file="t.yml")
        check_schemas(conn, {"t": schema}, read_catalog(conn, tables_of(schema)))
        assert conn.execute(objects.encode()).fetchall() == before


def test_a_role_without_privileges_is_told_each_of_them_once(database18: Database) -> None:
    database18.execute(TABLES)
    role = f"guest_{database18.name}"
    database18.execute(f"create role {role} login; revoke usage on schema public from public")
    dsn = Dsn(database18.dsn.text.replace("user=flusso", f"user={role}"))
    try:
        findings = check(database18, GOOD, dsn)
        assert [finding.hint for finding in findings] == [
            f'grant usage on schema "public" to "{role}";',
            f'grant select on "public"."users" to "{role}";',
        ]
        for finding in findings:
            database18.execute(str(finding.hint))
        assert check(database18, GOOD, dsn) == []
        database18.execute("alter table users enable row level security")
        assert [finding.code for finding in check(database18, GOOD, dsn)] == [Code.ROW_SECURITY]
        database18.execute(
            "alter table users disable row level security;"
            f"revoke temporary on database {database18.name} from public"
        )
        unproven = check(database18, GOOD, dsn)
        assert [finding.code for finding in unproven] == [Code.UNPROVEN_FILTER] * 2
        database18.execute(str(unproven[0].hint))
        assert check(database18, GOOD, dsn) == []
    finally:
        database18.execute(f"drop owned by {role}; drop role {role}")


def test_a_server_that_takes_no_writes_leaves_raw_filters_unproven(database18: Database) -> None:
    database18.execute(TABLES)
    dsn = Dsn(f"{database18.dsn.text} options='-c default_transaction_read_only=on'")
    assert {finding.code for finding in check(database18, GOOD, dsn)} == {Code.UNPROVEN_FILTER}


def test_a_row_that_is_part_of_very_many_documents_is_told_from_statistics(database18: Database) -> None:
    database18.execute(
        """
        create table countries (code text primary key, name text);
        insert into countries values ('it'), ('fr');
        create table users (id int primary key, country text);
        create index on users (country);
        insert into users
        select n, case when n % 2 = 0 then 'it' else 'fr' end from generate_series(1, 30000) as n;
        analyze users
        """
    )
    text = """
version: 1
table: users
fields:
  - belongs_to: country
    table: countries
    fields: [{ text: name }]
"""
    (finding,) = check(database18, text)
    assert (finding.code, finding.field) == (Code.FAN_OUT, "country")
    assert "about 15,000 documents" in finding.message
