"""Do no harm: after all that flusso does or advises, the application's UPDATEs and DELETEs still work."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from published import Place

from flusso.errors import PublicationError

pytestmark = pytest.mark.postgres

ROW = "insert into t (id, boss) values (1, 1);"
PLAIN = f"create table t (id int primary key, boss int not null, touched bool); {ROW}"


@dataclass(frozen=True)
class Case:
    """A table, perhaps in a publication already, that must not be published as it is."""

    sql: str
    words: str
    since: int = 0
    before: int = 99
    is_broken: bool = False
    """Whether its writes fail already, by what others made."""
    is_mendable: bool = True
    """Whether there is a statement that mends it."""
    columns: tuple[str, ...] = ("id", "boss")


GENERATED = "create table t (id int primary key, boss int, touched bool, {}); " + ROW
STORED = GENERATED.format("twice int generated always as (id * 2) stored")
VIRTUAL = GENERATED.format("twice int generated always as (id * 2)")
DERIVED = GENERATED.format("made int generated always as (boss) stored")

CASES = {
    "no key": Case(f"create table t (id int, boss int, touched bool); {ROW}", "no usable replica identity"),
    "nothing": Case(f"{PLAIN} alter table t replica identity nothing", "no usable replica identity"),
    "deferrable key": Case(
        f"create table t (id int primary key deferrable, boss int, touched bool); {ROW}",
        "no usable replica identity",
    ),
    "dropped index": Case(
        f"{PLAIN} create unique index i on t (boss); alter table t replica identity using index i;"
        "drop index i",
        "no usable replica identity",
    ),
    "invalid index": Case(
        f"{PLAIN} alter table t drop constraint t_pkey; create unique index i on t (boss);"
        "alter table t replica identity using index i;"
        "update pg_index set indisvalid = false where indexrelid = 'i'::regclass",
        "no usable replica identity",
    ),
    "partition without a key": Case(
        "create table t (id int, boss int, touched bool) partition by list (id);"
        "create table a partition of t for values in (1); create table b partition of t default;"
        f"alter table a replica identity full; {ROW}",
        r"table .*\.b has no usable replica identity",
    ),
    "unlogged": Case(PLAIN.replace("create table", "create unlogged table"), "is unlogged"),
    "view": Case("create view t as select 1 as id, 1 as boss", "is a view", is_mendable=False),
    "foreign": Case(
        "create foreign data wrapper {here}_w; create server {here}_s foreign data wrapper {here}_w;"
        "create foreign table t (id int, boss int) server {here}_s",
        "is a foreign table",
        is_mendable=False,
    ),
    "inherited": Case(f"{PLAIN} create table u () inherits (t)", "inherit from it", is_mendable=False),
    "row filter": Case(f"{PLAIN} create publication {{here}} for table t where (id > 0)", "filters the rows"),
    "row filter outside the key": Case(
        f"{PLAIN} create publication {{here}} for table t where (boss > 0)",
        "filters the rows",
        is_broken=True,
    ),
    "row filter of a partition": Case(
        "create table t (id int primary key, boss int, touched bool) partition by list (id);"
        "create table a partition of t default; create publication {here} for table t, a where (id > 0);"
        f"{ROW}",
        r"filters the rows of .*\.a",
    ),
    "short list": Case(f"{PLAIN} create publication {{here}} for table t (id)", "does not publish boss"),
    "column list without the key": Case(
        f"{PLAIN} create publication {{here}} for table t (boss)", "does not publish id", is_broken=True
    ),
    "column list under a full identity": Case(
        f"{PLAIN} alter table t replica identity full; create publication {{here}} for table t (id, boss)",
        "column list .* does not cover its replica identity",
        is_broken=True,
    ),
    "inserts only": Case(
        f"{PLAIN} create publication {{here}} for table t with (publish = 'insert')",
        "does not publish update, delete, truncate",
    ),
    "inserts only, with a keyless neighbour": Case(
        f"{PLAIN} create table n (id int);"
        "create publication {here} for table t, n with (publish = 'insert')",
        "does not publish update, delete, truncate",
        is_mendable=False,
    ),
    "by the root": Case(
        f"{PLAIN} create publication {{here}} for table t with (publish_via_partition_root = true)",
        "as their root",
    ),
    "by the root with a filter": Case(
        "create table t (id int primary key, boss int, touched bool) partition by list (id);"
        "create table a partition of t default; create publication {here} for table t where (id > 0)"
        f" with (publish_via_partition_root = true); {ROW}",
        "as their root",
        is_mendable=False,
    ),
    "full with a stored column that is not published": Case(
        f"{STORED} alter table t replica identity full; create publication {{here}}",
        "replica identity with generated columns",
        since=18,
    ),
    "full with a virtual column": Case(
        f"{VIRTUAL} alter table t replica identity full",
        "replica identity with generated columns",
        since=18,
    ),
    "generated link": Case(
        DERIVED,
        "before 18 publishes no generated column",
        before=18,
        is_mendable=False,
        columns=("id", "made"),
    ),
    "generated link that is not published": Case(
        f"{DERIVED} create publication {{here}}", "does not publish made", since=18, columns=("id", "made")
    ),
    "virtual link": Case(VIRTUAL, "never published", since=18, is_mendable=False, columns=("id", "twice")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_table_whose_writes_or_changes_would_be_lost_is_refused_and_mended_without_harm(
    place: Place, name: str
) -> None:
    case = CASES[name]
    if not case.since <= place.version // 10000 < case.before:
        pytest.skip("not a matter of this version")
    place.execute(case.sql)
    can_write = name not in ("view", "foreign")
    table, before = place.table("t", *case.columns, links=case.columns[:1]), place.published()
    found = place.inspect(table)
    assert found.blockers
    with pytest.raises(PublicationError, match=case.words):
        place.ensure(table)
    assert place.published() == before
    if can_write:
        assert bool(place.try_writes("t")) is case.is_broken
    assert all(blocker.sql for blocker in found.blockers) is case.is_mendable
    if not case.is_mendable:
        return
    for sql in found.remediation_sql:
        place.execute(sql)
    assert place.ensure(table).is_satisfied
    assert place.try_writes("t") == ""


HARMLESS = {
    "a key": PLAIN,
    "full": f"{PLAIN} alter table t replica identity full",
    "an index": f"{PLAIN} create unique index i on t (boss); alter table t replica identity using index i",
    "full with a stored column": f"{STORED} alter table t replica identity full",
    "a column list that is long enough": f"{PLAIN} create publication {{here}} for table t (id, boss)",
    "partitions with identities of their own":
        "create table t (id int primary key, boss int, touched bool) partition by list (id);"
        "create table a partition of t for values in (1); create table b partition of t default;"
        f"alter table a replica identity full; {ROW}",
    "a filter in a schema that is published whole":
        f"{PLAIN} create publication {{here}} for tables in schema {{here}}, table t where (id > 0)",
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
def test_a_table_that_can_be_published_still_takes_writes_afterwards(place: Place, name: str) -> None:
    place.execute(HARMLESS[name])
    assert place.ensure(place.table("t", "id", "boss", links=("id",))).is_satisfied
    assert place.try_writes("t") == ""


def test_a_generated_key_is_published_where_the_server_can(place: Place) -> None:
    if place.version < 180000:
        pytest.skip("generated columns are published since 18")
    place.execute(
        "create table t (boss int, id int generated always as (boss + 1) stored primary key, touched bool);"
        "insert into t (boss) values (1)"
    )
    assert place.ensure(place.table("t", "id")).is_satisfied
    assert place.try_writes("t") == ""


def test_no_publication_of_whole_schemas_is_ever_made_or_advised(place: Place) -> None:
    place.execute(PLAIN)
    found = place.inspect(place.table("t", "id"))
    place.ensure(place.table("t", "id"))
    assert all("all tables" not in sql and "in schema" not in sql for sql in found.remediation_sql)
    sql = f"select puballtables from pg_publication where pubname = '{place.name}'"
    assert place.database.execute(sql) == [(False,)]
