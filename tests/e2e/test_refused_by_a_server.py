"""Documents that a real search server refuses, through the whole pipeline: stop, or skip and go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fix_postgres import Database
from flusso.document import Refusal
from flusso.engine.session import Session
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import DocumentRefused
from flusso.schema.parse import parse_schema
from flusso.sinks.search.opensearch import OpenSearchSpec
from pipelines import Run, confirmed_lsn, current_lsn, market_spec, run_once, stored_bodies

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.opensearch]

# The column is text, and the index takes an address there and nothing else.
SCHEMA = """
version: 1
table: hosts
fields:
  - custom: address
    postgres: [text]
    opensearch: ip
"""


@pytest.fixture
def spec(database18: Database, search_sink: OpenSearchSpec) -> PipelineSpec:
    database18.execute("create table hosts (id int primary key, address text)")
    database18.execute("insert into hosts select n, '10.0.0.' || n from generate_series(1, 9) as n")
    index = IndexSpec("hosts", parse_schema(SCHEMA, file="hosts.schema.yml"), (search_sink,))
    return market_spec(database18, search_sink, indexes=(index,))


def quarantined(spec: PipelineSpec) -> Sequence[Refusal]:
    sink = spec.indexes[0].sinks[0].open()
    try:
        return sink.quarantined("hosts")
    finally:
        sink.close()


def test_with_the_policy_to_stop_it_ends_with_code_5_the_ids_and_nothing_confirmed(
    database18: Database, spark_session: Session, spec: PipelineSpec
) -> None:
    run_once(spec, spark_session)
    before = current_lsn(database18)
    database18.execute("update hosts set address = 'nowhere' where id = 7")
    database18.execute("update hosts set address = '10.1.1.1' where id = 8")
    with pytest.raises(DocumentRefused, match=r"hosts/7 \(.*field address") as raised:
        run_once(spec, spark_session)
    assert (raised.value.exit_code, "nowhere" in str(raised.value)) == (5, False)
    assert confirmed_lsn(database18, spec.slot) <= before
    assert quarantined(spec) == []


def test_with_the_policy_to_skip_it_waits_in_the_quarantine_until_a_good_version_comes(
    database18: Database, spark_session: Session, spec: PipelineSpec
) -> None:
    spec = replace(spec, indexes=(replace(spec.indexes[0], skips_refused=True),))
    database18.execute("update hosts set address = 'nowhere' where id = 3")
    with Run(spec, spark_session) as run:
        run.wait_seeded()
        database18.execute("update hosts set address = 'anywhere' where id = 7")
        database18.execute("update hosts set address = '10.1.1.1' where id = 8")
        run.wait_confirmed(database18)
        found = {each.id: each.reason for each in quarantined(spec)}
        assert found == dict.fromkeys(("3", "7"), "mapper_parsing_exception (field address)")
        assert b"10.1.1.1" in stored_bodies(spec, "hosts")["8"]
        database18.execute("update hosts set address = '10.3.3.3' where id = 3")
        run.wait_confirmed(database18)
        assert [each.id for each in quarantined(spec)] == ["7"]
    assert b"10.3.3.3" in stored_bodies(spec, "hosts")["3"]
