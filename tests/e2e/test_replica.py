"""Documents are read from a replica: exact under writers, and only once it has what must be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fix_postgres import Database
from flusso.capture.prerequisites import inspect_prerequisites, inspect_replica
from flusso.demo.server import EmbeddedServer
from flusso.diagnostic import Code
from flusso.engine.events import Retrying
from flusso.engine.session import Session
from flusso.errors import ReplicaBehind, SourceRefused
from flusso.lsn import Version
from flusso.postgres.connect import Connection, Dsn, connect, connect_replication
from flusso.postgres.replica import await_replayed
from flusso.postgres.version import emit_version
from market import create_market
from pipelines import Run, assert_exact, confirmed_lsn, current_lsn, market_spec, sqlite_sink
from standby import create_standby

pytestmark = pytest.mark.postgres

Open = Callable[[Dsn], Connection]


@pytest.fixture(scope="module")
def standby(server_of: Callable[[int], EmbeddedServer]) -> Iterator[EmbeddedServer]:
    made = create_standby(server_of(18))
    yield made
    made.remove()


def execute(server: EmbeddedServer, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        return conn.execute(sql).fetchall()


@pytest.mark.spark
def test_documents_read_from_a_replica_are_exact_under_writers_and_while_it_stands_still(
    database18: Database, standby: EmbeddedServer, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=60)
    replica = Dsn(standby.dsn(database18.name))
    spec = market_spec(database18, sqlite_sink(tmp_path), read_dsn=replica)
    enough = threading.Event()
    with connect(database18.dsn) as conn, connect(conn_of(standby)) as there:
        await_replayed(there, emit_version(conn), timeout_s=30)  # the database itself comes by the WAL
    writer = threading.Thread(target=_write, args=(database18, enough))
    with Run(spec, spark_session) as run:
        writer.start()
        run.wait_seeded()
        ((readers,),) = execute(
            standby, f"select count(*) from pg_stat_activity where datname = '{database18.name}'"
        )
        execute(standby, "select pg_wal_replay_pause()")
        try:
            database18.execute("insert into users values (1001, 'late', 'Late@x.org')")
            late = current_lsn(database18)
            run.wait(lambda: _says_so(run), what="a word about the replica")
            assert confirmed_lsn(database18, spec.slot) < late
        finally:
            execute(standby, "select pg_wal_replay_resume()")
        enough.set()
        writer.join(30)
        run.wait_confirmed(database18)
    assert isinstance(readers, int)
    assert readers > 0
    assert_exact(database18, spec)


def conn_of(server: EmbeddedServer) -> Dsn:
    return Dsn(server.dsn())


def _write(database: Database, enough: threading.Event) -> None:
    with psycopg.connect(database.dsn.text, autocommit=True) as conn:
        number = 0
        while not enough.wait(0.01):
            number += 1
            conn.execute("update users set name = %s where id = %s", (f"name {number}", 1 + number % 60))
            conn.execute("update orders set total = total + 1, user_id = %s where id = %s",
                         (1 + number % 59, 1 + number % 180))  # fmt: skip
            conn.execute("update products set name = %s where id = %s", (f"p {number}", 1 + number % 20))


def _says_so(run: Run) -> bool:
    return any("read_url has replayed the WAL up to" in event.error for event in run.of(Retrying))


def test_a_replica_that_stands_still_is_behind_and_the_hint_says_why(
    database18: Database, standby: EmbeddedServer
) -> None:
    with database18.connect() as conn, connect(conn_of(standby)) as there:
        execute(standby, "select pg_wal_replay_pause()")
        try:
            version = emit_version(conn)
            with pytest.raises(ReplicaBehind, match=r"short of .*pg_wal_replay_resume"):
                await_replayed(there, version, timeout_s=0.2)
        finally:
            execute(standby, "select pg_wal_replay_resume()")
        await_replayed(there, version, timeout_s=30)


def test_the_source_itself_may_be_read_from(database18: Database) -> None:
    with database18.connect() as conn:
        await_replayed(conn, emit_version(conn), timeout_s=0)
        assert inspect_replica(conn, database18.dsn) == []


def test_a_server_of_another_cluster_is_no_replica(
    server_of: Callable[[int], EmbeddedServer], database18: Database
) -> None:
    other = Dsn(server_of(16).dsn())
    with connect(Dsn(database18.server.dsn())) as conn:
        (finding,) = inspect_replica(conn, other)
    assert finding.code is Code.UNFIT_REPLICA
    assert "is not a replica of the source: its system identifier is" in finding.message


def test_another_database_is_no_replica(database18: Database, standby: EmbeddedServer) -> None:
    with database18.connect() as conn:
        (finding,) = inspect_replica(conn, conn_of(standby))
    assert finding.code is Code.UNFIT_REPLICA
    assert f'the source is "{database18.name}"' in finding.message


def test_a_replica_that_cannot_be_reached_is_told_without_its_password(database18: Database) -> None:
    with database18.connect() as conn:
        (finding,) = inspect_replica(conn, Dsn("postgresql://me:hunter2@127.0.0.1:1/d"))
    assert finding.code is Code.SOURCE_UNAVAILABLE
    assert "hunter2" not in str(finding)


def test_a_replica_without_feedback_is_warned_of(database18: Database, standby: EmbeddedServer) -> None:
    with connect(Dsn(database18.server.dsn())) as conn:
        (finding,) = inspect_replica(conn, conn_of(standby))
    assert finding.code is Code.HOT_STANDBY_FEEDBACK
    assert "alter system set hot_standby_feedback = 'on'" in str(finding.hint)


@pytest.mark.parametrize("opened", [connect, connect_replication], ids=["sql", "replication"])
@pytest.mark.parametrize(
    ("wanted", "is_standby"),
    [("read-write", "f"), ("primary", "f"), ("standby", "t"), ("prefer-standby", "t"), ("any", "t")],
)
def test_of_a_primary_and_its_standby_the_one_that_is_wanted_is_found(
    database18: Database, standby: EmbeddedServer, opened: Open, wanted: str, is_standby: str
) -> None:
    hosts = f"127.0.0.1:{standby.port},127.0.0.1:{database18.server.port}"
    with opened(Dsn(f"postgresql://flusso@{hosts}/postgres?target_session_attrs={wanted}")) as conn:
        assert conn.pgconn.exec_(b"select pg_is_in_recovery()").get_value(0, 0) == is_standby.encode()


def test_a_standby_as_the_source_is_an_error(standby: EmbeddedServer) -> None:
    dsn = conn_of(standby)
    with connect(dsn) as conn:
        found = {finding.code for finding in inspect_prerequisites(conn, dsn)}
    assert Code.IN_RECOVERY in found


def test_a_server_that_left_recovery_on_another_timeline_is_no_replica(database18: Database) -> None:
    with database18.connect() as conn:
        elsewhere = Version.of(2, emit_version(conn).lsn)
        with pytest.raises(SourceRefused, match="was promoted to timeline 1, the source is on 2"):
            await_replayed(conn, elsewhere, timeout_s=0)
