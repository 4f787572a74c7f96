"""Each kind of path, from a change with its old and new image to the documents it touches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from declared import (
    belongs_to,
    compiled,
    count,
    has_many,
    many_to_many,
    root,
    scalar,
    table,
)

from fix_postgres import Database
from flusso.builder import resolve as resolving
from flusso.builder.plan import IndexPlan, watched_tables
from flusso.builder.resolve import find_owed, resolve
from flusso.catalog import TableName
from flusso.change import UNCHANGED, Change, Operation, WatchedTable
from flusso.debt import MOST_KEYS, Owed, Reach, Scope
from flusso.document import DocumentId
from flusso.lsn import Lsn
from flusso.schema.model import Group, IndexSchema, Through

pytestmark = pytest.mark.postgres

TABLES = """
create table countries (code text primary key, name text);
create table users (id int primary key, country text, boss int);
create table orders (id int primary key, user_id int);
create table items (id int primary key, order_id int);
create table notes (id int primary key, item_id int);
create table tags (id int primary key, label text);
create table user_tags (id int primary key, user_id int, tag_id int);
insert into countries values ('it', 'Italy'), ('jp', 'Japan');
insert into users values (1, 'it', null), (2, 'jp', 1), (3, 'it', 2);
insert into orders values (10, 1), (11, 1), (12, 2);
insert into items values (100, 10), (101, 12);
insert into notes values (1000, 100), (1001, 101);
insert into tags values (1, 'red'), (2, 'blue');
insert into user_tags values (1, 1, 1), (2, 3, 1), (3, 2, 2);
"""
NOTES = has_many("notes", "notes", ("item_id",), scalar("id", "integer"))
ITEMS = has_many("items", "items", ("order_id",), scalar("id", "integer"), NOTES)
ORDERS = has_many("orders", "orders", ("user_id",), scalar("id", "integer"), ITEMS)
TAGS = many_to_many(
    "tags", "tags", scalar("label"), through=Through(table("user_tags"), ("user_id",), ("tag_id",))
)
COUNTRY = belongs_to("country", "countries", ("country",), scalar("name"))
BOSS = belongs_to("boss", "users", ("boss",), scalar("id", "integer"), COUNTRY)
USERS = root("users", scalar("id", "integer"), ORDERS, TAGS, COUNTRY)


@pytest.fixture
def shop(database: Database) -> Database:
    database.execute(TABLES)
    return database


class Log:
    """Writes changes as capture would, with the watched columns of each table by name."""

    def __init__(self, plans: list[IndexPlan]) -> None:
        self.watched = watched_tables(plans)
        self._columns = {item.name: item.columns for item in self.watched}

    def change(
        self, name: str, old: dict[str, str] | None = None, new: dict[str, str | None] | None = None
    ) -> Change:
        where = table(name)
        operation = Operation.INSERT if old is None else Operation.DELETE if new is None else Operation.UPDATE
        return Change(where, operation, self._values(where, old), self._values(where, new), Lsn(1), 1)

    def _values(self, where: TableName, row: object) -> tuple[str | None, ...] | None:
        return tuple(row.get(name) for name in self._columns[where]) if isinstance(row, dict) else None


def truncate(name: str) -> Change:
    return Change(table(name), Operation.TRUNCATE, None, None, Lsn(1), 1)


def found(
    shop: Database,
    schema: IndexSchema,
    name: str,
    old: dict[str, str] | None,
    new: dict[str, str | None] | None,
) -> list[str]:
    """The ids that one change leads to, each once."""
    plan = compiled(shop, schema)
    log = Log([plan])
    return ids(shop, [plan], [log.change(name, old, new)], log.watched)


def ids(
    shop: Database, plans: list[IndexPlan], changes: list[Change], watched: tuple[WatchedTable, ...]
) -> list[str]:
    with shop.connect() as conn:
        documents = documents_of(resolve(conn, plans, changes, watched))
    assert len(documents) == len(set(documents))
    return sorted("|".join(document.key) for document in documents)


def documents_of(found: Iterable[DocumentId | Owed]) -> list[DocumentId]:
    return [each for each in found if isinstance(each, DocumentId)]


def test_a_root_change_is_its_own_document_without_any_statement(shop: Database) -> None:
    plan = compiled(shop, USERS)
    log = Log([plan])
    conn = shop.connect()
    conn.close()
    changes = [log.change("users", None, {"id": "7"})]
    assert list(resolve(conn, [plan], changes, log.watched)) == [DocumentId("things", ("7",))]


def test_a_root_whose_key_changes_gives_both_ids(shop: Database) -> None:
    assert found(shop, USERS, "users", {"id": "7"}, {"id": "8"}) == ["7", "8"]


def test_a_moved_child_gives_the_parent_it_left_and_the_one_it_joined(shop: Database) -> None:
    old, new = {"id": "10", "user_id": "1"}, {"id": "10", "user_id": "2"}
    assert found(shop, USERS, "orders", old, dict(new)) == ["1", "2"]


def test_a_deleted_child_gives_the_parent_it_left(shop: Database) -> None:
    assert found(shop, USERS, "orders", {"id": "99", "user_id": "3"}, None) == ["3"]


def test_a_child_that_belongs_to_nobody_gives_nothing(shop: Database) -> None:
    assert found(shop, USERS, "orders", None, {"id": "99", "user_id": None}) == []


def test_an_old_image_without_the_link_is_unknown_and_not_null(shop: Database) -> None:
    assert found(shop, USERS, "orders", {"id": "10"}, {"id": "10", "user_id": "2"}) == ["2"]


def test_a_change_at_depth_two_climbs_by_one_hop(shop: Database) -> None:
    old, new = {"id": "100", "order_id": "10"}, {"id": "100", "order_id": "12"}
    assert found(shop, USERS, "items", old, dict(new)) == ["1", "2"]


def test_a_change_at_depth_three_climbs_by_two_hops(shop: Database) -> None:
    old, new = {"id": "1000", "item_id": "100"}, {"id": "1000", "item_id": "101"}
    assert found(shop, USERS, "notes", old, dict(new)) == ["1", "2"]


def test_a_belongs_to_target_gives_all_that_refer_to_it(shop: Database) -> None:
    assert found(shop, USERS, "countries", None, {"code": "it"}) == ["1", "3"]


def test_a_belongs_to_target_two_levels_up_gives_all_that_refer_to_it(shop: Database) -> None:
    schema = root("orders", belongs_to("user", "users", ("user_id",), scalar("id", "integer"), COUNTRY))
    assert found(shop, schema, "countries", {"code": "jp"}, None) == ["12"]


def test_the_far_side_of_a_junction_gives_all_linked(shop: Database) -> None:
    assert found(shop, USERS, "tags", None, {"id": "1"}) == ["1", "3"]


def test_a_junction_row_gives_the_old_and_the_new_side(shop: Database) -> None:
    old, new = {"id": "1", "user_id": "1"}, {"id": "1", "user_id": "2"}
    assert found(shop, USERS, "user_tags", old, dict(new)) == ["1", "2"]


def test_an_aggregate_is_reached_like_a_child(shop: Database) -> None:
    schema = root("users", Group("numbers", (count("orders", "orders", ("user_id",)),)))
    assert found(shop, schema, "orders", {"id": "9", "user_id": "3"}, None) == ["3"]


def test_an_aggregate_through_a_junction_is_reached_from_both_tables(shop: Database) -> None:
    schema = root("users", count("tags", "tags", through=TAGS.through))
    assert found(shop, schema, "tags", None, {"id": "2"}) == ["2"]
    assert found(shop, schema, "user_tags", {"id": "1", "user_id": "3"}, None) == ["3"]


def test_a_self_reference_gives_the_row_and_those_who_refer_to_it(shop: Database) -> None:
    assert found(shop, root("users", BOSS), "users", None, {"id": "1"}) == ["1", "2"]


def test_a_table_on_several_paths_is_followed_on_each(shop: Database) -> None:
    schema = root("users", COUNTRY, BOSS)
    assert found(shop, schema, "countries", None, {"code": "it"}) == ["1", "2", "3"]


def test_several_indexes_each_get_their_documents(shop: Database) -> None:
    plans = [
        compiled(shop, USERS, "users"),
        compiled(shop, root("orders", scalar("id", "integer")), "orders"),
    ]
    log = Log(plans)
    changes = [log.change("orders", None, {"id": "10", "user_id": "1"})]
    with shop.connect() as conn:
        documents = set(resolve(conn, plans, changes, log.watched))
    assert documents == {DocumentId("users", ("1",)), DocumentId("orders", ("10",))}


def test_composite_links_travel_as_tuples(database: Database) -> None:
    database.execute("create table a (x int, y text, primary key (x, y))")
    database.execute("create table b (id int primary key, ax int, ay text)")
    database.execute("create table c (id int primary key, b_id int)")
    database.execute("insert into a values (1, 'p'), (2, 'q'); insert into b values (5, 1, 'p'), (6, 2, 'q')")
    schema = root(
        "a", has_many("bs", "b", ("ax", "ay"), has_many("cs", "c", ("b_id",), scalar("id", "integer")))
    )
    assert found(database, schema, "c", {"id": "1", "b_id": "5"}, {"id": "1", "b_id": "6"}) == ["1|p", "2|q"]
    assert found(database, schema, "b", {"id": "5", "ax": "1", "ay": "p"}, None) == ["1|p"]


def test_an_unchanged_link_is_taken_from_the_old_row(shop: Database) -> None:
    old, new = {"id": "99", "user_id": "3"}, {"id": "99", "user_id": UNCHANGED}
    assert found(shop, USERS, "orders", old, dict(new)) == ["3"]


def test_a_link_of_which_a_part_is_unchanged_takes_that_part_from_the_old_row(database: Database) -> None:
    database.execute("create table a (x int, y text, primary key (x, y))")
    database.execute("create table b (id int primary key, ax int, ay text)")
    schema = root("a", count("bs", "b", ("ax", "ay")))
    old, new = {"id": "5", "ax": "1", "ay": "p"}, {"id": "5", "ax": "2", "ay": UNCHANGED}
    assert found(database, schema, "b", old, dict(new)) == ["1|p", "2|p"]


def test_an_unchanged_link_that_the_wal_lacks_is_read_by_key(shop: Database) -> None:
    old, new = {"id": "12"}, {"id": "12", "user_id": UNCHANGED}
    assert found(shop, USERS, "orders", old, dict(new)) == ["2"]


@pytest.mark.parametrize(
    ("name", "scope"),
    [("notes", Scope.HELD), ("user_tags", Scope.HELD), ("countries", Scope.HELD), ("users", Scope.GONE)],
)
def test_truncating_a_table_names_the_indexes_that_read_it_and_no_document(
    shop: Database, name: str, scope: Scope
) -> None:
    plan = compiled(shop, USERS)
    other = compiled(shop, root("tags", scalar("label")), "tagged")
    assert ids(shop, [plan, other], [truncate(name)], watched_tables([plan])) == []
    assert list(find_owed([plan, other], [truncate(name)])) == [
        Owed("things", scope, f"public.{name} was truncated")
    ]


def test_a_truncated_root_that_documents_also_show_elsewhere_owes_all_of_them(shop: Database) -> None:
    plan = compiled(shop, root("users", BOSS))
    assert [owed.scope for owed in find_owed([plan], [truncate("users")])] == [Scope.HELD]


def test_ten_thousand_changes_cost_as_many_round_trips_as_ten(shop: Database, tmp_path: Path) -> None:
    for name, refers in (("users", "null"), ("orders", "n"), ("items", "n"), ("notes", "n")):
        shop.execute(f"insert into {name} select n, {refers} from generate_series(20001, 30000) as n")
    plan = compiled(shop, USERS)
    log = Log([plan])

    def resolved(count: int) -> tuple[int, int]:
        changes = [
            log.change("notes", None, {"id": str(n), "item_id": str(n)}) for n in range(20001, 20001 + count)
        ]
        changes += [log.change("user_tags", {"id": "1", "user_id": str(n)}) for n in range(count)]
        changes += [log.change("countries", None, {"code": f"{n}"}) for n in range(count)]
        with shop.connect() as conn, (tmp_path / "trace").open("w+") as trace:
            conn.pgconn.trace(trace.fileno())
            found = len(list(resolve(conn, [plan], changes, log.watched)))
            conn.pgconn.untrace()
            trace.seek(0)
            asked = [line for line in trace if re.search(r"\tF\t\d+\t(Query|Sync)\b", line)]
        return found, len(asked)

    (few, few_trips), (many, many_trips) = resolved(10), resolved(10_000)
    assert (few, many) == (20, 20_000)
    assert 0 < many_trips == few_trips


def test_more_documents_than_the_limit_are_owed_and_none_of_them_is_named(shop: Database) -> None:
    shop.execute("insert into users select n, 'jp' from generate_series(1000, 1999) as n")
    plan = compiled(shop, USERS)
    log = Log([plan])
    changes = [
        log.change("countries", {"code": "jp"}, {"code": "kr"}),
        log.change("tags", None, {"id": "2"}),
        log.change("users", None, {"id": "7"}),
    ]
    with shop.connect() as conn:
        found = list(resolve(conn, [plan], changes, log.watched, limit=1000))
    (country,) = (path for path in plan.paths if path.field == "country")
    why = "rows of public.countries changed that more than 1,000 documents show"
    reach = Reach(country.place, (("jp",), ("kr",)))
    assert [each for each in found if isinstance(each, Owed)] == [Owed("things", Scope.REACHED, why, reach)]
    assert set(documents_of(found)) == {DocumentId("things", ("2",)), DocumentId("things", ("7",))}


def test_of_many_values_only_a_few_around_those_that_lead_to_too_much_are_owed(shop: Database) -> None:
    shop.execute("insert into users select n, 'c' || n % 2 from generate_series(1000, 1899) as n")
    shop.execute("insert into users select n, 'c3333' from generate_series(2000, 2999) as n")
    plan = compiled(shop, USERS)
    log = Log([plan])
    changes = [log.change("countries", None, {"code": f"c{n}"}) for n in range(5000)]
    with shop.connect() as conn:
        found = list(resolve(conn, [plan], changes, log.watched, limit=999))
    (owed,) = (each for each in found if isinstance(each, Owed))
    assert owed.reach is not None
    assert set(owed.reach.keys) == {(f"c{n}",) for n in range(3000, 4000)}
    assert MOST_KEYS == 1000
    assert {document.key for document in documents_of(found)} == {(str(n),) for n in range(1000, 1900)}


def test_a_large_fan_out_streams_over_several_chunks(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "_CHUNK", 100)
    shop.execute("insert into users select n, 'jp' from generate_series(1000, 1999) as n")
    shop.execute("insert into orders select n, n from generate_series(1000, 1999) as n")
    schema = root("orders", belongs_to("user", "users", ("user_id",), COUNTRY))
    assert len(found(shop, schema, "countries", None, {"code": "jp"})) == 1001


def test_a_resolution_left_in_the_middle_leaves_the_connection_usable(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "_CHUNK", 1)
    plan = compiled(shop, USERS)
    log = Log([plan])
    with shop.connect() as conn:
        documents = resolve(conn, [plan], [log.change("countries", None, {"code": "it"})], log.watched)
        next(documents)
        documents.close()  # type: ignore[attr-defined]
        assert conn.execute("select 1").fetchone() == (1,)
