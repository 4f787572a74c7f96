"""The commands as users call them: what they print, and how they end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from commands import Deployment
from fix_postgres import Database
from flusso.engine.events import SeedFinished
from flusso.engine.session import Session
from flusso.errors import SlotAdvanced, SlotLost, SourceWentBack
from market import create_market, expected_documents, parse_document
from pipelines import assert_exact, confirmed_lsn, market_spec, run_once, sqlite_sink
from sizes import SIZES
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def _without_java(folder: Path) -> dict[str, str]:
    """The commands of this machine, all but its Java."""
    folder.mkdir()
    for command in {
        command.name: command
        for place in os.environ["PATH"].split(os.pathsep)
        if Path(place).is_dir()
        for command in Path(place).iterdir()
        if command.name != "java"
    }.values():
        (folder / command.name).symlink_to(command)
    return {"PATH": str(folder)}


def test_run_once_without_a_sink_or_a_java_prints_every_document_as_a_line(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=30)
    deployment = Deployment(tmp_path, database18, sink="\n")
    deployment.env |= _without_java(tmp_path / "bin")
    deployment.env.pop("JAVA_HOME", None)
    assert shutil.which("java", path=deployment.env["PATH"]) is None
    done = deployment.call("run", "--once")
    assert done.returncode == 0, done.stderr
    lines = [parse_document(line.encode()) for line in done.stdout.splitlines()]
    assert {line["id"]: line["document"] for line in lines} == expected_documents(database18)
    assert "caught up" in done.stderr


def test_a_reader_that_has_had_enough_ends_the_run_quietly(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=2000)
    deployment = Deployment(tmp_path, database18, sink="\n")
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*deployment.command, "run"],
            cwd=tmp_path,
            env=deployment.env,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["op"] == "index"
        process.stdout.close()
        try:
            assert process.wait(SIZES.patience_s) == 0, log.read_text()
        finally:
            process.kill()
    said = log.read_text()
    assert "stdout is closed" not in said
    assert "Traceback" not in said
    wait_until(deployment.is_slot_free, what="the slot to be free")


def test_status_search_and_check_tell_what_run_did(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=30)
    deployment = Deployment(tmp_path, database18)
    assert json.loads(deployment.call("status", "--format", "json").stdout)["slot"]["exists"] is False
    run_once(market_spec(database18, sqlite_sink(tmp_path)), spark_session)
    status = json.loads(deployment.call("status", "--format", "json").stdout)
    assert status["slot"]["active_pid"] is None
    (index,) = status["indexes"]
    assert (index["state"], index["documents"], index["quarantined"]) == ("following", 30, 0)
    hits = json.loads(deployment.call("search", "users", "user7", "--limit", "1", "--format", "json").stdout)
    assert hits[0]["id"] == "7"
    assert deployment.call("search", "nobody", "x").returncode == 2
    assert deployment.call("check").returncode == 0


def test_check_names_what_is_wrong_and_ends_with_1(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=3)
    database18.execute("alter table orders replica identity default; drop table tags")
    deployment = Deployment(tmp_path, database18)
    done = deployment.call("check", "--format", "json")
    assert done.returncode == 1
    assert any(
        found["code"] == "missing-table" and "tags" in found["message"]
        for found in json.loads(done.stdout)["findings"]
    )
    assert deployment.call("check", "--offline").returncode == 0
    assert deployment.call("run", "--once").returncode == 2


def test_check_names_blind_relations_with_the_sql_that_mends_them(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=3)
    database18.execute("alter table orders replica identity default")
    deployment = Deployment(tmp_path, database18, source='replica_identity = "check"')
    found = json.loads(deployment.call("check", "--format", "json").stdout)["findings"]
    hints = [finding["hint"] for finding in found if finding["code"] == "blind-relation"]
    assert hints
    for hint in set(hints):
        database18.execute(hint)
    found = json.loads(deployment.call("check", "--format", "json").stdout)["findings"]
    assert "blind-relation" not in {finding["code"] for finding in found}


def test_a_mistake_in_a_schema_file_is_named_by_file_line_and_key(
    database18: Database, tmp_path: Path
) -> None:
    deployment = Deployment(tmp_path, database18)
    schema = tmp_path / "users.schema.yml"
    schema.write_text(schema.read_text().replace("  - keyword: email", "  - keywrod: email"))
    done = deployment.call("run", "--once")
    assert done.returncode == 2
    line = schema.read_text().splitlines().index("  - keywrod: email") + 1
    assert f"users.schema.yml:{line}:" in done.stderr
    assert "keyword" in done.stderr


def test_a_dropped_slot_is_noticed_and_reindex_mends_it(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=30)
    deployment = Deployment(tmp_path, database18)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    database18.execute("select pg_drop_replication_slot(%s)", spec.slot)
    database18.execute("delete from users where id = 3")
    with pytest.raises(SlotLost, match="reindex"):
        run_once(spec, spark_session)
    assert deployment.call("reindex", "users").returncode == 0
    run_once(spec, spark_session)
    assert_exact(database18, spec)


def test_a_slot_that_someone_moved_is_noticed(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=30)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    database18.execute("update users set name = 'missed' where id = 3")
    database18.execute("select pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", spec.slot)
    with pytest.raises(SlotAdvanced, match="reindex"):
        run_once(spec, spark_session)


def test_a_database_that_went_back_in_time_is_noticed(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=5)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    sink = sqlite_sink(tmp_path).open()
    state = sink.load_states().serving("users")
    assert state is not None
    sink.save_state(replace(state, highest_version=state.highest_version + 2**40))
    sink.close()
    with pytest.raises(SourceWentBack):
        run_once(spec, spark_session)


def test_a_second_run_seeds_nothing_again(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=30)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    before = confirmed_lsn(database18, spec.slot)
    events = run_once(spec, spark_session)
    assert not [event for event in events if isinstance(event, SeedFinished)]
    assert confirmed_lsn(database18, spec.slot) >= before


def test_an_error_before_the_first_batch_leaves_no_slot_behind(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=5)
    database18.execute("drop table tags")
    assert Deployment(tmp_path, database18).call("run", "--once").returncode == 2
    assert database18.execute("select * from pg_replication_slots where database = current_database()") == []
