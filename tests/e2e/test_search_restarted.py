"""A real search server is restarted under a pipeline that fills a second generation and follows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from fix_postgres import Database
from flusso.engine.events import ReadersMoved, Recovered, Retrying
from flusso.engine.session import Session
from flusso.sinks.base import Request
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import Run, assert_exact, confirmed_lsn, current_lsn, market_spec
from search_proxy import Asked, Holding, proxied_search
from search_server import SearchServer
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.opensearch]


def seed_of(row: object) -> Callable[[Asked], bool]:
    """Make out the range of the second generation's seed that has a row which nobody changes."""
    head = f'{{"index":{{"_id":"{row}"'.encode()
    return lambda asked: (
        asked.is_bulk and "_2_WRITER" in asked.path and any(line.startswith(head) for line in asked.lines)
    )


def test_a_search_server_restarted_during_a_reindex_is_waited_for_and_forgets_no_removal(
    database18: Database, spark_session: Session, restarted_server: SearchServer
) -> None:
    create_market(database18, users=100)
    (unchanged,), (deleted,), (updated,) = database18.execute("select id from users_1 order by id limit 3")
    holding = Holding(seed_of(unchanged))
    with proxied_search(restarted_server.url) as proxy:
        sink = OpenSearchSpec("search", (proxy.url,), number_of_replicas=0, max_retries=1)
        spec = market_spec(database18, sink)
        with Run(spec, spark_session) as run:
            run.wait_seeded()
            proxy.rule = holding
            with contextlib.closing(sink.open()) as opened:
                opened.ask("users", Request.REINDEX)
            wait_until(holding.has_all, what="the seed of the second generation")
            database18.execute("delete from users where id = %s", deleted)
            database18.execute("update users set name = 'before' where id = %s", updated)
            run.wait_confirmed(database18)
            restarted_server.halt()
            before = current_lsn(database18)
            database18.execute("delete from users where id = 100")
            database18.execute("update users set name = 'meanwhile' where id in (98, 99)")
            run.wait(lambda: run.of(Retrying), what="word of the server that is away")
            assert confirmed_lsn(database18, spec.slot) <= before
            restarted_server.start()
            holding.let_go()
            run.wait(lambda: len(run.of(ReadersMoved)) == 2, what="the second generation")
            run.wait(lambda: run.of(Recovered), what="the word that it is over")
            database18.execute("update users set name = 'after' where id in (96, 97)")
            run.wait_exact(database18)
        assert_exact(database18, spec)
    assert 200 in {given.status for given in holding.answers}, "nothing came late"
