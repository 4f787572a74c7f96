"""Verifying an index in OpenSearch: planted differences, documents that were mended, ingest pipelines."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fix_postgres import Database
from flusso.engine import work
from flusso.engine.events import Event, VerifyAdvanced
from flusso.engine.session import SparkSpec
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.engine.verify import settle, verifier
from flusso.engine.verify.pace import Limits
from flusso.schema.parse import parse_schema
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import assert_exact, market_spec
from verifying import fill, found, verify, verify_one

pytestmark = [pytest.mark.opensearch, pytest.mark.postgres]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(settle, "LIMITS", Limits(absent_s=0.0))
    yield
    work.forget()


def ask(sink: OpenSearchSpec, method: str, path: str, body: object = None) -> Any:
    """Speak to the server behind flusso's back."""
    request = urllib.request.Request(
        f"{sink.urls[0]}/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def test_what_is_planted_in_a_search_server_is_found_and_repaired(
    database18: Database, search_sink: OpenSearchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "_IDS_IN_A_SHARE", 30)
    create_market(database18, users=100)
    spec = market_spec(database18, replace(search_sink, number_of_shards=2))
    fill(spec)
    assert (verify_one(spec).remaining, verify_one(spec).held) == (0, 100)
    alias = f"{search_sink.prefix}users"
    ask(search_sink, "DELETE", f"{alias}/_doc/3")
    ask(search_sink, "POST", f"{alias}/_update/5", {"doc": {"name": "other"}})
    ask(search_sink, "PUT", f"{alias}/_doc/ghost", {"name": "nobody"})
    ask(search_sink, "PUT", f"{alias}/_doc/4711", {"name": "nobody"})
    one = verify_one(spec)
    assert found(one) == {"3": "missing", "5": "different", "ghost": "extra", "4711": "extra"}
    # The server writes the numbers of a document that it updates in its own way: 250.00 becomes 250.0.
    assert [each.paths[:2] for each in one.differences if each.id == "5"] == [("$.name", "$.orders[0].total")]
    assert found(verify_one(spec, sample=1000)) == {"3": "missing", "5": "different"}
    mended = verify_one(spec, repairs=True)
    assert (mended.remaining, sum(mended.repaired.values())) == (0, 4)
    assert verify(spec).agrees
    assert ask(search_sink, "GET", f"{alias}/_count")["count"] == 100
    assert_exact(database18, spec)


def test_a_repair_goes_on_when_flusso_run_has_started_anew_meanwhile(
    database18: Database, search_sink: OpenSearchSpec
) -> None:
    create_market(database18, users=5)
    spec = market_spec(database18, search_sink)
    fill(spec)
    ask(search_sink, "DELETE", f"{search_sink.prefix}users/_doc/3")
    starts = 0

    def start(event: Event) -> None:
        nonlocal starts
        if isinstance(event, VerifyAdvanced) and not starts:
            starts += 1
            fill(spec)

    mended = verify_one(spec, start, repairs=True)
    assert starts
    assert (mended.remaining, sum(mended.repaired.values())) == (0, 1)


def test_json_that_the_server_takes_only_as_text_agrees(
    database18: Database, search_sink: OpenSearchSpec
) -> None:
    database18.execute("create table things (id int primary key, data json, name text)")
    database18.execute("""insert into things values (1, '{"a":1,"a":2}', 'x'), (2, '{"a":1}', 'y')""")
    text = "version: 1\ntable: things\nfields:\n  - integer: id\n  - json: data\n  - text: name\n"
    index = IndexSpec("things", parse_schema(text, file="t.yml"), (search_sink,))
    spec = PipelineSpec(
        *(database18.dsn, f"slot_{database18.name}", "flusso", (index,), SparkSpec("local[2]")),
        batch=BatchSpec(seed_range_mb=0.1),
    )
    fill(spec)
    assert verify_one(spec).remaining == 0
    database18.execute("update things set name = 'new' where id = 1")
    (difference,) = verify_one(spec).differences
    assert (difference.id, difference.paths) == ("1", ("$.name",))
    assert verify_one(spec, repairs=True).remaining == 0


def test_behind_an_ingest_pipeline_only_ids_are_compared(
    database18: Database, search_sink: OpenSearchSpec
) -> None:
    """The smallest builds have no processors, so the test itself does what one would."""
    create_market(database18, users=5)
    spec = market_spec(database18, replace(search_sink, pipeline="_none"))
    fill(spec)
    ask(search_sink, "POST", f"{search_sink.prefix}users/_update/2", {"doc": {"name": "USER 2"}})
    one = verify_one(spec)
    assert (one.remaining, one.compares_content) == (0, False)
    ask(search_sink, "DELETE", f"{search_sink.prefix}users/_doc/3")
    assert found(verify_one(spec)) == {"3": "missing"}
