"""A seed of a real pipeline: killed and gone on with, and what the slot holds back meanwhile."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.engine.events import SeedFinished, SeedStarted
from flusso.engine.session import Session
from flusso.engine.spec import BatchSpec, IndexSpec
from flusso.schema.parse import parse_schema
from market import create_market
from pipelines import Run, assert_exact, market_spec, run_once, sqlite_sink, stored_bodies
from sizes import SIZES
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

USERS = 4000
DRIVE = Path(__file__).parent / "drive.py"
ONE_BLOCK = str(8192 / 1024 / 1024)
FEW_RANGES = "4"
"""In a turn, so that something is left when it is killed."""


def test_a_seed_killed_at_sixty_per_cent_goes_on_there_with_what_changed_meanwhile(
    database18: Database, spark_session: Session, tmp_path: Path
) -> None:
    create_market(database18, users=USERS)
    spec = market_spec(database18, FaultySpec(sqlite_sink(tmp_path), str(tmp_path)))
    (tmp_path / "kill-at").write_text("0.6")
    killed = subprocess.run(
        [sys.executable, DRIVE, database18.dsn.text, spec.slot, tmp_path, ONE_BLOCK, FEW_RANGES],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(DRIVE.parent.parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert killed.returncode == -9, killed.stderr
    written = len((tmp_path / "writes").read_text().split())
    ((blocks,),) = database18.execute(
        "select sum(pg_relation_size(relid)) / 8192 from pg_partition_tree('users')"
    )
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
    assert 0.6 * float(str(blocks)) <= started.seeding.done < started.seeding.blocks
    assert 0.6 * USERS < written < USERS
    assert_exact(database18, spec)


NARROW = "version: 1\ntable: things\nfields:\n  - long: id\n  - keyword: name\n"
HELD_BACK = """
select confirmed_flush_lsn, pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint,
  pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, pg_current_wal_lsn() - '0/0'::pg_lsn
from pg_replication_slots where slot_name = %s
"""


@pytest.mark.sized
def test_the_slot_moves_on_while_a_seed_runs_beside_a_writer(
    database18: Database,
    spark_session: Session,
    tmp_path: Path,
    figure: Callable[[str, str], None],
) -> None:
    database18.execute("create table things (id bigint primary key, name text not null)")
    database18.execute(
        "insert into things select n, 'thing ' || n from generate_series(1, %s::int) as n", SIZES.seed_rows
    )
    schema = parse_schema(NARROW, file="things.schema.yml")
    sink = sqlite_sink(tmp_path)
    batch = BatchSpec(seed_range_mb=0.05, confirm_after_s=0.1, tick_s=0.3)
    spec = market_spec(database18, sink, indexes=(IndexSpec("things", schema, (sink,)),), batch=batch)
    seen: list[tuple[object, ...]] = []
    done = threading.Event()
    writer = threading.Thread(target=_change_without_pause, args=(database18, done), daemon=True)
    with Run(spec, spark_session) as run:
        run.wait(lambda: run.of(SeedStarted), what="the start of the seed")
        writer.start()
        try:

            def look() -> bool:
                seen.extend(database18.execute(HELD_BACK, spec.slot))
                return bool(run.of(SeedFinished))

            run.wait(look, what="the seed")
        finally:
            done.set()
            writer.join()
        run.wait_confirmed(database18)
    (changed,) = database18.execute("select count(*) from things where name like 'changed%'")
    bodies = stored_bodies(spec, "things").values()
    assert len(bodies) == SIZES.seed_rows
    assert sum(b"changed" in body for body in bodies) == changed[0] > 0
    confirmed = {row[0] for row in seen}
    unconfirmed, retained, ends = ([int(str(row[at])) for row in seen] for at in (1, 2, 3))
    assert len(confirmed) > 2, "the slot stood still"
    written = max(ends) - min(ends)
    figure(
        f"WAL held back by the slot, seed of {SIZES.seed_rows:,} rows beside a writer",
        f"{max(retained) / 1e6:.0f} MB at most ({max(unconfirmed) / 1e6:.1f} MB not confirmed), "
        f"{written / 1e6:.0f} MB written meanwhile",
    )
    assert max(unconfirmed) < max(8_000_000, written / 4)


def _change_without_pause(database: Database, done: threading.Event) -> None:
    with psycopg.connect(database.dsn.text, autocommit=True) as conn:
        for number in itertools.count(1):
            if done.is_set():
                return
            key = 1 + (number * 7919) % SIZES.seed_rows
            conn.execute("update things set name = %s where id = %s", (f"changed {number}", key))
