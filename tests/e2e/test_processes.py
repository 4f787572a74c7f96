"""Signals and murders: whatever ends, nothing is lost and nobody keeps the slot.

The deaths of source worker and Python workers are in test_large.py, in the middle of a transaction.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Deployment, Running, assert_gone
from fix_postgres import Database
from flusso.engine.session import Session
from market import create_market
from pipelines import assert_exact, market_spec, run_once, sqlite_sink
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture
def deployment(database18: Database, tmp_path: Path) -> Deployment:
    create_market(database18, users=100)
    return Deployment(tmp_path, database18)


@pytest.fixture
def running(deployment: Deployment) -> Iterator[Running]:
    with deployment.start("run") as running:
        running.wait_for("seed finished")
        yield running


def _change_and_wait(running: Running, name: str) -> None:
    before = running.log().count("batch written")
    running.deployment.database.execute(f"update users set name = '{name}' where id = 1")
    running.wait_for("batch written", count=before + 1)


def _assert_exact_after_restart(deployment: Deployment, session: Session) -> None:
    """A new start finds all that happened since."""
    wait_until(deployment.is_slot_free, what="the slot to be free")
    spec = market_spec(deployment.database, sqlite_sink(deployment.folder))
    run_once(spec, session)
    assert_exact(deployment.database, spec)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["sigint", "sigterm"])
def test_a_signal_to_the_group_ends_in_order_with_code_0(running: Running, number: signal.Signals) -> None:
    _change_and_wait(running, "last words")
    family = running.family()
    running.signal_group(number)
    assert running.wait_end() == 0, running.log()
    assert "stopped lsn=" in running.log()
    assert_gone(family)
    assert running.deployment.is_slot_free()
    spec = market_spec(running.deployment.database, sqlite_sink(running.deployment.folder))
    assert_exact(running.deployment.database, spec)


def test_a_signal_while_spark_starts_ends_in_order_before_anything_is_followed(
    deployment: Deployment,
) -> None:
    with deployment.start("run") as running:
        running.find("org.apache.spark.deploy.SparkSubmit")
        family = running.family()
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.wait_end() == 0, running.log()
        assert "following" not in running.log()
    assert_gone(family)
    found = "select from pg_replication_slots where slot_name = %s"
    assert not deployment.database.execute(found, deployment.slot), "a slot that nobody reads holds WAL back"


def test_a_signal_while_seeding_ends_in_order_and_the_next_start_seeds(
    database18: Database, tmp_path: Path, spark_session: Session
) -> None:
    create_market(database18, users=100)
    deployment = Deployment(tmp_path, database18)
    with deployment.start("run") as running:
        running.wait_for("seed started")
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.wait_end() == 0, running.log()
    _assert_exact_after_restart(deployment, spark_session)


def test_a_second_signal_exits_at_once_and_leaves_nothing(running: Running, spark_session: Session) -> None:
    family = running.family()
    running.deployment.database.execute("update users set name = 'whatever'")

    def insist() -> bool:  # two signals at one moment may be delivered as one
        running.process.send_signal(signal.SIGINT)
        return running.process.poll() is not None

    wait_until(insist, what="the end")
    assert running.wait_end() == 130
    assert_gone(family)
    _assert_exact_after_restart(running.deployment, spark_session)


def test_killing_the_driver_leaves_no_orphan_and_loses_nothing(
    running: Running, spark_session: Session
) -> None:
    family = running.family()
    running.deployment.database.execute("update users set name = 'unseen' where id < 50")
    os.kill(running.process.pid, signal.SIGKILL)
    running.wait_end()
    assert_gone(family)
    _assert_exact_after_restart(running.deployment, spark_session)


def test_killing_the_jvm_exits_with_code_6_and_loses_nothing(
    running: Running, spark_session: Session
) -> None:
    family = running.family()
    os.kill(running.find("org.apache.spark.deploy.SparkSubmit"), signal.SIGKILL)
    running.deployment.database.execute("update users set name = 'unseen' where id < 50")
    assert running.wait_end() == 6, running.log()
    assert_gone(family)
    _assert_exact_after_restart(running.deployment, spark_session)
