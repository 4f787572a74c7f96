"""What is large or long: an outage, a transaction. `make stress` runs the same at full size."""

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from commands import Deployment
from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine.events import BatchWritten, Retrying
from flusso.engine.session import Session
from flusso.engine.spec import BatchSpec
from market import create_market
from pipelines import Run, assert_exact, market_spec, run_once, sqlite_sink
from sizes import IS_FULL, SIZES
from waiting import wait_until
from workers import kill_python_workers, peak_bytes, source_worker

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.sized]

_STORMED_USERS = SIZES.transaction_users // 10
_IN_PARTS = BatchSpec(
    max_changes=min(10_000, SIZES.transaction_users // 2), confirm_after_s=0.1, tick_s=0.3, seed_range_mb=0.1
)
_ALL_ROUNDS = SIZES.transaction_changes // (2 * SIZES.transaction_users)
_ROUNDS = _ALL_ROUNDS // 5 if IS_FULL else 2
_SOURCE_WORKER_BYTES = 500 * 1024 * 1024
_GROWTH_BYTES = 60 * 1024 * 1024
_MOST_A_SECOND = 10_000.0


def test_a_sink_that_is_away_for_a_while_misses_nothing(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=50)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        run.wait_confirmed(database18)
        (tmp_path / "closed").touch()
        number, until_s = 0, time.monotonic() + SIZES.outage_s

        def is_over() -> bool:
            nonlocal number
            number += 1
            database18.execute(f"update users set name = 'round {number}' where id = {1 + number % 50}")
            return time.monotonic() >= until_s and bool(run.of(Retrying))

        run.wait(is_over, what="an attempt while the sink is away", timeout_s=SIZES.patience_s)
        (tmp_path / "closed").unlink()
        database18.execute("delete from users where id = 7")
        run.wait_confirmed(database18)
    assert_exact(database18, spec)


def test_one_transaction_of_many_changes_is_written_whole_in_bounded_memory(
    database18: Database, spark_session: Session, tmp_path: Path, figure: Callable[[str, str], None]
) -> None:
    create_market(database18, users=SIZES.transaction_users)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    with Run(spec, spark_session) as run:
        run.wait_seeded(SIZES.patience_s)
        _change_many(database18)
        began_s = time.monotonic()
        run.wait_confirmed(database18, timeout_s=SIZES.patience_s)
        seconds = time.monotonic() - began_s
        peak = peak_bytes(source_worker(spark_session, database18, spec.slot))
    figure(
        f"one transaction of {SIZES.transaction_changes:,} changes",
        f"source worker {peak / 1e6:.0f} MB at most, confirmed {seconds:.0f} s after the commit",
    )
    assert peak < _SOURCE_WORKER_BYTES
    assert_exact(database18, spec)


def test_the_rest_of_a_large_transaction_survives_the_death_of_its_processes(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=SIZES.transaction_users)
    spec = market_spec(database18, sqlite_sink(tmp_path), batch=_IN_PARTS)
    with Run(spec, spark_session) as run:
        run.wait_seeded(SIZES.patience_s)
        _change_many(database18, rounds=_ROUNDS)
        _wait_for_a_part(run)
        source_worker(spark_session, database18, spec.slot).kill()
        _wait_for_a_part(run)
        kill_python_workers(spark_session)
        run.wait_confirmed(database18, timeout_s=SIZES.patience_s)
        assert run.of(Retrying)
    assert_exact(database18, spec)


@pytest.mark.skipif(not IS_FULL, reason="test_processes.py kills a driver in the small")
def test_the_rest_of_a_large_transaction_survives_the_death_of_the_driver(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=SIZES.transaction_users)
    deployment = Deployment(tmp_path, database18, extra=f"[batch]\nmax_changes = {_IN_PARTS.max_changes}\n")
    with deployment.start("run") as running:
        running.wait_for("seed finished", timeout_s=SIZES.patience_s)
        _change_many(database18, rounds=_ROUNDS)
        running.wait_for("batch written", count=3, timeout_s=SIZES.patience_s)
        running.process.kill()
        running.wait_end()
    wait_until(deployment.is_slot_free, what="the slot to be free")
    spec = market_spec(database18, sqlite_sink(tmp_path))
    run_once(spec, spark_session)
    assert_exact(database18, spec)


def test_many_tiny_transactions_leave_no_lag_and_no_growth_of_memory(
    database18: Database, spark_session: Session, tmp_path: Path, figure: Callable[[str, str], None]
) -> None:
    create_market(database18, users=_STORMED_USERS)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        _storm(database18, SIZES.storm_s / 3)
        run.wait_confirmed(database18, timeout_s=SIZES.patience_s)
        worker = source_worker(spark_session, database18, spec.slot)
        before = peak_bytes(worker)
        count = _storm(database18, SIZES.storm_s)
        began_s = time.monotonic()
        run.wait_confirmed(database18, timeout_s=SIZES.patience_s)
        lag_s = time.monotonic() - began_s
        after = peak_bytes(worker)
    figure(
        f"tiny transactions for {SIZES.storm_s:.0f} s, {count / SIZES.storm_s:,.0f} a second",
        f"all confirmed {lag_s:.1f} s after the last, source worker {after / 1e6:.0f} MB at most, "
        f"{(after - before) / 1e6:.0f} MB of them after the first third",
    )
    assert after < before + _GROWTH_BYTES
    assert_exact(database18, spec)


def _change_many(database: Database, rounds: int = _ALL_ROUNDS) -> None:
    """Give every user an order and take it away, over and over in one transaction; remove some users.

    Each order is a new one: no change folds with another, and no round has to pass over the rows of the last.
    """
    users = SIZES.transaction_users
    database.execute(
        f"""
        do $$ begin
          for round in 1 .. {rounds} loop
            insert into orders select {users} * (9 + round) + i, i, 1 from generate_series(1, {users}) as i;
            delete from orders where id between {users} * (9 + round) + 1 and {users} * (10 + round);
          end loop;
          delete from users where id % 10 = 0;
        end $$
        """
    )


def _storm(database: Database, seconds: float) -> int:
    """Commit one row after the other, at most ten thousand a second; give how many there were."""
    with psycopg.connect(database.dsn.text, autocommit=True) as conn:
        conn.execute("set synchronous_commit = off")
        conn.execute(
            f"""
            do $$
            declare
              began timestamptz := clock_timestamp();
              number int := 0;
            begin
              while clock_timestamp() < began + interval '{seconds} s' loop
                number := number + 1;
                update users set name = 'storm ' || number where id = 1 + number % {_STORMED_USERS};
                commit;
                if number % 100 = 0 then
                  perform pg_sleep(number / {_MOST_A_SECOND} - extract(epoch from clock_timestamp() - began));
                end if;
              end loop;
            end $$
            """
        )
    [(count,)] = database.execute("select max(substr(name, 7)::int) from users where name like 'storm %'")
    assert isinstance(count, int)
    return count


def _wait_for_a_part(run: Run) -> None:
    """Wait until one more batch is written."""
    before = len(run.of(BatchWritten))
    run.wait(lambda: len(run.of(BatchWritten)) > before, what="a part of it", timeout_s=SIZES.patience_s)
