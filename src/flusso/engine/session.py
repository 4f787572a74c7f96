"""Start Spark the way flusso needs it, ship flusso to executors, and notice when the JVM is gone.

Whoever runs under `spark-submit` has a session already: its settings win and nothing here overrules
them. Else flusso owns the JVM: started in a session of its own, so that a signal to the process group
reaches only the driver, which then ends everything in order.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import flusso
from flusso.engine.daemon import ALSO_PRELOADED
from flusso.engine.java import QUICK_COMPILER, class_archive, find_java, make_java_home
from flusso.engine.scratch import make_scratch, remove_scratch
from flusso.engine.source import ChangeSource
from flusso.engine.spark_home import make_spark_home
from flusso.errors import ConfigError, EngineError, FlussoError

LIVE_POOL = "live"
SEED_POOL = "seed"

SPARK_ERRORS = (Py4JError, PySparkException, ConnectionError, EOFError)
"""What a call to Spark may raise, the last two when the JVM is gone."""

_LOG = "spark.log"
_LOCAL = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\]|-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\])?")
_OF_A_SETTING = re.compile(
    r"IllegalArgument|NumberFormat|[Mm]aster URL|Master must|heap size|(?<!apache\.)\bspark\.[a-z]"
)
_CAUSE = re.compile(r"(Caused by: )?[\w.$]*(Error|Exception)\b.*")
_NOISE = re.compile(r"\s+at |WARNING: |Setting default log level|To adjust logging level")

_SETTINGS = {
    "spark.app.name": "flusso",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    # What a sink beside the driver prints comes back to it; how much of that there is, batches see to.
    "spark.driver.maxResultSize": "0",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.pollingDelay": "2ms",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_LOCAL_SETTINGS = {
    # Session-wide and unfit for callers of FileSystem.getLocal, so only where the session is ours and local.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # Elsewhere flusso reaches the workers only after their daemon has started.
    "spark.python.daemon.module": "flusso.engine.daemon",
}

_POOLS = f"""<?xml version="1.0"?>
<allocations>
  <pool name="{LIVE_POOL}"><weight>1000</weight><minShare>1</minShare></pool>
  <pool name="{SEED_POOL}"><weight>1</weight></pool>
</allocations>
"""


@dataclass(frozen=True, slots=True)
class SparkSpec:
    """Where to run, and the user's own settings."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    max_tasks: int = 64
    """Upper bound on tasks at a time: each holds a Postgres connection."""
    preload: tuple[str, ...] = ()
    """Modules that tasks will need, beside our own: workers of a local master begin with them imported."""


@dataclass(slots=True)
class Session:
    """A running Spark, with its scratch folder and, where we started it, its JVM process."""

    spark: SparkSession
    scratch: Path
    jvm: subprocess.Popen[bytes] | None
    exit_s: float = 5.0
    """How long the JVM may take to end by itself."""

    @property
    def slots(self) -> int:
        """Tasks that run at a time."""
        with self.asking():
            return max(1, self.spark.sparkContext.defaultParallelism)

    def is_alive(self) -> bool:
        """Whether the JVM still runs, as far as we can know."""
        return self.jvm is None or self.jvm.poll() is None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Give what Spark raises outside of a query as an error of ours."""
        try:
            yield
        except SPARK_ERRORS as error:
            raise self.why(error) from error

    def why(self, error: Exception) -> EngineError:
        """Say what is behind an error of Spark's: mostly its JVM is gone."""
        tail = _tail(self.scratch / _LOG)
        if self.is_alive():
            return EngineError(f"Spark does not do what is asked of it: {_reason(error)}", hint=tail)
        end = f"; its log ends with: {tail}" if tail else ""
        return EngineError("the Spark JVM died", hint=f"start flusso again: nothing is lost{end}")

    def close(self) -> None:
        """Stop Spark, end the JVM if it is ours, delete the scratch."""
        if self.jvm is None:
            self.spark.stop()
        elif self.is_alive():
            stopping = threading.Thread(target=self._stop_quietly, daemon=True)
            stopping.start()
            stopping.join(timeout=5)
            self._end_jvm()
        remove_scratch(self.scratch)

    def _stop_quietly(self) -> None:
        try:
            self.spark.stop()
        except Exception:  # py4j raises anything when the JVM is already going
            return

    def _end_jvm(self) -> None:
        """Closing its input tells the gateway to exit; it is killed when it does not listen."""
        assert self.jvm is not None
        _forget_gateway()
        if self.jvm.stdin is not None:
            self.jvm.stdin.close()
        try:
            self.jvm.wait(timeout=self.exit_s)
        except subprocess.TimeoutExpired:
            _kill(self.jvm)


def open_session(spec: SparkSpec) -> Session:
    """Start Spark (or join the one that `spark-submit` started) and make flusso known to it."""
    scratch = make_scratch()
    try:
        with _own_interrupt_handler():
            if "PYSPARK_GATEWAY_PORT" in os.environ:
                session = Session(SparkSession.builder.getOrCreate(), scratch, None)
            else:
                session = _launch(spec, scratch)
    except BaseException:
        remove_scratch(scratch)
        raise
    try:
        _prepare(session)
    except SPARK_ERRORS as error:
        failure = _unstarted(_reason(error), scratch / _LOG)
        session.close()
        raise failure from error
    except BaseException:
        session.close()
        raise
    return session


def _prepare(session: Session) -> None:
    """Ship flusso where it is not installed, and register the source."""
    context = session.spark.sparkContext
    if not is_local(context.master or ""):
        context.addPyFile(str(package_zip(session.scratch)))
        _probe_executors(context, session.slots)
    session.spark.dataSource.register(ChangeSource)


def _launch(spec: SparkSpec, scratch: Path) -> Session:
    """Start a JVM of our own."""
    _check_master(spec.master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    if is_local(spec.master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ[ALSO_PRELOADED] = ",".join(spec.preload)
    java, spark_home = find_java(), None
    if is_local(spec.master):  # executors elsewhere start from the real one
        spark_home = make_spark_home(scratch, Path(os.environ["SPARK_HOME"]))
    os.environ["JAVA_HOME"] = str(make_java_home(scratch, java, spark_home))
    conf = _configure(spec, scratch, class_archive(java))
    # Spark's own output must mix neither with what the stdout sink prints nor with a progress bar.
    log = scratch / _LOG
    with log.open("wb") as output:
        options: dict[str, Any] = {"stdout": output, "stderr": output, "start_new_session": True}
        try:
            gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise _unstarted("its JVM ended", log) from error
    try:
        return Session(SparkSession(SparkContext(conf=conf, gateway=gateway)), scratch, gateway.proc)
    except SPARK_ERRORS as error:
        failure = _unstarted(_reason(error), log)  # while the JVM can be asked for it
        _forget_gateway()
        SparkContext._active_spark_context = None
        _kill(gateway.proc)
        raise failure from error


def _unstarted(reason: str, log: Path) -> FlussoError:
    """Say why Spark did not start: most often a setting is wrong, and what Spark says names it."""
    tail = _tail(log)
    end = f"; its log ends with: {tail}" if tail else ""
    if _OF_A_SETTING.search(f"{reason} {tail}"):
        return ConfigError(f"Spark refuses its settings: {reason}", hint=f"see [spark] in flusso.toml{end}")
    return EngineError(f"Spark did not start: {reason}", hint=f"is its master there, with room?{end}")


def _forget_gateway() -> None:
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None


def _kill(jvm: subprocess.Popen[bytes]) -> None:
    jvm.kill()
    jvm.wait(timeout=5)


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Keep our SIGINT handler: a new SparkContext puts its own in place, which stops everything at once."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _tail(log: Path) -> str:
    """Give the end of Spark's log in one line; empty where there is none."""
    if not log.exists():  # under spark-submit it is not ours
        return ""
    lines = log.read_text(errors="replace").splitlines()
    return " / ".join([line for line in lines if not _NOISE.match(line)][-5:])


def _reason(error: Exception) -> str:
    """Name the cause of an error of Spark's in one line."""
    text = type(error).__name__
    with suppress(*SPARK_ERRORS):  # a Java error is asked for its text, and the JVM may be gone
        text = str(error) or text
    causes = [line.strip(" :") for line in text.splitlines() if _CAUSE.match(line.strip(" :"))]
    return (causes[-1] if causes else text.partition("\n")[0]).removeprefix("Caused by: ")


def _configure(spec: SparkSpec, scratch: Path, archive: Path) -> SparkConf:
    pools = scratch / "pools.xml"
    pools.write_text(_POOLS)
    log = Path(__file__).with_name("log4j2.properties")
    conf = SparkConf(loadDefaults=False)
    settings = dict(_SETTINGS)
    if is_local(spec.master):
        settings |= _LOCAL_SETTINGS
    settings |= {
        "spark.master": _sized(spec.master, spec.max_tasks),
        "spark.scheduler.allocation.file": pools.as_uri(),
        "spark.driver.extraJavaOptions": " ".join(_java_options(log, archive)),
        # On disk, not in the scratch folder: what does not fit in memory must not go back there.
        "spark.local.dir": os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir(),
    }
    for key, value in (settings | dict(spec.conf)).items():
        conf.set(key, value)
    return conf


def _java_options(log: Path, archive: Path) -> Iterator[str]:
    yield f"-Dlog4j2.configurationFile={log.as_uri()}"
    yield QUICK_COMPILER
    if archive.exists():
        yield shlex.quote(f"-XX:SharedArchiveFile={archive}")


def _check_master(master: str) -> None:
    """Refuse a local master that Spark could not read, before a JVM is started for it."""
    if master.startswith("local") and not _LOCAL.fullmatch(master):
        raise ConfigError(
            f'"{master}" is no Spark master',
            hint="write local[*], local[4], local-cluster[2,1,1024], spark://host:7077 or yarn",
        )


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver's JVM."""
    return master == "local" or master.startswith("local[")


def is_single_host(master: str) -> bool:
    """Whether all executors see the driver's files."""
    return is_local(master) or master.startswith("local-cluster[")


def _sized(master: str, max_tasks: int) -> str:
    """Give a local master at least two slots (a seed must leave one free) and no more than allowed."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if not found:
        return master
    asked = found.group(1) or "1"
    cores = (os.cpu_count() or 1) if asked == "*" else int(asked)
    return f"local[{max(2, min(cores, max_tasks))}]"


def package_zip(scratch: Path) -> Path:
    """Pack flusso's own code for executors that do not have it."""
    root = Path(flusso.__file__).parent
    target = scratch / "flusso.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, Path("flusso") / file.relative_to(root))
    return target


def _probe_executors(context: SparkContext, slots: int) -> None:
    """Refuse executors whose Python, flusso or psycopg differ from the driver's."""
    own = _versions()
    try:
        found = (
            context.parallelize(range(slots * 4), slots * 4)
            .mapPartitions(_report_versions)
            .distinct()
            .collect()
        )
    except Exception as error:
        raise ConfigError(
            "executors cannot run flusso's tasks",
            hint="give them, at the same path, an interpreter with flusso's dependencies: "
            f"{str(error).splitlines()[0]}",
        ) from error
    for versions in found:
        if versions != own:
            raise ConfigError(
                f"an executor has {versions}, the driver {own}", hint="use the same environment on both"
            )


def _report_versions(_: Any) -> list[tuple[str, str, str]]:
    return [_versions()]


def _versions() -> tuple[str, str, str]:
    return (".".join(map(str, sys.version_info[:2])), flusso.__version__, psycopg.__version__)
