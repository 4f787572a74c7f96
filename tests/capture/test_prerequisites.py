"""Each prerequisite is provoked on one server of its own, by settings that a reload or one restart brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from fix_postgres import Database
from flusso.capture.prerequisites import inspect_prerequisites
from flusso.demo.server import EmbeddedServer, create_server
from flusso.diagnostic import Code, Diagnostic, Severity
from flusso.errors import SourceUnavailable
from flusso.postgres.connect import Connection, Dsn, connect, connect_replication
from search_server import NoServer
from tls_server import fetch_binaries
from waiting import wait_until

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    server = create_server(18, max_replication_slots="1", max_wal_senders="2")
    yield server
    server.remove()


def look(dsn: Dsn, slot: str | None = None) -> dict[Code, Diagnostic]:
    with connect(dsn) as conn:
        return {finding.code: finding for finding in inspect_prerequisites(conn, dsn, slot)}


@contextmanager
def with_setting(server: EmbeddedServer, name: str, value: str) -> Iterator[None]:
    """Bring a setting into force, and back."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        ((before,),) = admin.execute(f"show {name}").fetchall()
        admin.execute(f"alter system set {name} = '{value}'")
        admin.execute("select pg_reload_conf()")
        wait_until(lambda: admin.execute(f"show {name}").fetchone() != (before,), what=f"{name} in force")
        try:
            yield
        finally:
            admin.execute(f"alter system reset {name}")
            admin.execute("select pg_reload_conf()")
            wait_until(
                lambda: admin.execute(f"show {name}").fetchone() == (before,), what=f"{name} as before"
            )


def test_a_server_set_up_for_replication_has_no_findings(database: Database) -> None:
    assert look(database.dsn) == {}


def test_a_role_that_may_not_replicate_is_an_error_with_its_remedy(database18: Database) -> None:
    role = f"guest_{database18.name}"
    database18.execute(f"create role {role} login")
    try:
        found = look(Dsn(database18.dsn.text.replace("user=flusso", f"user={role}")))
    finally:
        database18.execute(f"drop role {role}")
    assert {code: finding.hint for code, finding in found.items()} == {
        Code.REPLICATION_ROLE: f'alter role "{role}" replication'
    }


SETTINGS = {
    "unbounded WAL": ("max_slot_wal_keep_size", "-1", Code.UNBOUNDED_WAL, "until the disk is full"),
    "little WAL": ("max_slot_wal_keep_size", "64MB", Code.SMALL_WAL, "is 64 MB"),
    "no sender timeout": ("wal_sender_timeout", "0", Code.SENDER_TIMEOUT, "never notices"),
    "a short sender timeout": ("wal_sender_timeout", "900ms", Code.SENDER_TIMEOUT, "is 900 ms"),
    "idle slots are dropped": ("idle_replication_slot_timeout", "2min", Code.IDLE_SLOT_TIMEOUT, "is 120 s"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_that_will_hurt_is_told_with_the_statement_that_mends_it(
    case: str, own_server: EmbeddedServer
) -> None:
    name, value, code, words = SETTINGS[case]
    with with_setting(own_server, name, value):
        found = look(Dsn(own_server.dsn()))
    assert list(found) == [code]
    assert words in found[code].message
    assert f"alter system set {name} = " in str(found[code].hint)
    assert found[code].severity is (Severity.NOTE if value == "-1" else Severity.WARNING)


def test_slots_that_others_have_taken_are_missing(own_server: EmbeddedServer) -> None:
    dsn = Dsn(own_server.dsn())
    with psycopg.connect(dsn.text, autocommit=True) as admin:
        admin.execute("select pg_create_logical_replication_slot('taken', 'pgoutput')")
        try:
            assert list(look(dsn, "mine")) == [Code.NO_FREE_SLOT]
            assert look(dsn, "taken") == {}
        finally:
            admin.execute("select pg_drop_replication_slot('taken')")


def _taken_sender(dsn: Dsn) -> Connection:
    """Take a sender; one that has just been let go of may still count for a moment."""

    def take() -> Connection | None:
        try:
            return connect_replication(dsn)
        except SourceUnavailable:
            return None

    taken = wait_until(take, what="a sender of an earlier test to be gone")
    assert taken is not None
    return taken


def test_senders_that_others_have_taken_are_missing(own_server: EmbeddedServer) -> None:
    dsn = Dsn(own_server.dsn())
    with _taken_sender(dsn), _taken_sender(dsn):
        found = look(dsn)
    assert list(found) == [Code.NO_FREE_SENDER]
    assert "all 2 WAL senders" in found[Code.NO_FREE_SENDER].message


def test_a_server_that_refuses_replication_connections_is_an_error(own_server: EmbeddedServer) -> None:
    dsn = Dsn(own_server.dsn())
    rules = own_server.data / "pg_hba.conf"
    before = rules.read_text()
    refused = False
    with connect(dsn) as conn:
        rules.write_text("host all flusso 127.0.0.1/32 reject\n")
        try:
            conn.execute("select pg_reload_conf()")

            def is_refused() -> list[Diagnostic]:
                return inspect_prerequisites(conn, dsn)

            (finding,) = wait_until(is_refused, what="the new rules")
            refused = finding.code is Code.REPLICATION_REFUSED
        finally:
            rules.write_text(before)
            conn.execute("select pg_reload_conf()")
    wait_until(lambda: _is_open(dsn), what="the old rules")
    assert refused
    assert finding.hint is not None
    assert "pg_hba.conf" in finding.message
    assert "select pg_reload_conf()" in finding.hint


def _is_open(dsn: Dsn) -> bool:
    try:
        psycopg.connect(dsn.text).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_server_that_is_too_old_is_told_so() -> None:
    try:
        binaries = fetch_binaries("13.22.0")
    except NoServer as error:
        pytest.skip(f"NO OLD POSTGRES: {error}")
    server = create_server(13, binaries=binaries)
    try:
        found = look(Dsn(server.dsn()))
    finally:
        server.remove()
    assert list(found) == [Code.OLD_SERVER]
    assert found[Code.OLD_SERVER].message == "the server is version 13, older than 14"


def test_a_server_without_logical_wal_or_senders_is_told_all_at_once() -> None:
    server = create_server(18, wal_level="minimal", max_wal_senders="0", max_replication_slots="0")
    try:
        found = {code: finding.severity for code, finding in look(Dsn(server.dsn())).items()}
    finally:
        server.remove()
    assert found == {
        Code.WAL_LEVEL: Severity.ERROR,
        Code.NO_FREE_SLOT: Severity.WARNING,
        Code.NO_FREE_SENDER: Severity.WARNING,
    }
