"""A password appears nowhere: no log, error, repr, Spark plan, event log or command line shows it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from commands import Deployment
from fix_postgres import Database
from flusso.capture.stream import CaptureSpec
from flusso.engine.session import Session
from flusso.engine.source import FORMAT, SECRET_OPTION
from flusso.engine.source_reader import SourceSpec
from flusso.postgres.connect import Dsn
from market import create_market

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
PASSWORD = "hunter2-quite-secret"
PICKLED = b"gASV"
"""How every pickled spec begins, in base64."""


def test_no_password_is_on_a_command_line_in_a_log_or_in_the_event_log(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=20)
    events = tmp_path / "events"
    events.mkdir()
    spark = (
        '[spark.conf]\n"spark.eventLog.enabled" = "true"\n"spark.eventLog.compress" = "false"\n'
        f'"spark.eventLog.dir" = "{events.as_uri()}"\n'
    )
    sink = f'[sinks.local]\ntype = "sqlite"\npath = "index.db"\n{spark}'
    deployment = Deployment(tmp_path, database18, sink=sink)
    deployment.env["DATABASE_URL"] += f" password={PASSWORD}"
    with deployment.start("run") as running:
        running.wait_for("seed finished")
        database18.execute("update users set name = 'seen' where id = 1")
        running.wait_for("batch written")
        commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
        scratch = _scratch_texts(running.find("org.apache.spark.deploy.SparkSubmit"))
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.wait_end() == 0, running.log()
    logged = [path.read_bytes() for path in events.rglob("*") if path.is_file()]
    assert any(b"SparkListenerJobStart" in text for text in logged), "the event log is empty"
    assert scratch, "no scratch file was found"
    for text in [*logged, *scratch, running.log().encode(), *(command.encode() for command in commands)]:
        assert PASSWORD.encode() not in text
        assert PICKLED not in text


def test_a_wrong_password_and_host_are_reported_without_the_password(
    database18: Database, tmp_path: Path
) -> None:
    impatient = 'give_up_after_secs = 1\n[sinks.local]\ntype = "sqlite"\npath = "index.db"\n'
    deployment = Deployment(tmp_path, database18, sink=impatient)
    deployment.env["DATABASE_URL"] = f"postgres://someone:{PASSWORD}@127.0.0.1:1/nowhere"
    for command in (["run", "--once"], ["check"], ["status"]):
        done = deployment.call(*command)
        assert done.returncode in (1, 3)
        assert PASSWORD not in done.stdout + done.stderr
        assert "nowhere" in done.stdout + done.stderr


def test_the_plan_of_the_stream_does_not_show_the_spec(spark_session: Session, database18: Database) -> None:
    dsn = Dsn(f"{database18.dsn.text} password={PASSWORD}")
    spec = SourceSpec(CaptureSpec(dsn, "none", "none", ()), 1, 1, 1, 1, 1.0, 1.0)
    frame = spark_session.spark.readStream.format(FORMAT).option(SECRET_OPTION, spec.to_option()).load()
    plan = str(frame._jdf.queryExecution().toString())
    assert FORMAT in plan
    assert spec.to_option().encode().startswith(PICKLED)
    assert PICKLED.decode() not in plan
    assert PASSWORD not in repr(spec) + repr(spec.capture)


def _scratch_texts(jvm: int) -> list[bytes]:
    """Every file of the driver's scratch folder: the checkpoint's offsets among them."""
    log = Path(f"/proc/{jvm}/fd/1").resolve()
    return [path.read_bytes() for path in log.parent.rglob("*") if path.is_file()]
