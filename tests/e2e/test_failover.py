"""A standby takes over: it is followed, what it never had leaves the index, and the old server is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fix_standby import Pair
from flusso.engine.events import DebtPaid
from flusso.engine.provision import Prepared, prepare
from flusso.engine.session import Session
from flusso.engine.spec import PipelineSpec
from flusso.errors import SlotMissing, TimelineBehind
from flusso.postgres.connect import Dsn
from market import create_market
from pipelines import Run, assert_exact, market_spec, publish_seeded, sqlite_sink, stored_bodies

pytestmark = pytest.mark.postgres


@pytest.mark.spark
def test_a_promoted_standby_is_followed_and_what_it_never_had_leaves_the_index(
    pair_of: Callable[[int], Pair], spark_session: Session, tmp_path: Path
) -> None:
    pair = pair_of(18)
    create_market(pair.old, users=20)
    spec = market_spec(pair.old, sqlite_sink(tmp_path), dsn=pair.dsn, is_failover=True)
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        run.wait(lambda: _has_copy(pair, spec.slot), what="the standby to copy the slot")
        pair.old.execute("update users set name = 'on both' where id = 1")
        pair.wait_replayed()
        # Without `synchronized_standby_slots` the stream may be ahead of the standby, as it is from here on.
        pair.cut()
        pair.old.execute(
            "insert into users values (777, 'never received'); delete from users where id = 5;"
            "update users set name = 'never received' where id = 6"
        )
        run.wait(lambda: "777" in stored_bodies(spec), what="the row to be indexed")
        pair.fail_over()
        pair.new.execute("insert into users values (888, 'of the new primary')")
        run.wait(lambda: run.of(DebtPaid), what="the repair")
        run.wait(lambda: "888" in stored_bodies(spec), what="the new primary to be followed")
    assert "777" not in stored_bodies(spec)
    assert_exact(pair.new, spec)


def test_before_17_the_slot_is_missing_after_a_failover_and_the_old_server_is_refused(
    pair_of: Callable[[int], Pair], tmp_path: Path
) -> None:
    pair = pair_of(16)
    create_market(pair.old, users=3)
    spec = market_spec(pair.old, sqlite_sink(tmp_path), dsn=pair.dsn)
    publish_seeded(_prepare(spec).ledger, "users")
    pair.wait_replayed()
    pair.fail_over()
    with pytest.raises(SlotMissing, match="which is gone"):
        _prepare(spec)
    assert _prepare(replace(spec, reseeds=True)).ledger.unseeded() == ["users"]
    pair.primary.start()
    with pytest.raises(TimelineBehind, match="took over"):
        _prepare(replace(spec, dsn=Dsn(pair.primary.dsn()), reseeds=True))


def _prepare(spec: PipelineSpec) -> Prepared:
    prepared = prepare(spec, lambda event: None, threading.Event())
    assert prepared is not None
    return prepared


def _has_copy(pair: Pair, slot: str) -> bool:
    """Copy the slot as `sync_replication_slots` does, which sleeps for up to half a minute in between."""
    pair.old.execute("select pg_log_standby_snapshot()")  # a copy stays once the standby is that far
    pair.new.execute("select pg_sync_replication_slots()")
    return bool(
        pair.new.execute(
            "select 1 from pg_replication_slots where slot_name = %s and synced and not temporary", slot
        )
    )
