"""What is large or long: an outage, a transaction. `make stress` runs the same at full size."""

import threading
from pathlib import Path

import psutil
import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine.events import Retrying
from flusso.engine.session import Session
from market import create_market
from pipelines import Run, assert_exact, market_spec, sqlite_sink
from sizes import SIZES

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.sized]

_USERS = 2_000
_SOURCE_WORKER_BYTES = 500 * 1024 * 1024


def test_a_sink_that_is_away_for_a_while_misses_nothing(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=50)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        run.wait_confirmed(database18)
        (tmp_path / "closed").touch()
        back = threading.Timer(SIZES.outage_s, (tmp_path / "closed").unlink)
        back.start()
        number = 0
        while back.is_alive():
            number += 1
            database18.execute(f"update users set name = 'round {number}' where id = {1 + number % 50}")
            back.join(0.1)
        assert run.of(Retrying), "nothing was tried while the sink was away"
        database18.execute("delete from users where id = 7")
        run.wait_confirmed(database18)
    assert_exact(database18, spec)


def test_one_transaction_of_many_changes_is_written_whole_in_bounded_memory(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=_USERS)
    spec = market_spec(database18, sqlite_sink(tmp_path))
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        database18.execute(
            f"""
            do $$ begin
              for round in 1 .. {SIZES.transaction_changes // _USERS} loop
                update users set name = 'round ' || round;
              end loop;
              delete from users where id % 10 = 0;
            end $$
            """
        )
        run.wait_confirmed(database18, timeout_s=SIZES.patience_s)
        assert _peak_of_source_worker(spark_session) < _SOURCE_WORKER_BYTES
    assert_exact(database18, spec)


def _peak_of_source_worker(session: Session) -> int:
    assert session.jvm is not None
    [worker] = [
        child
        for child in psutil.Process(session.jvm.pid).children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
        and "python_streaming_source_runner" in " ".join(child.cmdline())
    ]
    status = Path(f"/proc/{worker.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
