"""The example of the guide on a cluster of its own: killed in the middle, started again, every change once.

It runs as a user would run it, in a process that knows nothing of the tests, with Spark's event log on: which
then shows no password, and neither does anything else that it leaves behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

import flusso
from fix_postgres import Database
from flusso.engine.java import find_java, make_java_home
from flusso.engine.standalone.columns import JSON_SCHEMA
from flusso.engine.standalone.options import OPTIONS
from waiting import wait_until

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "spark-source.md").read_text()
PASSWORD = "hunter2-quite-secret"
_TABLES = """
create table customers (id int primary key, name text);
create table orders (id int primary key, customer_id int, status text);
insert into customers values (1, 'Ann');
insert into orders select i, 1, 'open' from generate_series(1, 500) as i;
"""
_LATER = """
insert into orders select i, 1, 'late' from generate_series(501, 700) as i;
insert into orders select i, 1, 'late' from generate_series(701, 800) as i;
"""
_REPORT = """
import json
landed = spark.read.parquet(os.environ["LAKE"] + "/changes")
rows = landed.where("table = 'orders'").select("operation", "key").collect()
print("REPORT", json.dumps([[row.operation, row.key] for row in rows]))
print("NEWEST", json.dumps({row.id: row.status for row in orders.collect()}))
"""


def _example(name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found, f"the guide has no example {name}"
    return found[1]


def _table(name: str) -> list[list[str]]:
    found = re.search(rf"<!-- table: {name} -->\n((?:\|.*\n)+)", GUIDE)
    assert found
    lines = found[1].splitlines()[2:]
    return [[cell.strip("` ") for cell in line.strip("|\n").split("|")] for line in lines]


def test_the_guide_lists_every_option_with_its_default() -> None:
    assert [(row[0], row[1]) for row in _table("options")] == list(OPTIONS.items())


def test_the_guide_lists_every_column() -> None:
    listed = [name.strip("` ") for row in _table("columns") for name in row[0].split(",")]
    assert listed == JSON_SCHEMA.names


class Program:
    """A user's program on `local-cluster`."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self.events = folder / "events"
        self.events.mkdir()
        self.log = folder / "log"
        self.landed = folder / "lake" / "changes" / "_spark_metadata"
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        conf = " ".join(f"--conf {name}={value}" for name, value in settings.items())
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "JAVA_HOME": str(make_java_home(folder, find_java())),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(flusso.__file__).parents[1]),
            "PYSPARK_SUBMIT_ARGS": f"--master local-cluster[2,1,1024] {conf} pyspark-shell",
            "DATABASE_URL": f"{database.dsn.text} password={PASSWORD}",
            "LAKE": str(folder / "lake"),
        }

    def start(self, text: str) -> subprocess.Popen[bytes]:
        script = self.folder / "program.py"
        script.write_text(text)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(script)],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def batches(self) -> int:
        return len(list(self.landed.glob("[0-9]*"))) if self.landed.exists() else 0

    def said(self, word: str) -> Any:
        found = re.search(rf"^{word} (.*)$", self.log.read_text(), re.MULTILINE)
        assert found, self.log.read_text()[-3000:]
        return json.loads(found[1])


@pytest.mark.spark
@pytest.mark.postgres
def test_the_example_lands_every_change_once_though_it_is_killed_and_shows_no_password(
    database18: Database, tmp_path: Path
) -> None:
    database18.execute(_TABLES)
    program = Program(tmp_path, database18)
    # Small batches, for ever, so that it dies with some of them done and some not.
    endless = _example("parquet").replace("    .load()", '    .option("maxChangesPerTrigger", "40").load()')
    running = program.start(endless.replace("    .trigger(availableNow=True)\n", ""))
    wait_until(lambda: program.batches() or running.poll() is not None, what="the snapshot", timeout_s=120)
    database18.execute(_LATER)
    database18.execute("update orders set status = 'paid' where id = 7; delete from orders where id = 8")
    wait_until(lambda: program.batches() > 2 or running.poll() is not None, what="batches", timeout_s=120)
    assert running.poll() is None, program.log.read_text()[-3000:]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    running = program.start(_example("parquet") + _example("newest") + _REPORT)
    assert running.wait(150) == 0, program.log.read_text()[-3000:]
    rows = program.said("REPORT")
    assert sorted(key for operation, key in rows if operation in ("read", "insert")) == sorted(
        f'{{"id":{number}}}' for number in range(1, 801)
    )
    assert sorted(row for row in rows if row[0] in ("update", "delete")) == [
        ["delete", '{"id":8}'],
        ["update", '{"id":7}'],
    ]
    newest = program.said("NEWEST")
    assert (len(newest), newest["7"], "8" in newest) == (799, "paid", False)
    left = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(b"SparkListenerJobStart" in content for content in left.values()), "the event log is empty"
    assert [path for path, content in left.items() if PASSWORD.encode() in content] == []
