"""Readers through `flusso rollback` of a running process: what they go back to is exact."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import pytest
from test_reindex import Reader, beside, read_opensearch, write

from commands import Deployment
from fix_postgres import Database
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import assert_exact, confirmed_lsn, current_lsn, market_spec
from sizes import SIZES
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.opensearch]
_USERS = 1500


def deploy(folder: Path, database: Database, sink: OpenSearchSpec) -> Deployment:
    text = f'[sinks.{sink.name}]\ntype = "opensearch"\nurl = "{sink.urls[0]}"\nnumber_of_replicas = 0\n'
    deployment = Deployment(folder, database, sink=text, extra="keep_generations = 1\n")
    deployment.env["FLUSSO_INDEX_PREFIX"] = sink.prefix
    return deployment


def read_generation(spec: OpenSearchSpec) -> int:
    """Give the number of what the alias shows, 0 before there is any."""
    with contextlib.closing(spec.open()) as sink:
        return next((held.generation for held in sink.held() if held.is_read), 0)


def await_readers(spec: OpenSearchSpec, generation: int) -> None:
    what = f"readers to see generation {generation}"
    wait_until(lambda: read_generation(spec) == generation, what=what, timeout_s=SIZES.patience_s)


def test_no_reader_sees_anything_go_back_when_a_running_flusso_is_asked_for_a_rollback(
    database18: Database, search_sink: OpenSearchSpec, tmp_path: Path
) -> None:
    create_market(database18, users=_USERS)
    deployment = deploy(tmp_path, database18, search_sink)
    reader = Reader(read_opensearch(search_sink))
    with deployment.start("run") as running:
        await_readers(search_sink, 1)
        assert deployment.call("reindex", "users").returncode == 0
        await_readers(search_sink, 2)
        reader.last = reader.read()
        with beside(reader.run, lambda stop: write(database18, stop)):
            wait_until(lambda: reader.last.inserted, what="readers to see what comes")
            asked = deployment.call("rollback", "users")
            assert "readers go back to generation 1: the running flusso leads them now there" in asked.stdout
            await_readers(search_sink, 1)
            seen, known = reader.looks, reader.last.inserted
            wait_until(lambda: reader.looks > seen + 3, what="readers to look once more")
            assert reader.faults == []
            wait_until(lambda: reader.last.inserted > known, what="what comes after the rollback")
        end = current_lsn(database18)
        wait_until(lambda: confirmed_lsn(database18, deployment.slot) >= end, what="all to be confirmed")
        running.process.send_signal(signal.SIGTERM)
        assert running.wait_end() == 0, running.log()
    assert reader.faults == []
    assert_exact(database18, market_spec(database18, search_sink))
