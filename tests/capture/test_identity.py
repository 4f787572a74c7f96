"""Which replica identity a table is given, and that giving it holds nobody up."""

from __future__ import annotations

import threading

import psycopg
import pytest
from published import Place

from flusso.capture import locks
from flusso.capture.coverage import inspect_coverage
from flusso.capture.identity import IdentityNeed, set_identities
from flusso.change import WatchedTable
from flusso.errors import TableLocked
from flusso.postgres.connect import Dsn, connect

pytestmark = pytest.mark.postgres

TABLE = "create table t (id int primary key, boss int not null, spare int, touched bool); "
ROW = "insert into t (id, boss) values (1, 1); "


def _table(place: Place, name: str = "t") -> WatchedTable:
    return place.table(name, "id", "boss", links=("boss",))


def _set(place: Place, *needs: IdentityNeed) -> None:
    with place.database.connect() as conn:
        set_identities(conn, needs)


CHOICES = {
    "the key, if it has the links": (
        "create table t (id int, boss int, touched bool, primary key (id, boss));"
        "alter table t replica identity nothing", "replica identity default"),
    "the shortest unique index with the links": (TABLE + "create unique index long on t (boss, id, touched);"
        "create unique index short on t (boss, id) include (spare)", 'using index "short"'),
    "not a partial index": (TABLE + "create unique index i on t (boss) where boss > 0", "identity full"),
    "not an index over nulls": (TABLE + "create unique index i on t (boss, spare)", "identity full"),
    "not a deferrable one": (TABLE + "alter table t add unique (boss) deferrable", "identity full"),
    "not an index on an expression": (TABLE + "create unique index i on t (boss, (id + 1))", "identity full"),
    "not an index that is not unique": (TABLE + "create index i on t (boss)", "identity full"),
    "not what is included": (TABLE + "create unique index i on t (id) include (boss)", "identity full"),
    "an index where a list forbids full": (TABLE + "create unique index i on t (boss);"
        "create publication {here}_o for table t (id, boss)", 'using index "i"'),
    "full where a foreign filter forbids an index": (TABLE + "create unique index i on t (boss);"
        "create publication {here}_o for table t where (id > 0)", "identity full"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_the_smallest_sufficient_identity_is_chosen(place: Place, name: str) -> None:
    sql, chosen = CHOICES[name]
    place.execute(sql + "; " + ROW)
    try:
        (need,) = place.inspect(_table(place)).identities
        assert str(need.sql).endswith(chosen)
        _set(place, need)
        assert place.inspect(_table(place)).identities == ()
        place.ensure(_table(place))
        assert place.try_writes("t") == ""
    finally:
        place.execute("drop publication if exists {here}_o")


@pytest.mark.parametrize("identity", ["full", "using index i"])
def test_an_identity_that_shows_the_links_is_left_alone(place: Place, identity: str) -> None:
    place.execute(TABLE + f"create unique index i on t (boss); alter table t replica identity {identity}")
    assert place.inspect(_table(place)).identities == ()


def test_each_partition_is_given_its_own(place: Place) -> None:
    place.execute("create table t (id int, boss int not null, touched bool) partition by list (boss)")
    for number in (1, 2, 3):
        place.execute(f"create table t{number} partition of t for values in ({number})")
        place.execute(f"insert into t (id, boss) values (1, {number})")
    place.execute("alter table t1 replica identity full; create unique index on t2 (boss)")
    found = place.inspect(_table(place), manages_identity=True)
    assert [(need.leaf.name, str(need.sql).split("identity ")[1]) for need in found.identities] == [
        ("t2", 'using index "t2_boss_idx"'),
        ("t3", "full"),
    ]
    assert found.is_manageable
    _set(place, *found.identities)
    assert place.ensure(_table(place)).is_satisfied
    assert place.try_writes("t") == ""


@pytest.mark.parametrize("is_published", [False, True])
def test_full_is_not_chosen_where_updates_would_then_fail(place: Place, is_published: bool) -> None:
    if place.version < 180000:
        pytest.skip("generated columns are part of a full identity since 18")
    kind = "stored" if is_published else "virtual"
    place.execute(TABLE.replace("spare int", f"spare int generated always as (id) {kind}") + ROW)
    place.ensure(_table(place))
    (need,) = place.inspect(_table(place)).identities
    assert (need.choice is not None) is is_published
    assert ("generated columns" in need.reason) is not is_published
    _set(place, need)
    assert place.try_writes("t") == ""


def test_a_table_without_a_key_is_published_once_it_has_an_identity(place: Place) -> None:
    place.execute("create table t (id int, boss int, touched bool); " + ROW)
    assert place.inspect(_table(place)).blockers
    found = place.inspect(_table(place), manages_identity=True)
    assert not found.blockers
    _set(place, *found.identities)
    assert place.ensure(_table(place)).is_satisfied
    assert place.try_writes("t") == ""


def test_the_table_of_another_role_is_reported_and_left_alone(place: Place) -> None:
    place.execute(TABLE)
    role = f"guest_{place.name}"
    place.execute(f"create role {role} login; grant usage on schema {{here}} to {role}")
    try:
        with connect(Dsn(place.database.dsn.text.replace("user=flusso", f"user={role}"))) as guest:
            (need,) = inspect_coverage(guest, place.name, [_table(place)], manages_identity=True).identities
            set_identities(guest, [need])
        assert not need.is_mendable
        assert place.inspect(_table(place)).identities
        place.execute(str(need.sql))
        assert not place.inspect(_table(place)).identities
    finally:
        place.execute(f"drop owned by {role}; drop role {role}")


def test_a_lock_is_tried_for_again_and_then_the_error_names_its_holder(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_TIMEOUT_S", 0.05)
    monkeypatch.setattr(locks, "PATIENCE_S", 0.4)
    place.execute(TABLE + ROW)
    (need,) = place.inspect(_table(place)).identities
    with psycopg.connect(place.database.dsn.text) as writer:
        writer.execute(f"update {place.name}.t set boss = 2".encode())
        with pytest.raises(
            TableLocked, match=f"pid {writer.info.backend_pid} holds a lock on {place.name}.t"
        ):
            _set(place, need)
        monkeypatch.setattr(locks, "PATIENCE_S", 30.0)
        monkeypatch.setattr(locks, "find_lock_holders", lambda *_: writer.commit() or ())
        _set(place, need)
    assert not place.inspect(_table(place)).identities


def test_a_stop_ends_the_wait_for_a_lock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCK_TIMEOUT_S", 0.05)
    place.execute(TABLE)
    (need,) = place.inspect(_table(place)).identities
    stop = threading.Event()
    with psycopg.connect(place.database.dsn.text) as other, place.database.connect() as conn:
        other.execute(f"lock table {place.name}.t".encode())
        monkeypatch.setattr(locks, "find_lock_holders", lambda *_: stop.set() or ())
        with pytest.raises(TableLocked):
            set_identities(conn, [need], stop)
