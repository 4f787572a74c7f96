"""A sink that is away, at the start or later: flusso waits and says so, the WAL stays, and all arrives."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from fix_postgres import Database
from flusso.engine.events import Recovered, Retrying
from flusso.engine.session import Session
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import Run, assert_exact, confirmed_lsn, current_lsn, market_spec
from proxy import proxied

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.opensearch]


def test_a_search_server_that_is_away_at_the_start_and_later_is_waited_for(
    database18: Database, spark_session: Session, search_sink: OpenSearchSpec
) -> None:
    create_market(database18, users=20)
    with proxied(urlsplit(search_sink.urls[0]).port or 0) as proxy:
        proxy.refuse()
        sink = replace(search_sink, urls=(f"http://127.0.0.1:{proxy.port}",), max_retries=1)
        spec = market_spec(database18, sink)
        with Run(spec, spark_session) as run:
            run.wait(lambda: run.of(Retrying), what="word of the sink that is away")
            assert 'sink "search" is not reachable' in run.of(Retrying)[0].error
            proxy.accept()
            run.wait_seeded()
            run.wait_confirmed(database18)
            proxy.refuse()
            known = len(run.of(Retrying))
            before = current_lsn(database18)
            database18.execute("update users set name = 'later'")
            run.wait(lambda: len(run.of(Retrying)) > known + 1, what="the outage to last")
            assert confirmed_lsn(database18, spec.slot) <= before
            proxy.accept()
            run.wait(lambda: len(run.of(Recovered)) >= 2, what="the recovery")
            run.wait_exact(database18)
        assert_exact(database18, spec)
