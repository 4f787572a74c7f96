"""A real Postgres with TLS, and the certificates for it.

The Postgres that the other tests run on is built without TLS. This one comes from Maven, once, into the cache
outside the checkout; `FLUSSO_TEST_TLS_PG_BIN` names the `bin` folder of another one. It takes connections by
TCP only over TLS.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import platform
import pwd
import shutil
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from flusso.demo.server import EmbeddedServer, create_server
from search_server import NoServer, maven_copy

VERSION = "18.1.0"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64v8"}
NAME = "db.flusso.test"
"""The one name that the server's certificate has."""
_RULES = """
local all all trust
hostssl all certified all cert
hostssl all all all trust
"""


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    file: Path

    def sign(self, folder: Path, common_name: str, host: str | None = None) -> tuple[Path, Path]:
        """Make a certificate and its key, as PEM files."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name), self.name, key.public_key(), is_authority=False)
        if host is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        made = builder.sign(self.key, hashes.SHA256())
        certificate, secret = folder / f"{common_name}.crt", folder / f"{common_name}.key"
        certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(_pem(key))
        secret.chmod(0o600)
        return certificate, secret


def create_authority(folder: Path, name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    made = _builder(subject, subject, key.public_key(), is_authority=True).sign(key, hashes.SHA256())
    file = folder / f"{name}.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return Authority(subject, key, file)


def create_tls_server(authority: Authority) -> EmbeddedServer:
    """Start a server with a certificate of the authority, which also vouches for its clients."""
    server = create_server(18, binaries=find_tls_binaries())
    try:
        with tempfile.TemporaryDirectory() as made:
            certificate, key = authority.sign(Path(made), "server", NAME)
            for file, name in (
                (certificate, "server.crt"),
                (key, "server.key"),
                (authority.file, "root.crt"),
            ):
                target = server.data / name
                shutil.copy(file, target)
                target.chmod(0o600)
                if server.user is not None:
                    os.chown(target, pwd.getpwnam(server.user).pw_uid, -1)
        with psycopg.connect(local_dsn(server), autocommit=True) as admin:
            admin.execute("alter system set ssl_ca_file = 'root.crt'")
            admin.execute("alter system set ssl = on")
            admin.execute("create role certified login replication")
        (server.data / "pg_hba.conf").write_text(_RULES)
        server.control("reload")
    except BaseException:
        server.remove()
        raise
    return server


def local_dsn(server: EmbeddedServer) -> str:
    """Reach the server by its socket, which asks for nothing."""
    return f"host={server.folder} port={server.port} user=flusso dbname=postgres"


def find_tls_binaries() -> Path:
    """Give the `bin` folder of a Postgres with TLS, fetched if need be."""
    given = os.environ.get("FLUSSO_TEST_TLS_PG_BIN")
    return Path(given) if given else fetch_binaries(VERSION)


def fetch_binaries(version: str) -> Path:
    """Have Maven put a Postgres of that version into the cache; give its `bin` folder."""
    cache = Path(os.environ.get("FLUSSO_CACHE") or Path.home() / ".cache" / "flusso")
    done = cache / f"postgres-{version}"
    maven, machine = shutil.which("mvn"), _MACHINES.get(platform.machine())
    if not done.is_dir():
        if maven is None or machine is None:
            raise NoServer(f"Maven is not installed, so Postgres {version} cannot be fetched")
        cache.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
        try:
            name = f"embedded-postgres-binaries-linux-{machine}"
            maven_copy(maven, f"io.zonky.test.postgres:{name}:{version}", partial)
            _unpack(partial / f"{name}-{version}.jar", partial)
            with contextlib.suppress(OSError):  # another process was faster: its copy is as good
                partial.rename(done)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return done / "install" / "bin"


def _unpack(jar: Path, folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        packed = next(name for name in archive.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(archive.read(packed)), mode="r:xz") as files:
            files.extractall(folder / "install", filter="data")
    jar.unlink()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
