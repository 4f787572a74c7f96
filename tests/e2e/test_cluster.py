"""Beyond one machine: the same program on executors of their own, which may die."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from commands import Deployment, Running
from fix_postgres import Database
from flusso.engine.java import find_java, make_java_home
from flusso.engine.session import Session
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import assert_exact, market_spec, run_once
from sizes import SIZES
from waiting import wait_until
from workers import ports_of

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.opensearch]
SPARK = Path(pyspark.__file__).parent
_EXECUTOR = "CoarseGrainedExecutorBackend"
_HELD = """
select distinct client_port
from pg_stat_activity
join pg_locks using (pid)
where relation = 'tags'::regclass
  and not granted
"""


def _deploy(folder: Path, database: Database, sink: OpenSearchSpec, spark: str) -> Deployment:
    # The smallest ranges: more than one turn takes, so that there is a seed to disturb.
    text = (
        f'[sinks.search]\ntype = "opensearch"\nurl = "{sink.urls[0]}"\nnumber_of_replicas = 0\n'
        f"[batch]\nseed_range_mb = 0.0625\n[spark]\n{spark}"
    )
    deployment = Deployment(folder, database, sink=text)
    deployment.env["FLUSSO_INDEX_PREFIX"] = sink.prefix
    return deployment


def _kill_one_executor(running: Running) -> None:
    """Executors of a local cluster are children of the driver's JVM."""
    os.kill(running.find(_EXECUTOR), signal.SIGKILL)


@contextmanager
def _held_batch(running: Running, database: Database) -> Iterator[psutil.Process]:
    """Hold back whoever builds documents, and give the executor that does once it waits."""
    with database.connect() as holder, holder.transaction():
        holder.execute("lock table public.tags in access exclusive mode")
        database.execute(
            "update users set name = 'live' where id % 2 = 0; delete from users where id % 5 = 0"
        )
        [(port,)] = wait_until(lambda: database.execute(_HELD), what="a task that is held back")
        yield _executor_of(running, port)


def _executor_of(running: Running, port: object) -> psutil.Process:
    """The executor whose Python worker has a connection from this port."""
    [worker] = [
        child
        for child in psutil.Process(running.process.pid).children(recursive=True)
        if port in ports_of(child)
    ]
    return next(each for each in worker.parents() if _EXECUTOR in " ".join(each.cmdline()))


@pytest.mark.sized
def test_killed_executors_lose_nothing_and_double_nothing(
    database18: Database, search_sink: OpenSearchSpec, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=SIZES.cluster_users)
    # What a dead executor had kept for others is asked for again and again, a quarter of a minute by default.
    spark = 'master = "local-cluster[2,1,1024]"\nconf = { "spark.shuffle.io.retryWait" = "200ms" }\n'
    deployment = _deploy(tmp_path, database18, search_sink, spark)
    with deployment.start("run") as running:
        running.wait_for("seed advanced")
        _kill_one_executor(running)
        assert "seed finished" not in running.log()
        running.wait_for("seed finished", timeout_s=SIZES.patience_s)
        before = running.log().count("batch written")
        with _held_batch(running, database18) as executor:
            executor.kill()
            executor.wait(15)
            assert running.log().count("batch written") == before
        running.wait_for("batch written", count=before + 1, timeout_s=SIZES.patience_s)
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.wait_end(60) == 0, running.log()
    spec = market_spec(database18, search_sink)
    run_once(spec, spark_session)
    assert_exact(database18, spec)


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter that has the dependencies but not flusso: a path entry runs no .pth files."""
    home = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    site = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = home / "bin" / "python"
    probe = subprocess.run(
        [python, "-c", "import psycopg, pyarrow; import flusso"], capture_output=True, text=True
    )
    assert "No module named 'flusso'" in probe.stderr
    return python


@pytest.fixture
def standalone_master(tmp_path: Path) -> Iterator[str]:
    """A Spark master with two workers, started from another folder with a clean environment."""
    folder = tmp_path / "spark"
    folder.mkdir()
    port = _free_port()
    env = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(make_java_home(folder, find_java())),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_CONF_DIR": str(folder),
    }
    master = [
        "org.apache.spark.deploy.master.Master",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--webui-port",
        "0",
    ]
    worker = ["org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "1g", "--webui-port", "0"]
    url = f"spark://127.0.0.1:{port}"
    started = [_start_spark(folder, env, master)]
    wait_until(lambda: _is_open(port), what="the master to listen")
    started += [_start_spark(folder, env, [*worker, url]) for _ in range(2)]
    log = folder / "log"
    wait_until(lambda: log.read_text().count("Successfully registered with master") == 2, what="two workers")
    yield url
    for process in started:
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # executors end by themselves when their worker goes
                child.kill()
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def test_it_runs_unchanged_on_a_standalone_master_whose_workers_do_not_have_flusso(
    database18: Database,
    search_sink: OpenSearchSpec,
    tmp_path: Path,
    standalone_master: str,
    bare_python: Path,
) -> None:
    create_market(database18, users=200)
    deployment = _deploy(
        tmp_path,
        database18,
        search_sink,
        f'master = "{standalone_master}"\nconf = {{ "spark.executor.memory" = "512m" }}\n',
    )
    source = Path(__file__).parent.parent.parent / "src"
    deployment.env |= {"PYSPARK_PYTHON": str(bare_python), "PYTHONPATH": str(source)}
    with deployment.start("run") as running:
        running.wait_for("seed finished")
        database18.execute(
            "update users set name = 'far away' where id = 1; delete from orders where user_id = 2"
        )
        running.wait_for("batch written")
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.wait_end(60) == 0, running.log()
    assert_exact(database18, market_spec(database18, search_sink))


def test_a_file_sink_is_refused_on_a_master_of_several_hosts(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=5)
    sink = '[sinks.local]\ntype = "sqlite"\npath = "index.db"\n[spark]\nmaster = "spark://127.0.0.1:1"\n'
    done = Deployment(tmp_path, database18, sink=sink).call("run", "--once")
    assert done.returncode == 2
    assert "is a file of this machine" in done.stderr


def _start_spark(folder: Path, env: dict[str, str], command: list[str]) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [SPARK / "bin" / "spark-class", *command],
            cwd=folder,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
