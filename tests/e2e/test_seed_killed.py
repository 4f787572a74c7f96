"""A process that is killed in the middle of a seed, and the next one, which goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine.events import SeedStarted
from flusso.engine.session import Session
from market import create_market
from pipelines import assert_exact, market_spec, run_once, sqlite_sink
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

USERS = 4000
DRIVE = Path(__file__).parent / "drive.py"
ONE_BLOCK = str(8192 / 1024 / 1024)


def test_a_seed_killed_at_sixty_per_cent_goes_on_there_with_what_changed_meanwhile(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=USERS)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    (tmp_path / "kill-at").write_text("0.6")
    killed = subprocess.run(
        [sys.executable, DRIVE, database18.dsn.text, spec.slot, tmp_path, ONE_BLOCK],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(DRIVE.parent.parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert killed.returncode == -9, killed.stderr
    written = len((tmp_path / "writes").read_text().split())
    # Rows that are gone, new ones, and old ones that move into blocks that are written already.
    database18.execute(
        """
        delete from users where id % 10 = 0;
        update users set name = repeat('long ', 40) where id % 7 = 0;
        insert into users select n, 'new', 'new@x' from generate_series(100001, 100050) as n
        """
    )
    active = "select active_pid is null from pg_replication_slots where slot_name = %s"
    wait_until(lambda: database18.execute(active, spec.slot) == [(True,)], what="the orphans to let go")
    events = run_once(spec, spark_session)
    (started,) = (event for event in events if isinstance(event, SeedStarted))
    assert 0.6 <= started.seeding.share < 1
    assert 0.6 * USERS < written < USERS
    assert_exact(database18, spec)
