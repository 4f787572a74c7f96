"""A process that is paused in the middle of its work, replaced, and wakes up when all has moved on.

The paused one is a `flusso run` of its own, with its search server behind a proxy that holds two of its
requests: one of a seed, one of a live batch. The one that takes over runs in this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from commands import Deployment, Running
from fix_postgres import Database
from flusso.engine.events import ReadersMoved
from flusso.engine.session import Session
from flusso.sinks.base import Request
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.search.server import Server
from market import create_market
from pipelines import Run, assert_exact, is_free, market_spec
from search_proxy import Asked, Given, Holding, SearchProxy, proxied_search
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.opensearch]


def is_of_seed(asked: Asked) -> bool:
    """Whether it is a range of the second generation's seed, with a row that nobody touches before."""
    return asked.is_bulk and "_2_WRITER" in asked.path and any(b'"_id":"90"' in line for line in asked.lines)


def is_of_batch(asked: Asked) -> bool:
    """Whether it is a live batch that has the name which is given while the process still runs."""
    return asked.is_bulk and any(b"outlived" in line for line in asked.lines)


def item_statuses(given: Given) -> set[int]:
    """What the server said to each item of a bulk request."""
    return {found["status"] for item in json.loads(given.body)["items"] for found in item.values()}


def signal_all(running: Running, number: signal.Signals) -> None:
    """Signal a process and all that it started, its workers' groups included."""
    for pid in (running.process.pid, *running.family()):
        os.kill(pid, number)


def started(database: Database, proxy: SearchProxy, sink: OpenSearchSpec, folder: Path) -> Running:
    """Start the process that is paused later, behind the proxy."""
    toml = f'[sinks.search]\ntype = "opensearch"\nurl = "{proxy.url}"\nnumber_of_replicas = 0\n'
    deployment = Deployment(folder, database, sink=toml)
    deployment.env["FLUSSO_INDEX_PREFIX"] = sink.prefix
    return deployment.start("run")


def take_slot_away(database: Database, slot: str) -> None:
    """Do what the server does by itself after wal_sender_timeout."""
    database.execute(
        "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s", slot
    )
    wait_until(lambda: is_free(database, slot), what="the slot to be free")


def forget_removals(sink: OpenSearchSpec) -> None:
    """Make the server forget the versions of what was removed, as it does after gc_deletes or a restart."""
    for step in ("_close", "_open"):
        ask(sink, "POST", f"/{sink.prefix}users/{step}", wait_for_active_shards="1")


def ask(sink: OpenSearchSpec, method: str, path: str, **params: str) -> Any:
    with contextlib.closing(Server(sink.client(), "search", 3)) as server:
        return server.request(method, path, params=params).json


def test_a_process_paused_in_a_seed_and_a_batch_does_no_harm_when_it_wakes_up_after_another_took_over(
    database18: Database, spark_session: Session, search_sink: OpenSearchSpec, tmp_path: Path
) -> None:
    create_market(database18, users=100)
    holding = Holding(is_of_seed, is_of_batch)
    with (
        proxied_search(search_sink.urls[0]) as proxy,
        started(database18, proxy, search_sink, tmp_path) as old,
    ):
        old.wait_for("readers moved")
        proxy.rule = holding
        with contextlib.closing(search_sink.open()) as sink:
            sink.ask("users", Request.REINDEX)
        wait_until(lambda: holding.held, what="the seed of the second generation")
        database18.execute("update users set name = 'outlived' where id in (7, 8)")
        wait_until(holding.has_all, what="a live batch")
        signal_all(old, signal.SIGSTOP)
        take_slot_away(database18, old.deployment.slot)
        database18.execute("delete from users where id in (7, 90)")
        database18.execute("update users set name = 'newer' where id in (8, 91)")
        spec = market_spec(database18, search_sink)
        with Run(spec, spark_session) as new:
            new.wait_seeded()
            new.wait_exact(database18)
            forget_removals(search_sink)
            holding.let_go()
            signal_all(old, signal.SIGCONT)
            assert old.wait_end() == 4, old.log()
            database18.execute("update users set name = 'newest' where id in (8, 92)")
            new.wait_exact(database18)
        assert "a later start of flusso writes index" in old.log()
    assert min(set().union(*map(item_statuses, holding.answers))) >= 400, "what came late was taken"
    assert_exact(database18, spec)
    assert [moved.generation for moved in new.of(ReadersMoved)] == [2]
    found = ask(search_sink, "GET", f"/{search_sink.prefix}users*/_alias")
    assert [name for name in found if search_sink.prefix + "users" in found[name]["aliases"]] == list(found)
    assert len(found) == 1, "a generation came back"
