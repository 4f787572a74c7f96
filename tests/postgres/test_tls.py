"""TLS, for SQL and for replication alike, against a server that takes nothing else by TCP."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.capture.prerequisites import inspect_prerequisites
from flusso.config.conninfo import conninfo
from flusso.demo.server import EmbeddedServer
from flusso.errors import SourceRefused, SourceUntrusted
from flusso.postgres.connect import Connection, Dsn, connect, connect_replication
from search_server import NoServer
from tls_server import NAME, Authority, create_authority, create_tls_server, local_dsn
from waiting import wait_until

pytestmark = pytest.mark.postgres

Open = Callable[[Dsn], Connection]
OPENERS = pytest.mark.parametrize("opened", [connect, connect_replication], ids=["sql", "replication"])


@dataclass(frozen=True, slots=True)
class Tls:
    server: EmbeddedServer
    folder: Path
    ours: Authority
    other: Authority

    def dsn(self, **parts: object) -> Dsn:
        """By the certificate's name, wherever that may lead."""
        found = {"host": NAME, "hostaddr": "127.0.0.1", "port": self.server.port, "user": "flusso"}
        found |= {"dbname": "postgres", "sslmode": "verify-full", "sslrootcert": self.ours.file}
        return Dsn(conninfo({key: str(value) for key, value in (found | parts).items()}))

    def client(self, authority: Authority, name: str = "certified") -> dict[str, object]:
        """A certificate of our own, and the role that asks for one."""
        folder = self.folder / f"{authority.file.stem}-{name}"
        folder.mkdir(exist_ok=True)
        certificate, key = authority.sign(folder, name)
        return {"user": "certified", "sslcert": certificate, "sslkey": key}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    folder = tmp_path_factory.mktemp("certificates")
    ours, other = create_authority(folder, "ours"), create_authority(folder, "other")
    try:
        server = create_tls_server(ours)
    except NoServer as error:
        if os.environ.get("CI"):
            pytest.fail(f"no Postgres with TLS in CI: {error}", pytrace=False)
        pytest.skip(f"NO POSTGRES WITH TLS: {error} (or set FLUSSO_TEST_TLS_PG_BIN)")
    made = Tls(server, folder, ours, other)
    wait_until(lambda: _has_tls(made), what="TLS in force")
    yield made
    server.remove()


def _has_tls(tls: Tls) -> bool:
    try:
        connect(tls.dsn()).close()
    except (SourceUntrusted, SourceRefused):
        return False
    return True


def ask(conn: Connection, sql: str) -> str:
    result = conn.pgconn.exec_(sql.encode())
    return (result.get_value(0, 0) or b"").decode()


USED = "select concat(ssl, ' ', client_dn) from pg_stat_ssl where pid = pg_backend_pid()"


@OPENERS
@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_connection_is_encrypted_and_verified_as_far_as_asked(tls: Tls, opened: Open, mode: str) -> None:
    with opened(tls.dsn(sslmode=mode)) as conn:
        assert ask(conn, USED) == "t "


@OPENERS
def test_a_client_certificate_is_enough_to_log_in(tls: Tls, opened: Open) -> None:
    with opened(tls.dsn(**tls.client(tls.ours))) as conn:
        assert ask(conn, USED) == "t /CN=certified"
        assert ask(conn, "select current_user") == "certified"


@OPENERS
def test_a_wrong_name_is_no_matter_to_verify_ca(tls: Tls, opened: Open) -> None:
    opened(tls.dsn(sslmode="verify-ca", host="other.flusso.test")).close()


def _world_readable(tls: Tls) -> dict[str, object]:
    parts = tls.client(tls.ours, "careless")
    Path(str(parts["sslkey"])).chmod(0o644)
    return parts


FAULTS: dict[str, tuple[Callable[[Tls], dict[str, object]], str]] = {
    "a name that the certificate has not": (
        lambda tls: {"host": "other.flusso.test"},
        r"does not match host name.*: connect by a name that the certificate has",
    ),
    "an authority that did not sign": (
        lambda tls: {"sslrootcert": tls.other.file, "sslmode": "verify-ca"},
        r"certificate verify failed: give the authority.*sslrootcert",
    ),
    "an authority that is not there": (
        lambda tls: {"sslrootcert": "/nowhere/root.pem"},
        r'root certificate file "/nowhere/root.pem" does not exist: give the authority',
    ),
    "no client certificate": (
        lambda tls: {"user": "certified", "sslcert": "/nowhere/c.pem"},
        r"requires a valid client certificate: give a client certificate",
    ),
    "a client certificate of another authority": (
        lambda tls: tls.client(tls.other),
        r": give a client certificate that the server's ssl_ca_file has signed",
    ),
    "a client certificate of another role": (
        lambda tls: tls.client(tls.ours, "somebody"),
        r"certificate authentication failed.*: the common name",
    ),
    "a key that everybody may read": (_world_readable, r"private key file.*: sslcert and sslkey must be PEM"),
}


@OPENERS
@pytest.mark.parametrize("fault", FAULTS)
def test_what_tls_cannot_agree_on_is_told_with_a_remedy(tls: Tls, opened: Open, fault: str) -> None:
    parts, words = FAULTS[fault]
    with pytest.raises(SourceUntrusted, match=words):
        opened(tls.dsn(**parts(tls)))


@OPENERS
def test_a_server_that_wants_tls_refuses_to_do_without(tls: Tls, opened: Open) -> None:
    with pytest.raises(SourceRefused, match=r"no encryption: ask for TLS with sslmode=require"):
        opened(tls.dsn(sslmode="disable"))


@OPENERS
def test_a_server_without_tls_is_no_match_for_who_asks_for_it(database18: Database, opened: Open) -> None:
    with pytest.raises(SourceUntrusted, match=r"server does not support SSL.*: set ssl = on"):
        opened(Dsn(f"{database18.dsn.text} sslmode=require"))


def test_the_look_before_the_start_goes_by_tls_as_well(tls: Tls) -> None:
    dsn = tls.dsn()
    with connect(Dsn(local_dsn(tls.server))) as conn:
        assert inspect_prerequisites(conn, dsn) == []
        (finding,) = inspect_prerequisites(conn, tls.dsn(sslrootcert=tls.other.file))
    assert "certificate verify failed" in finding.message
