"""What DDL does to a running index, and to one whose flusso was down: not noticed, healed, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.engine.events import DebtFound, DebtPaid, Following
from flusso.engine.session import Session
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import SchemaError
from flusso.schema.parse import parse_schema
from pipelines import Run, market_spec, owed, run_once, sqlite_sink, stored_bodies

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

TABLES = """
create type mood as enum ('fine', 'sad');
create table people (id int, region text, name text, mood mood default 'fine', note text,
  loud text generated always as (upper(name)) stored, primary key (id, region)) partition by list (region);
create table people_eu partition of people for values in ('eu');
create table people_us partition of people for values in ('us');
create table visits (id int, person_id int, region text, day int, place text, primary key (id, day))
  partition by range (day);
create table visits_1 partition of visits for values from (0) to (100);
create table visits_2 partition of visits for values from (100) to (200);
alter table visits_1 replica identity full;
alter table visits_2 replica identity full;
insert into people select n, case n % 2 when 0 then 'eu' else 'us' end, 'person ' || n
from generate_series(1, 20) as n;
insert into visits select n, p.id, p.region, n, 'place ' || n
from generate_series(1, 60) as n join people as p on p.id = 1 + n % 20;
"""
SCHEMA = """
version: 1
table: people
filters:
  - { column: name, op: neq, value: nobody }
fields:
  - text: name
  - keyword: mood
  - keyword: loud
  - has_many: visits
    table: visits
    foreign_key: [person_id, region]
    fields: [{ text: place }]
"""


def people_spec(database: Database, folder: Path) -> PipelineSpec:
    sink = sqlite_sink(folder)
    index = IndexSpec("people", parse_schema(SCHEMA, file="people.schema.yml"), (sink,))
    return replace(market_spec(database, sink), indexes=(index,), look_s=0.2)


def expected(database: Database) -> dict[str, bytes]:
    """What each document must be, by SQL of the test's own."""
    rows = database.execute(
        """
        select id || '|' || region, json_build_object(
          'name', name, 'mood', mood::text, 'loud', loud, 'visits', coalesce((
            select json_agg(json_build_object('place', place::text) order by v.id, day)
            from visits as v where v.person_id = p.id and v.region = p.region), '[]'))::text
        from people as p where name <> 'nobody'
        """
    )
    return {str(id_): _plain(str(body)) for id_, body in rows}


def _plain(body: str | bytes) -> bytes:
    return json.dumps(json.loads(body), sort_keys=True).encode()


def is_exact(database: Database, spec: PipelineSpec) -> bool:
    stored = {id_: _plain(body) for id_, body in stored_bodies(spec, "people").items()}
    return stored == expected(database)


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    database18.execute(TABLES)
    return people_spec(database18, tmp_path)


UNNOTICED = {
    "another column": "alter table people add column age int default 7",
    "a dropped column": "alter table people drop column note",
    "another table": "create table other (id int primary key); insert into other values (1)",
    "another label": "alter type mood add value 'merry' before 'sad'",
    "another default": "alter table people alter column mood set default 'sad'",
    # Of a table whose columns stay as they are: both at one look are taken for rewritten values.
    "another file": "vacuum full visits_1",
    "a grant on a column": "grant select (name) on people to public",
    "a partition to come": "create table visits_0 (like visits including all)",
}
HEALED = {
    "an empty partition": "create table visits_3 partition of visits for values from (200) to (300)",
    "rows of it": "insert into visits values (900, 1, 'us', 250, 'new')",
    "a filled partition of the root": """
        create table people_as (like people including generated);
        insert into people_as (id, region, name)
        select n, 'as', 'other ' || n from generate_series(50, 59) as n;
        alter table people attach partition people_as for values in ('as')""",
    "a change in it": "update people set name = 'changed' where id = 55",
    "a filled partition of a relation": """
        create table visits_4 (like visits); insert into visits_4 values (950, 2, 'eu', 350, 'attached');
        alter table visits_4 alter column id set not null;
        alter table visits attach partition visits_4 for values from (300) to (400)""",
    "a truncated partition": "truncate visits_1",
    "a row that moves between partitions": "update people set region = 'us' where id = 2",
    "a detached partition of a relation": "alter table visits detach partition visits_4",
    "a dropped partition of the root": "drop table people_as",
    "a truncated partition of the root": "truncate people_eu",
    "a renamed label": "alter type mood rename value 'fine' to 'splendid'",
    "values of another type": "alter table visits alter column place type varchar(5) using left(place, 5)",
    "values of the same type": "alter table people alter column mood type mood using 'sad'::mood",
    "another expression": "alter table people alter column loud set expression as (lower(name))",
    "a truncated root": "truncate people",
}


def test_ddl_is_not_noticed_or_healed_while_running(
    database18: Database, spec: PipelineSpec, spark_session: Session
) -> None:
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        for sql in UNNOTICED.values():
            with database18.connect() as conn:
                conn.execute("set search_path = public")
                conn.execute(sql.encode())
        database18.execute("update people set name = 'seen' where id = 3")
        run.wait(lambda: is_exact(database18, spec), what="the change after DDL that does not matter")
        assert len(run.of(Following)) == 1, "\n".join(map(repr, run.events[1:]))
        assert run.of(DebtFound) == []
        for name, sql in HEALED.items():
            database18.execute(sql)
            run.wait(lambda: is_exact(database18, spec), what=name)
        run.wait(lambda: not owed(spec), what="no more debts")
    assert run.of(DebtPaid)


def test_what_happened_while_down_is_healed_at_the_next_start(
    database18: Database, spec: PipelineSpec, spark_session: Session
) -> None:
    run_once(spec, spark_session)
    for name in (
        "an empty partition",
        "a filled partition of the root",
        "a filled partition of a relation",
        "a truncated partition",
        "a renamed label",
        "values of another type",
        "values of the same type",
        "another expression",
    ):
        database18.execute(HEALED[name])
    database18.execute("drop table people_us")
    run_once(spec, spark_session)
    assert is_exact(database18, spec)
    assert owed(spec) == ()


REFUSED = {
    "a dropped column": (
        "alter table people drop column mood",
        ["people", "mood", "public.people"],
    ),
    "a renamed column": (
        "alter table visits rename column person_id to whose",
        ["people", "visits", "person_id"],
    ),
    "a renamed table": ("alter table visits rename to calls", ["people", "visits"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ddl_that_an_index_cannot_follow_is_refused_by_name_while_running_and_at_the_start(
    database18: Database, spec: PipelineSpec, spark_session: Session, name: str
) -> None:
    sql, words = REFUSED[name]
    run = Run(spec, spark_session)
    with pytest.raises(SchemaError) as caught, run:  # noqa: PT012
        run.wait_seeded()
        database18.execute(sql)
        run.wait(lambda: False, what="the refusal", timeout_s=30)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    with pytest.raises(SchemaError):
        run_once(spec, spark_session)


def test_a_table_that_had_another_name_for_a_while_lost_nothing(
    database18: Database, spec: PipelineSpec, spark_session: Session
) -> None:
    run_once(spec, spark_session)
    database18.execute("alter table visits rename to calls; update calls set place = 'there' where id = 5")
    database18.execute("alter table calls rename column person_id to whose")
    database18.execute("delete from calls where id = 6")
    database18.execute(
        "alter table calls rename column whose to person_id; alter table calls rename to visits"
    )
    run_once(spec, spark_session)
    assert is_exact(database18, spec)
