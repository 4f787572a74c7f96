"""What a publication covers, and how it is made to cover more."""

from __future__ import annotations

import psycopg
import pytest
from published import Place

from flusso.capture import locks
from flusso.capture.coverage import ensure_coverage, inspect_coverage
from flusso.catalog import TableName
from flusso.errors import PublicationError, TableLocked
from flusso.postgres.connect import Dsn, connect

pytestmark = pytest.mark.postgres


def test_a_missing_publication_is_created(place: Place) -> None:
    place.execute("create table users (id int primary key)")
    before = place.inspect(place.table("users", "id"))
    assert (before.exists, before.satisfied, before.is_manageable) == (False, (), True)
    assert before.missing == (TableName(place.name, "users"),)
    assert place.ensure(place.table("users", "id")).is_satisfied
    assert place.published() == {"users"}


def test_a_publication_is_extended_by_what_it_lacks(place: Place) -> None:
    place.execute('create table users (id int primary key); create table "odd ""name""" (id int primary key)')
    tables = place.table("users", "id"), place.table('odd "name"', "id")
    place.ensure(tables[0])
    found = place.inspect(*tables)
    assert (found.satisfied, found.missing) == ((tables[0].name,), (tables[1].name,))
    assert place.ensure(*tables).satisfied == (tables[1].name, tables[0].name)
    assert place.published() == {"users", 'odd "name"'}


def test_looking_changes_nothing(place: Place) -> None:
    place.execute("create table users (id int primary key)")
    place.inspect(place.table("users", "id"))
    assert not place.exists()


def test_a_publication_that_covers_all_is_left_alone(place: Place) -> None:
    place.execute("create table users (id int primary key)")
    first = place.ensure(place.table("users", "id"))
    assert place.ensure(place.table("users", "id")).marks == first.marks
    assert place.ensure(place.table("users", "id"), manage=False).marks == first.marks


@pytest.mark.parametrize("what", ["all tables", "tables in schema {here}"])
def test_a_publication_of_whole_schemas_covers_what_is_in_them(place: Place, what: str) -> None:
    place.execute(f"create table users (id int primary key); create publication {{here}} for {what}")
    assert place.inspect(place.table("users", "id")).is_satisfied


def test_tables_that_nobody_needs_are_noted_with_the_sql_and_left_alone(place: Place) -> None:
    place.execute("create table users (id int primary key); create table old (id int primary key)")
    place.execute("create table parts (id int primary key) partition by list (id)")
    place.execute("create table part partition of parts default")
    place.execute("create publication {here} for table users, old, parts")
    found = place.ensure(place.table("users", "id"), place.table("part", "id"))
    assert found.unneeded == (TableName(place.name, "old"),)
    (note,) = found.findings(manage=True)
    assert (note.code, note.severity) == ("unneeded-table", "note")
    place.execute(str(note.hint))
    assert not place.inspect(place.table("users", "id"), place.table("part", "id")).unneeded


def test_partitions_to_come_are_covered_by_their_table(place: Place) -> None:
    place.execute("create table parts (id int primary key) partition by range (id)")
    place.execute("create table part_1 partition of parts for values from (0) to (10)")
    found = place.ensure(place.table("parts", "id"))
    place.execute("create table part_2 partition of parts for values from (10) to (20)")
    assert place.published() == {"part_1", "part_2"}
    after = place.inspect(place.table("parts", "id"))
    assert after.is_satisfied
    assert after.marks.find_gap(found.marks.fingerprint(found.satisfied), after.satisfied) is None


def test_a_partitioned_table_without_partitions_is_published_for_those_to_come(place: Place) -> None:
    place.execute("create table users (id int primary key); create publication {here} for table users")
    place.execute("create table parts (id int primary key) partition by range (id)")
    assert place.inspect(place.table("parts", "id")).missing == (TableName(place.name, "parts"),)
    place.ensure(place.table("parts", "id"))
    place.execute("create table part_1 partition of parts for values from (0) to (10)")
    assert "part_1" in place.published()


def test_a_publication_of_single_partitions_is_told_that_new_ones_would_be_missed(place: Place) -> None:
    place.execute("create table parts (id int primary key) partition by range (id)")
    place.execute("create table part_1 partition of parts for values from (0) to (10)")
    place.execute("create publication {here} for table part_1")
    found = place.ensure(place.table("parts", "id"), manage=False)
    (warning,) = found.findings(manage=False)
    assert (warning.code, found.is_satisfied) == ("new-partitions", True)
    place.ensure(place.table("parts", "id"), manage=True)
    place.execute("create table part_2 partition of parts for values from (10) to (20)")
    assert place.inspect(place.table("parts", "id")).is_satisfied


def test_a_partition_that_is_left_out_makes_its_table_missing(place: Place) -> None:
    place.execute("create table parts (id int primary key) partition by range (id)")
    place.execute("create table part_1 partition of parts for values from (0) to (10)")
    place.execute("create publication {here} for table part_1")
    place.execute("create table part_2 partition of parts for values from (10) to (20)")
    assert place.inspect(place.table("parts", "id")).missing == (TableName(place.name, "parts"),)


def test_without_leave_to_manage_the_error_carries_the_sql(place: Place) -> None:
    place.execute("create table users (id int primary key); create table more (id int primary key)")
    for tables in ([place.table("users", "id")], [place.table("users", "id"), place.table("more", "id")]):
        with pytest.raises(PublicationError) as caught:
            place.ensure(*tables, manage=False)
        assert place.inspect(*tables).remediation_sql == (caught.value.hint,)
        place.execute(str(caught.value.hint))
        assert place.ensure(*tables, manage=False).is_satisfied


def test_a_table_that_does_not_exist_is_refused_by_name(place: Place) -> None:
    with pytest.raises(PublicationError, match=rf"{place.name}\.users does not exist"):
        place.ensure(place.table("users", "id"))
    assert not place.exists()


def test_a_locked_table_is_tried_again_and_then_the_error_names_who_holds_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_TIMEOUT_S", 0.05)
    monkeypatch.setattr(locks, "PATIENCE_S", 0.5)
    place.execute("create table users (id int primary key)")
    with psycopg.connect(place.database.dsn.text) as other:
        other.execute(f"lock table {place.name}.users".encode())
        with pytest.raises(TableLocked, match=f"pid {other.info.backend_pid} holds a lock on"):
            place.ensure(place.table("users", "id"))
        monkeypatch.setattr(locks, "PATIENCE_S", 30.0)
        monkeypatch.setattr(locks, "find_lock_holders", lambda *_: other.rollback() or ())
        assert place.ensure(place.table("users", "id")).is_satisfied


def test_a_role_without_the_rights_is_told_which_and_gets_the_sql_for_the_owner(place: Place) -> None:
    place.execute("create table users (id int primary key); create table more (id int primary key)")
    role, users, more = f"guest_{place.name}", place.table("users", "id"), place.table("more", "id")
    place.execute(f"create role {role} login; grant usage on schema {{here}} to {role}")
    dsn = Dsn(place.database.dsn.text.replace("user=flusso", f"user={role}"))
    try:
        with connect(dsn) as guest:
            found = inspect_coverage(guest, place.name, [users])
            assert not found.is_manageable
            assert f"it must own {users.name} and have CREATE on the database" in str(found.barred)
            with pytest.raises(PublicationError, match="as the owner: create publication"):
                ensure_coverage(guest, place.name, [users], manage=True)
            place.execute(str(found.change_sql))
            assert ensure_coverage(guest, place.name, [users], manage=True).is_satisfied
            place.execute(f"alter table more owner to {role}")
            found = inspect_coverage(guest, place.name, [users, more])
            assert str(found.barred).endswith(
                f'may not extend publication "{place.name}": it must own the publication'
            )
    finally:
        place.execute(f"drop owned by {role}; drop role {role}")


def test_every_obstacle_is_found_at_once(place: Place) -> None:
    place.execute("create table bad (id int); create unlogged table worse (id int primary key)")
    place.execute("create table good (id int primary key)")
    found = place.inspect(*(place.table(name, "id") for name in ("bad", "worse", "good", "gone")))
    assert [str(one.table) for one in found.blockers] == [
        f"{place.name}.{t}" for t in ("bad", "gone", "worse")
    ]
    assert found.missing == (TableName(place.name, "good"),)
