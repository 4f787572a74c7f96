"""The Spark source on its own: every change once, over restarts, with and without a snapshot."""

from __future__ import annotations

import contextlib
import json
import threading
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pyspark.errors import StreamingQueryException

from fix_postgres import Database
from flusso.capture.slot import advance_slot
from flusso.engine.session import Session
from flusso.errors import ConfigError, SlotAdvanced, SlotExists, SourceRefused
from flusso.spark import register
from pipelines import confirmed_lsn, current_lsn
from spark_source import Batches, Lake, brief, error_of, options_of, stream_of
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
PASSWORD = "hunter2-quite-secret"


@pytest.fixture
def spark(spark_session: Session) -> Any:
    register(spark_session.spark)
    return spark_session.spark


def test_every_kind_of_change_is_a_row(spark: Any, database18: Database, tmp_path: Path) -> None:
    database18.execute("create table users (id int primary key, name text)")
    lake = Lake(spark, tmp_path, options_of(database18, "users"))
    lake.begin()
    database18.execute("insert into users values (1, 'Ann'), (2, 'Bob')")
    database18.execute("update users set name = 'Eve' where id = 1; update users set id = 3 where id = 2")
    database18.execute("alter table users replica identity full")
    database18.execute("update users set name = 'Zoe' where id = 1; delete from users where id = 3")
    database18.execute("truncate users")
    lake.catch_up()
    rows = lake.rows()
    assert [brief(row) for row in rows] == [
        ("insert", None, {"id": 1, "name": "Ann"}),
        ("insert", None, {"id": 2, "name": "Bob"}),
        ("update", None, {"id": 1, "name": "Eve"}),
        ("update", {"id": 2}, {"id": 3, "name": "Bob"}),
        ("update", {"id": 1, "name": "Eve"}, {"id": 1, "name": "Zoe"}),
        ("delete", {"id": 3, "name": "Bob"}, None),
        ("truncate", None, None),
    ]
    assert {(row.schema, row.table) for row in rows} == {("public", "users")}
    assert [row.key for row in rows] == [f'{{"id":{n}}}' for n in (1, 2, 1, 3, 1, 3)] + [None]
    assert [row.ordinal for row in rows] == [1, 2, 1, 2, 1, 2, 1]
    assert len({row.commit_lsn for row in rows}) == 4
    assert all(row.xid and row.commit_time for row in rows)


def test_a_batch_that_failed_is_read_again_with_the_same_rows_and_none_is_lost(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    """The batch is planned and journaled, and dies in the sink: the next run finds its offsets in the log."""
    database18.execute("create table users (id int primary key, name text)")
    batches = Batches(spark, tmp_path)
    options = options_of(database18, "users", maxChangesPerTrigger="7")
    Lake(spark, tmp_path, options).begin()
    # One transaction that is larger than a batch, so that the batch which fails ends in its middle.
    database18.execute("insert into users select i, 'x' from generate_series(1, 20) as i")
    database18.execute("insert into users values (21, 'y')")
    batches.is_broken = True
    assert not batches.catch_up(options)
    batches.is_broken = False
    # With another limit, pieces end elsewhere; the offsets in the log do not.
    assert batches.catch_up(options | {"maxChangesPerTrigger": "3"})
    failed, again, *rest = batches.seen
    assert failed == again
    assert len(failed[1]) == 7
    kept = [row.key for _, rows in (again, *rest) for row in rows]
    assert len(kept) == len(set(kept)) == 21
    assert all(len(rows) <= 3 for _, rows in rest)


def test_every_change_lands_once_though_the_reader_of_the_wal_is_killed(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    database18.execute("create table users (id int primary key, name text)")
    lake = Lake(spark, tmp_path, options_of(database18, "users", maxChangesPerTrigger="50"))
    lake.begin()
    writer = Writer(database18)
    with writer, lake.running() as query:
        lake.wait(60, query)
        kill_source_workers()
        wait_until(lambda: not query.isActive, what="the query to notice")
        with lake.running() as query:
            lake.wait(len(lake.rows()) + 30, query)
    lake.catch_up()
    landed = [row.key for row in lake.rows()]
    assert sorted(landed) == sorted(f'{{"id":{number}}}' for number in range(1, writer.count + 1))


def test_a_snapshot_joins_the_stream_exactly_even_if_its_first_reading_failed(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    database18.execute("create table users (id int primary key, name text)")
    database18.execute("insert into users select -i, repeat('x', 500) from generate_series(1, 400) as i")
    database18.execute("create table parted (id int primary key, n int) partition by range (id)")
    database18.execute("create table low partition of parted for values from (0) to (10)")
    database18.execute("create table high (n int, id int primary key)")
    database18.execute("alter table parted attach partition high for values from (10) to (20)")
    database18.execute("insert into parted values (1, 1), (11, 2)")
    options = options_of(database18, "users, parted", snapshot="initial", snapshotPartitionBytes="65536")
    batches = Batches(spark, tmp_path)
    batches.is_broken = True
    writer = Writer(database18)
    with writer:
        assert not batches.catch_up(options)
        assert _slots(database18) == {f"spark_{database18.name}_snapshot"}
        batches.is_broken = False
        assert batches.catch_up(options)
        assert _slots(database18) == {f"spark_{database18.name}"}
    database18.execute("update users set name = 'later' where id = -1; delete from parted where id = 11")
    assert batches.catch_up(options)
    rows = [row for _, found in batches.seen[1:] for row in found]
    came = [row.key for row in rows if row.table == "users" and row.operation in ("read", "insert")]
    assert sorted(came) == sorted(f'{{"id":{n}}}' for n in range(-400, writer.count + 1) if n)
    assert {row.operation for row in rows if row.table == "users"} == {"read", "insert", "update"}
    first, second, deleted = (brief(row) for row in rows if row.table == "parted")
    assert {str(first), str(second)} == {
        str(("read", None, {"id": 1, "n": 1})),
        str(("read", None, {"n": 2, "id": 11})),
    }
    assert deleted == ("delete", {"id": 11}, None)
    assert all((row.commit_time is None) == (row.operation == "read") for row in rows)


def test_a_snapshot_that_landed_is_the_one_that_counts_though_spark_did_not_note_it(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    database18.execute("create table users (id int primary key)")
    database18.execute("insert into users values (1)")
    lake = Lake(spark, tmp_path, options_of(database18, "users", snapshot="initial"))
    with lake.running(once=True) as query:
        assert query.awaitTermination(120)
    # As if the driver had died between the sink's commit and Spark's own.
    (lake.checkpoint / "commits" / "0").unlink()
    database18.execute("insert into users values (2)")
    lake.catch_up()
    assert [(row.operation, row.key) for row in lake.rows()] == [("read", '{"id":1}'), ("insert", '{"id":2}')]


def test_a_checkpoint_behind_the_slot_is_refused_and_so_is_a_snapshot_of_a_slot_that_exists(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    database18.execute("create table users (id int primary key)")
    options = options_of(database18, "users")
    lake = Lake(spark, tmp_path, options)
    lake.catch_up()
    database18.execute("insert into users values (1)")
    with database18.connect() as conn:
        advance_slot(conn, options["slot"], current_lsn(database18))
    with pytest.raises(StreamingQueryException) as caught:
        lake.catch_up()
    error = error_of(caught.value)
    assert isinstance(error, SlotAdvanced)
    assert "new checkpoint" in str(error.hint)
    assert str(error) in str(caught.value)
    with pytest.raises(StreamingQueryException) as caught:
        Lake(spark, tmp_path / "new", options | {"snapshot": "initial"}).catch_up()
    assert isinstance(error_of(caught.value), SlotExists)


def test_available_now_ends_while_others_go_on_writing(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    database18.execute("create table users (id int primary key, name text)")
    lake = Lake(spark, tmp_path, options_of(database18, "users"))
    lake.begin()
    writer = Writer(database18)
    with writer:
        writer.wait(20)
        lake.catch_up()
        landed = len(lake.rows())
        assert 20 <= landed < writer.wait(landed + 1)


def test_an_idle_stream_confirms_its_last_batch(spark: Any, database18: Database, tmp_path: Path) -> None:
    database18.execute("create table users (id int primary key, name text)")
    lake = Lake(spark, tmp_path, options_of(database18, "users"))
    with lake.running() as query:
        wait_until(lambda: _slots(database18), what="the slot")
        database18.execute("insert into users values (1, 'x')")
        target = current_lsn(database18)
        lake.wait(1, query)
        wait_until(lambda: confirmed_lsn(database18, lake.options["slot"]) >= target, what="the confirm")


def test_typed_columns_have_the_values_of_many_types(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    database18.execute(
        """
        create type mood as enum ('sad', 'ok');
        create domain price as numeric(10, 2);
        create table kinds (
          id int primary key, b bool, s int2, l int8, o oid, r float4, d float8, n numeric(20, 5), p price,
          plain numeric, big bytea, day date, t timestamp, tz timestamptz, clock time, span interval,
          u uuid, m mood, j jsonb, ip inet, ints int[], words text[], days date[], money numeric(4, 1)[]
        );
        alter table kinds replica identity full
        """
    )
    lake = Lake(spark, tmp_path, options_of(database18, "kinds", typed="true"))
    lake.begin()
    database18.execute(
        """
        set timezone = 'Asia/Tokyo';
        insert into kinds values (
          1, true, -2, 9000000000, 42, 1.5, 'NaN', 123456789012345.12345, 9.99, 1e30, '\\xdead', '2024-02-29',
          '2024-02-29 12:00:00.5', '2024-02-29 12:00:00+09', '24:00', '1 day',
          'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'ok', '{"a": 1}', '10.0.0.1', '{1,NULL,3}', '{"a b",""}',
          '{2024-01-01,infinity}', '{1.5}');
        insert into kinds (id, day, t, tz, n) values (2, 'infinity', '-infinity', '0044-03-15 BC', 'NaN');
        update kinds set s = 7 where id = 1
        """
    )
    lake.catch_up()
    full, empty, update = lake.rows()
    row = full.after.asDict()
    assert row.pop("d") != row.get("d")
    assert row == {
        "id": 1, "b": True, "s": -2, "l": 9000000000, "o": 42, "r": 1.5,
        "n": Decimal("123456789012345.12345"), "p": Decimal("9.99"), "plain": "1" + "0" * 30,
        "big": bytearray(b"\xde\xad"), "day": date(2024, 2, 29), "t": datetime(2024, 2, 29, 12, 0, 0, 500000),
        "tz": datetime(2024, 2, 29, 3), "clock": "24:00:00", "span": "1 day",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "m": "ok", "j": '{"a": 1}', "ip": "10.0.0.1",
        "ints": [1, None, 3], "words": ["a b", ""], "days": [date(2024, 1, 1), None],
        "money": [Decimal("1.5")],
    }  # fmt: skip
    assert {name for name, value in empty.after.asDict().items() if value is not None} == {"id"}
    assert (update.before.s, update.after.s) == (-2, 7)


def test_renamed_and_added_columns_follow_in_the_middle_and_a_large_value_is_not_invented(
    spark: Any, database18: Database, tmp_path: Path
) -> None:
    database18.execute("create table notes (id int primary key, body text, n int)")
    database18.execute("alter table notes alter body set storage external")
    lake = Lake(spark, tmp_path, options_of(database18, "notes"))
    lake.begin()
    database18.execute("insert into notes values (1, repeat('x', 5000), 1); update notes set n = 2")
    database18.execute("alter table notes rename n to rank; alter table notes add extra bool default true")
    database18.execute("update notes set rank = 3")
    database18.execute("alter table notes drop rank")
    database18.execute("insert into notes values (2, 'y', false)")
    lake.catch_up()
    insert, update, renamed, dropped = lake.rows()
    assert json.loads(insert.after)["body"] == "x" * 5000
    assert (json.loads(update.after), update.unchanged) == ({"id": 1, "n": 2}, ["body"])
    assert json.loads(renamed.after) == {"id": 1, "rank": 3, "extra": True}
    assert json.loads(dropped.after) == {"id": 2, "body": "y", "extra": False}


def test_the_plan_shows_neither_url_nor_password(spark: Any, database18: Database) -> None:
    options = options_of(database18, "users", password=PASSWORD)
    options["url"] += f" application_name={PASSWORD}"
    plan = str(stream_of(spark, options)._jdf.queryExecution().toString())
    assert "flusso-postgres" in plan
    assert PASSWORD not in plan


def test_a_wrong_option_is_told_when_the_stream_is_declared(spark: Any, database18: Database) -> None:
    for options, kind in (
        (options_of(database18, "users", tabels="x"), ConfigError),
        (options_of(database18, "missing", typed="true"), SourceRefused),
    ):
        with pytest.raises(Exception) as caught:
            stream_of(spark, options)
        assert isinstance(error_of(caught.value), kind)


class Writer:
    """Inserts one user after the other while the block runs."""

    def __init__(self, database: Database) -> None:
        self.count = 0
        self._database = database
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with psycopg.connect(self._database.dsn.text, autocommit=True) as conn:
            while not self._stop.wait(0.005):
                conn.execute("insert into users values (%s, 'written')", (self.count + 1,))
                self.count += 1

    def wait(self, count: int) -> int:
        wait_until(lambda: self.count >= count, what=f"{count} writes")
        return self.count

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)


def kill_source_workers() -> None:
    """As `kill -9` would: the processes of this session that read the WAL."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "python_streaming_source_runner" in " ".join(process.cmdline()):
                process.kill()


def _slots(database: Database) -> set[object]:
    return {
        row[0]
        for row in database.execute(
            "select slot_name from pg_replication_slots where database = current_database()"
        )
    }
