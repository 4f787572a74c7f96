"""Every form of a connection string, for SQL and for replication alike, against a real server."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from fix_postgres import Database
from flusso.config.conninfo import conninfo
from flusso.demo.server import EmbeddedServer
from flusso.errors import ConfigError, SourceError, SourceRefused, SourceUnavailable
from flusso.postgres.connect import Connection, Dsn, connect, connect_replication, is_dead
from waiting import wait_until

pytestmark = pytest.mark.postgres

Open = Callable[[Dsn], Connection]
OPENERS = pytest.mark.parametrize("opened", [connect, connect_replication], ids=["sql", "replication"])
PASSWORDS = [
    "it's",
    'double "quotes"',
    "back\\slash\\",
    " spaces within and around ",
    "pässwörd-日本-🔑",
    "100%25%",
    "a@b:c/d?e#f&g=h",
    "[::1]",
    "{}$()*;|<>`~^",
    "a='b' c=d",
]


def ask(conn: Connection, sql: str) -> str:
    """By the simple protocol, which replication connections take too."""
    result = conn.pgconn.exec_(sql.encode())
    return (result.get_value(0, 0) or b"").decode()


def application(dsn: Dsn, opened: Open) -> str:
    with opened(dsn) as conn:
        return ask(conn, "show application_name")


@pytest.fixture(scope="module")
def scram(server_of: Callable[[int], EmbeddedServer]) -> Iterator[EmbeddedServer]:
    """A role that needs its password, beside the trusted ones."""
    server = server_of(18)
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("create role secretive login replication")
        rules.write_text(f"host all secretive 127.0.0.1/32 scram-sha-256\n{before}")
        admin.execute("select pg_reload_conf()")
        wait_until(lambda: not _is_trusted(server), what="the rule that asks for a password")
        yield server
        rules.write_text(before)
        admin.execute("select pg_reload_conf()")
        admin.execute("drop role secretive")


def _is_trusted(server: EmbeddedServer) -> bool:
    try:
        psycopg.connect(server.dsn().replace("user=flusso", "user=secretive")).close()
    except psycopg.OperationalError:
        return False
    return True


def set_password(server: EmbeddedServer, password: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        made = admin.pgconn.encrypt_password(password.encode(), b"secretive", b"scram-sha-256").decode()
        admin.execute(f"alter role secretive password '{made}'")


def as_url(server: EmbeddedServer, password: str) -> Dsn:
    return Dsn(f"postgresql://secretive:{quote(password, safe='')}@127.0.0.1:{server.port}/postgres")


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_may_have_any_character_as_url_and_as_parts(scram: EmbeddedServer, password: str) -> None:
    set_password(scram, password)
    parts = {"host": "127.0.0.1", "port": str(scram.port), "user": "secretive", "dbname": "postgres"}
    for dsn in (as_url(scram, password), Dsn(conninfo(parts | {"password": password}))):
        for opened in (connect, connect_replication):
            with opened(dsn) as conn:
                assert ask(conn, "select current_user") == "secretive"


@OPENERS
def test_a_wrong_password_is_refused_and_not_shown(scram: EmbeddedServer, opened: Open) -> None:
    set_password(scram, "right")
    with pytest.raises(SourceRefused, match="mend user or password") as caught:
        opened(as_url(scram, "hunter2"))
    assert "hunter2" not in str(caught.value)


@OPENERS
def test_a_database_or_role_that_is_not_there_is_refused(database18: Database, opened: Open) -> None:
    with pytest.raises(SourceRefused, match=r'database "nowhere" does not exist: create'):
        opened(Dsn(database18.server.dsn("nowhere")))
    with pytest.raises(SourceRefused, match=r'role "nobody_here" does not exist: create'):
        opened(Dsn(database18.dsn.text.replace("user=flusso", "user=nobody_here")))


@OPENERS
def test_a_server_that_does_not_answer_is_unavailable(opened: Open) -> None:
    with pytest.raises(SourceUnavailable, match=r"d on 127\.0\.0\.1:1"):
        opened(Dsn("host=127.0.0.1 port=1 dbname=d"))


@OPENERS
@pytest.mark.parametrize(
    "text", ["host=127.0.0.1 sslmode=requires", "host=127.0.0.1 target_session_attrs=best", "service=none"]
)
def test_a_value_that_cannot_be_is_an_error_of_the_configuration(opened: Open, text: str) -> None:
    with pytest.raises(ConfigError):
        opened(Dsn(text))


@OPENERS
def test_a_unix_socket_is_a_host(database18: Database, opened: Open) -> None:
    server = database18.server
    folder = quote(str(server.folder), safe="")
    for text in (
        f"host={server.folder} port={server.port} user=flusso dbname={database18.name}",
        f"postgresql://flusso@{folder}:{server.port}/{database18.name}",
        f"postgresql:///{database18.name}?host={folder}&port={server.port}&user=flusso",
    ):
        with opened(Dsn(text)) as conn:
            assert ask(conn, "select inet_server_addr() is null") == "t"


@OPENERS
def test_a_service_file_brings_all_parts(
    database18: Database, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = database18.dsn.text.replace(" ", "\n")
    (tmp_path / "services").write_text(f"[shop]\n{parts}\napplication_name=of the service\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert application(Dsn("service=shop"), opened) == "of the service"
    assert application(Dsn("postgresql://?service=shop"), opened) == "of the service"


@OPENERS
def test_of_several_hosts_the_one_that_fits_is_taken(database18: Database, opened: Open) -> None:
    port = database18.server.port
    text = f"postgresql://flusso@127.0.0.1:1,127.0.0.1:{port}/{database18.name}?target_session_attrs="
    with opened(Dsn(text + "read-write&connect_timeout=5&keepalives_idle=30&tcp_user_timeout=1000")) as conn:
        assert ask(conn, "select current_database()") == database18.name
    with pytest.raises(SourceUnavailable, match="not in hot standby mode"):
        opened(Dsn(text + "standby"))


LIVENESS = {
    "keepalives": (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    "keepalives_idle": (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
    "keepalives_interval": (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
    "keepalives_count": (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
    "tcp_user_timeout": (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
}


def liveness(dsn: Dsn, opened: Open) -> dict[str, int]:
    """By libpq's keyword, what the socket of a connection is set to."""
    with opened(dsn) as conn, socket.socket(fileno=os.dup(conn.pgconn.socket)) as found:
        return {name: found.getsockopt(*option) for name, option in LIVENESS.items()}


@OPENERS
def test_a_peer_that_vanished_without_a_word_is_given_up_after_a_minute(
    database18: Database, opened: Open
) -> None:
    found = liveness(database18.dsn, opened)
    assert found.pop("keepalives") == 1
    assert found.pop("tcp_user_timeout") == 60_000
    assert found["keepalives_idle"] + found["keepalives_interval"] * found["keepalives_count"] == 60


@OPENERS
def test_the_users_own_keepalives_win(
    database18: Database, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"keepalives_idle": 7, "keepalives_interval": 8, "keepalives_count": 9, "tcp_user_timeout": 5000}
    lines = [f"{name}={value}" for name, value in own.items()]
    parts = database18.dsn.text.replace(" ", "\n")
    (tmp_path / "services").write_text("\n".join(["[shop]", parts, *lines]))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    for text in (f"{database18.dsn.text} {' '.join(lines)}", "service=shop"):
        assert own.items() <= liveness(Dsn(text), opened).items()
    assert liveness(Dsn(f"{database18.dsn.text} keepalives=0"), opened)["keepalives"] == 0


@OPENERS
def test_connections_are_called_flusso_unless_the_user_says_otherwise(
    database18: Database, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert application(database18.dsn, opened) == "flusso"
    assert application(Dsn(f"{database18.dsn.text} application_name=mine"), opened) == "mine"
    monkeypatch.setenv("PGAPPNAME", "of the environment")
    assert application(database18.dsn, opened) == "of the environment"


@OPENERS
def test_the_environment_cannot_change_a_pinned_setting(
    database18: Database, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGTZ": "Asia/Kathmandu",
        "PGDATESTYLE": "german",
        "PGCLIENTENCODING": "LATIN1",
        "PGOPTIONS": "-c bytea_output=escape -c work_mem=5MB",
    }.items():
        monkeypatch.setenv(name, value)
    with opened(Dsn(f"{database18.dsn.text} options='-c intervalstyle=iso_8601'")) as conn:
        names = ("timezone", "datestyle", "client_encoding", "bytea_output", "intervalstyle")
        assert [ask(conn, f"show {name}") for name in names] == ["UTC", "ISO, YMD", "UTF8", "hex", "postgres"]


def test_the_users_own_options_stay(database18: Database) -> None:
    with connect(Dsn(f"{database18.dsn.text} options='-c work_mem=5MB'")) as conn:
        assert ask(conn, "show work_mem") == "5MB"


def test_no_timeout_of_the_role_cuts_a_connection(database: Database) -> None:
    names = [
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
    ]
    names += ["transaction_timeout"] if database.server.binaries.parent.name.endswith("18") else []
    role = f"hasty_{database.name}"
    database.execute(f"create role {role} login")
    try:
        for name in names:
            database.execute(f"alter role {role} set {name} = '1s'")
        with connect(Dsn(database.dsn.text.replace("user=flusso", f"user={role}"))) as conn:
            assert [ask(conn, f"show {name}") for name in names] == ["0"] * len(names)
    finally:
        database.execute(f"drop role {role}")


def test_an_error_of_many_hosts_names_them_without_secrets() -> None:
    with pytest.raises(SourceError, match=r"127\.0\.0\.1,127\.0\.0\.2:1,2") as caught:
        connect(Dsn("postgresql://me:hunter2@127.0.0.1:1,127.0.0.2:2/d"))
    assert "hunter2" not in str(caught.value)


def test_an_idle_connection_that_the_server_has_ended_is_dead_and_any_other_is_not(
    database18: Database,
) -> None:
    with database18.connect() as conn:
        assert not is_dead(conn)
        database18.execute("select pg_terminate_backend(%s)", conn.info.backend_pid)
        wait_until(lambda: is_dead(conn), what="the end to be seen")
