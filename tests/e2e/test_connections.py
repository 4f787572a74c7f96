"""All connections together stay within `source.max_connections`, and all are called flusso."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from fix_postgres import Database
from flusso.engine.limits import fewest_connections, limit_tasks, most_tasks
from flusso.engine.session import Session, SparkSpec
from market import create_market
from pipelines import Run, market_spec, sqlite_sink

ALLOWED = fewest_connections(has_replica=False)


@pytest.mark.spark
@pytest.mark.postgres
def test_a_seed_beside_the_stream_stays_within_the_allowed_connections(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=400)
    spark = SparkSpec("local[2]", max_tasks=most_tasks(ALLOWED, has_replica=False))
    spec = market_spec(database18, sqlite_sink(tmp_path), spark=spark)
    seen: set[tuple[str, int]] = set()
    enough = threading.Event()
    looking = threading.Thread(target=_look, args=(database18, seen, enough))
    looking.start()
    try:
        with Run(spec, spark_session) as run:
            run.wait_seeded()
            for number in range(4):  # workers change places from batch to batch
                database18.execute("update users set name = %s where id < 50", f"name {number}")
                run.wait_confirmed(database18)
    finally:
        enough.set()
        looking.join(10)
    assert {name for name, _ in seen} == {"flusso"}
    assert 4 <= max(count for _, count in seen) <= ALLOWED


def _look(database: Database, seen: set[tuple[str, int]], enough: threading.Event) -> None:
    """Count by application, walsenders too; what the test itself opens has no name."""
    with psycopg.connect(database.server.dsn(), autocommit=True) as conn:
        while not enough.wait(0.003):
            seen.update(
                conn.execute(
                    "select application_name, count(*) from pg_stat_activity where datname = %s "
                    "and application_name <> '' group by 1",
                    (database.name,),
                ).fetchall()
            )


def test_with_fewer_slots_than_tasks_spark_is_the_limit() -> None:
    limits = limit_tasks(slots=2, max_tasks=6)
    assert (limits.live, limits.seed, limits.keeps_connections) == (4, 1, True)


def test_connections_are_not_kept_where_there_are_more_workers_than_connections() -> None:
    assert not limit_tasks(slots=4, max_tasks=6).keeps_connections


@pytest.mark.parametrize("max_tasks", [2, 3, 7])
def test_on_a_large_cluster_stream_and_seed_share_the_tasks(max_tasks: int) -> None:
    limits = limit_tasks(slots=100, max_tasks=max_tasks)
    assert limits.live + limits.seed == max_tasks
    assert min(limits.live, limits.seed) >= 1


def test_a_task_beside_a_replica_takes_two_connections() -> None:
    assert most_tasks(10, has_replica=True) == 2
    assert fewest_connections(has_replica=True) == 9
