"""One pipeline lives through all of it: outages of its server, a stalled sink, and whatever the WAL can hold.

Each test finds the stage's pipeline following and leaves it so; the index is exact afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from commands import Deployment
from fix_stage import SENDER_TIMEOUT_S, Stage, own_database
from flusso.demo.server import EmbeddedServer
from flusso.engine.events import DebtFound, Recovered, Retrying
from market import fill_market
from pipelines import confirmed_lsn, current_lsn
from sizes import SIZES
from waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

_WALSENDER = "select active_pid from pg_replication_slots where slot_name = %s"


def test_a_server_that_is_not_up_yet_at_the_start_is_waited_for(stage: Stage) -> None:
    first = stage.run.events[0]
    assert isinstance(first, Retrying)
    assert "cannot connect" in first.error
    assert stage.run.of(Recovered)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarted_server_is_followed_again(stage: Stage, stage_server: EmbeddedServer, mode: str) -> None:
    since = len(stage.run.events)
    stage.change(f"before {mode}")
    stage_server.stop(mode)
    stage_server.start()
    stage.change(f"after {mode}")
    stage.assert_follows(since)
    if mode == "immediate":  # what was visible and not on disk yet may be gone
        stage.run.wait(lambda: _repairs(stage, since), what="the repair after a crash")
    assert bool(_repairs(stage, since)) == (mode == "immediate")


def _repairs(stage: Stage, since: int) -> list[DebtFound]:
    return [event for event in stage.run.events[since:] if isinstance(event, DebtFound)]


def test_a_killed_walsender_is_replaced(stage: Stage) -> None:
    since = len(stage.run.events)
    stage.change("before the kill")
    stage.database.execute(f"select pg_terminate_backend(({_WALSENDER}))", stage.spec.slot)
    stage.change("after the kill")
    stage.assert_follows(since)


def test_a_connection_cut_in_the_middle_of_a_message_loses_nothing(stage: Stage) -> None:
    since, cuts = len(stage.run.events), stage.proxy.cuts
    stage.proxy.cut_stream_after(60_000)
    stage.database.execute("update users set name = repeat('x', 40000) where id between 10 and 14")
    wait_until(lambda: stage.proxy.cuts > cuts, what="the cut")
    stage.change("after the cut")
    stage.assert_follows(since)


@pytest.mark.sized
def test_a_server_that_is_unreachable_for_a_while_is_caught_up_with(
    stage: Stage, figure: Callable[[str, str], None]
) -> None:
    since = len(stage.run.events)
    stage.proxy.refuse()
    stage.change("while it is away")
    stage.run.wait(lambda: _waiting(stage), what="the word in the sink's state")
    assert "waits since 20" in _shown_status(stage)
    back = threading.Timer(SIZES.outage_s, stage.proxy.accept)
    back.start()
    back.join()
    began_s = time.monotonic()
    stage.change("when it is back")
    stage.assert_follows(since)
    assert not _waiting(stage)
    told = [event for event in stage.run.events[since:] if isinstance(event, Retrying)]
    assert [event.attempt for event in told] == list(range(1, len(told) + 1))
    assert len({event.since for event in told}) == 1
    figure(
        f"server away for {SIZES.outage_s:.0f} s",
        f"exact {time.monotonic() - began_s:.1f} s after its return, {len(told)} attempts",
    )


def _waiting(stage: Stage) -> str:
    sink = stage.spec.indexes[0].sinks[0].open()
    try:
        state = sink.load_states().serving("users")
        return state.waiting_for if state is not None else ""
    finally:
        sink.close()


def _shown_status(stage: Stage) -> str:
    """What `flusso status` shows of it, with its code: that of a source that is away."""
    deployment = Deployment(stage.folder, stage.database)
    deployment.env |= {"DATABASE_URL": stage.spec.dsn.text}
    shown = deployment.call("status")
    assert shown.returncode == 3, shown.stderr
    return " ".join(shown.stdout.split())


@pytest.mark.sized
def test_a_sink_that_stalls_for_longer_than_the_sender_timeout_keeps_the_connection(stage: Stage) -> None:
    before = stage.database.execute(_WALSENDER, stage.spec.slot)
    stalled = stage.folder / "stalled"
    stalled.touch()
    stage.change("while the sink stalls")
    end = threading.Timer(max(SIZES.outage_s, 2.5 * SENDER_TIMEOUT_S), stalled.unlink)
    end.start()
    end.join()
    stage.settle()
    assert stage.database.execute(_WALSENDER, stage.spec.slot) == before != [(None,)]


def _in_pieces(stage: Stage, *statements: str) -> None:
    """Run statements one by one, outside a transaction."""
    with psycopg.connect(stage.database.dsn.text, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)


def test_only_savepoints_that_were_kept_count(stage: Stage) -> None:
    stage.database.execute(
        """
        do $$ begin
          for number in 1 .. 500 loop
            begin
              update users set name = 'savepoint ' || number where id = 2 + number % 40;
              insert into orders values (80000 + number, 2 + number % 40, number);
              if number % 3 = 0 then
                raise exception 'rolled back';
              end if;
            exception when raise_exception then null;
            end;
          end loop;
        end $$
        """
    )
    stage.settle()


def test_a_transaction_in_two_phases_counts_when_it_is_committed(stage: Stage) -> None:
    _in_pieces(
        stage,
        "begin",
        "update users set name = 'prepared' where id = 3",
        "prepare transaction 'kept'",
        "begin",
        "update users set name = 'never' where id = 4",
        "prepare transaction 'dropped'",
    )
    stage.database.execute("update users set name = 'meanwhile' where id = 5")
    stage.settle()
    _in_pieces(stage, "commit prepared 'kept'", "rollback prepared 'dropped'")
    stage.settle()


def test_messages_of_others_in_the_wal_are_passed_over(stage: Stage) -> None:
    _in_pieces(
        stage,
        "select pg_logical_emit_message(false, 'others', 'outside of any transaction')",
        "begin",
        "update users set name = 'with a message' where id = 6",
        "select pg_logical_emit_message(true, 'others', repeat('x', 3000000))",
        "select pg_logical_emit_message(true, 'flusso', 'not ours')",
        "update users set name = 'after the message' where id = 7",
        "commit",
    )
    stage.settle()


def test_changes_that_came_from_another_origin_count_as_well(stage: Stage) -> None:
    _in_pieces(
        stage,
        "select pg_replication_origin_create('elsewhere')",
        "select pg_replication_origin_session_setup('elsewhere')",
        "begin",
        "select pg_replication_origin_xact_setup('0/ABC', now())",
        "update users set name = 'replicated' where id = 8",
        "commit",
        "select pg_replication_origin_session_reset()",
        "select pg_replication_origin_drop('elsewhere')",
    )
    stage.settle()


def test_a_truncate_among_changes_of_the_same_transaction_counts_in_its_place(stage: Stage) -> None:
    _in_pieces(
        stage,
        "begin",
        "insert into user_tags values (9, 9) on conflict do nothing",
        "truncate user_tags",
        "insert into user_tags values (10, 3), (11, 4)",
        "truncate items, tags cascade",
        "insert into tags select i, 'tag ' || i from generate_series(1, 10) as i",
        "commit",
    )
    stage.settle()
    stage.database.execute(
        "insert into items select i, 1 + i % 150, 1 + i % 20, 1 from generate_series(1, 300) as i"
    )
    stage.settle()


def test_truncating_everything_with_cascade_empties_the_index(stage: Stage) -> None:
    stage.database.execute(
        "truncate users, orders, items; truncate categories cascade; truncate tags, user_tags"
    )
    stage.settle()
    fill_market(stage.database, users=50)
    stage.settle()


def test_the_slot_moves_on_when_all_traffic_is_elsewhere(stage: Stage, stage_server: EmbeddedServer) -> None:
    slot = stage.spec.slot
    restart = "select restart_lsn from pg_replication_slots where slot_name = %s"
    stage.run.wait_confirmed(stage.database)
    before = stage.database.execute(restart, slot)
    stage.database.execute("create table if not exists unwatched (id bigserial primary key, text text)")
    with own_database(stage_server) as other:
        other.execute("create table t as select n, repeat('x', 500) from generate_series(1, 20000) as n")
        stage.database.execute("insert into unwatched (text) select 'x' from generate_series(1, 5000)")
        target = current_lsn(stage.database)
        stage.run.wait(lambda: confirmed_lsn(stage.database, slot) >= target, what="the slot to move on")

        def has_moved() -> bool:
            # What a busy server does by itself every 15 seconds.
            stage.database.execute("select pg_log_standby_snapshot()")
            return stage.database.execute(f"select ({restart}) > %s", slot, before[0][0]) == [(True,)]

        stage.run.wait(has_moved, what="restart_lsn to move on")
