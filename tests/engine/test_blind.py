"""Blind relations are named by what goes stale and by the SQL that ends it, in the same words everywhere."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from commands import Deployment
from fix_postgres import Database
from flusso.capture.identity import IdentityNeed
from flusso.capture.leaves import Identity
from flusso.catalog import IdentityKind, TableName
from flusso.diagnostic import Code
from flusso.engine.blind import HEALS, Blind, find_blind, sum_up, weigh
from flusso.engine.preflight import examine, look_for_blind
from flusso.schema.digest import digest
from flusso.sinks.base import IndexState
from market import create_market, market_schema
from pipelines import market_spec, sqlite_sink

ORDERS = TableName("public", "orders")
BLIND = Blind("users", "orders", ORDERS, ("user_id",), ('alter table "orders" replica identity full',))


def test_a_finding_names_table_index_field_and_the_sql_to_paste() -> None:
    finding = BLIND.finding()
    assert finding.code is Code.BLIND_RELATION
    assert (finding.index, finding.field) == ("users", "orders")
    assert finding.message == (
        "a row of public.orders that is deleted or moved leaves users.orders stale: "
        "the WAL does not carry its old user_id"
    )
    assert finding.hint == f'alter table "orders" replica identity full; -- {HEALS}'


def test_the_root_itself_goes_stale_as_its_document() -> None:
    assert "leaves its document in users stale" in replace(BLIND, field="").effect


def test_without_any_fitting_identity_the_reason_stands_for_the_sql() -> None:
    assert replace(BLIND, sql=(), reasons=("orders is odd",)).remedy == f"orders is odd; {HEALS}"


def test_places_with_the_same_link_are_told_together() -> None:
    lines = list(
        sum_up([BLIND, replace(BLIND, field="orderCount"), replace(BLIND, table=TableName("x", "y"))])
    )
    assert [effect.split(" stale")[0].split("leaves ")[1] for effect, _ in lines] == [
        "users.orders, users.orderCount",
        "users.orders",
    ]


KEPT = replace(BLIND, reference="orders", rows=6000)
ITEMS = replace(KEPT, field="items", table=TableName("public", "items"), rows=5000)


def costly(*blind: Blind) -> list[str]:
    return [one.field for one in weigh(blind, 10_000) if one.is_costly]


def test_references_of_a_document_are_judged_all_together() -> None:
    """And the table with the most of them is the one to give an identity: then the rest is few enough."""
    assert costly(KEPT, ITEMS) == ["orders"]
    assert costly(KEPT, replace(ITEMS, index="others")) == []


def test_the_advice_names_what_the_place_has_and_the_whole_document() -> None:
    (one, _) = weigh([KEPT, ITEMS], 10_000)
    assert one.finding().code is Code.MANY_REFERENCES
    assert str(one.remedy).endswith(
        "-- instead of about 6,000 references in a document that has 11,000 in all"
    )


def test_places_that_share_their_references_count_once() -> None:
    assert costly(KEPT, replace(KEPT, field="orderCount")) == []
    assert costly(KEPT, replace(KEPT, field="sold", columns=("seller_id",))) == ["orders", "sold"]


def test_where_no_identity_can_be_had_the_next_table_is_advised() -> None:
    assert costly(replace(KEPT, sql=()), ITEMS) == ["items"]


@pytest.mark.postgres
def test_a_need_of_another_column_leaves_a_path_exact(database: Database, tmp_path: Path) -> None:
    create_market(database, users=1)
    with database.connect() as conn:
        plans = examine(conn, market_spec(database, sqlite_sink(tmp_path))).plans
    need = IdentityNeed(
        ORDERS, ORDERS, ("status",), True, True, Identity(IdentityKind.FULL, ("id", "status")), ""
    )
    assert list(find_blind(plans, [need])) == []
    assert {one.field for one in find_blind(plans, [replace(need, lacking=("user_id",))])} == {
        *("orders", "orderCount", "spent", "meanTotal", "newestOrder")
    }


@pytest.mark.postgres
def test_check_run_and_status_name_the_same_blind_relations(database: Database, tmp_path: Path) -> None:
    create_market(database, users=1)
    database.execute("alter table items replica identity default")
    spec = market_spec(database, sqlite_sink(tmp_path))
    with database.connect() as conn:
        (blind,) = look_for_blind(conn, spec)
        told = [finding for finding in examine(conn, spec).findings if finding.code is Code.BLIND_RELATION]
        assert told == [blind.finding()]
        assert look_for_blind(conn, replace(spec, reports_blind=False)) == ()
        assert look_for_blind(conn, replace(spec, manages_identity=True)) == ()
    deployment = Deployment(tmp_path, database, source='replica_identity = "check"')
    status = json.loads(deployment.call("status", "--format", "json").stdout)
    assert [one["effect"] for one in status["blind"]] == [blind.effect]
    printed = deployment.call("status").stdout
    assert f"blind: {blind.effect}\n  {blind.remedy}\n" in printed
    for statement in status["blind"][0]["sql"]:
        database.execute(statement)
    assert json.loads(deployment.call("status", "--format", "json").stdout)["blind"] == []


@pytest.mark.postgres
def test_check_and_status_say_of_every_relation_what_keeps_it_exact(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=1)
    database18.execute("alter table items replica identity default")
    deployment = Deployment(tmp_path, database18)
    relations = json.loads(deployment.call("status", "--format", "json").stdout)["relations"]
    assert json.loads(deployment.call("check", "--format", "json").stdout)["relations"] == relations
    kept = {one["field"]: one["kept_by"] for one in relations}
    assert (kept["orders.items"], kept["orders"], kept["tags"]) == ("references", "wal", "wal")
    assert None not in kept.values()
    line = "exact: of users the WAL keeps "
    assert line in deployment.call("status").stdout
    assert line in deployment.call("check").stdout
    blind = Deployment(tmp_path, database18, source='replica_identity = "check"')
    found = json.loads(blind.call("status", "--format", "json").stdout)["relations"]
    assert {one["field"]: one["kept_by"] for one in found}["orders.items"] is None


@pytest.mark.postgres
def test_check_and_status_advise_an_identity_above_the_configured_number(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=3)
    database18.execute("alter table items replica identity default; analyze")
    deployment = Deployment(tmp_path, database18, source="max_references = 3")
    (found,) = json.loads(deployment.call("check", "--format", "json").stdout)["findings"]
    sql = 'alter table "public"."items" replica identity full;'
    assert (found["code"], found["field"]) == (Code.MANY_REFERENCES, "orders.items")
    assert found["hint"] == f"{sql} -- instead of about 6 references in a document"
    assert f"  {found['hint']}\n" in deployment.call("status").stdout
    database18.execute(sql)
    assert json.loads(deployment.call("check", "--format", "json").stdout)["findings"] == []


@pytest.mark.postgres
def test_check_tells_what_is_stale_until_the_generation_with_references_serves(
    database: Database, tmp_path: Path
) -> None:
    create_market(database, users=1)
    deployment = Deployment(tmp_path, database)
    opened = sqlite_sink(tmp_path).open()
    opened.save_state(IndexState("users", digest(market_schema(), {}), 1, serves=True))
    opened.close()
    database.execute("alter table items replica identity default")
    (found,) = json.loads(deployment.call("check", "--format", "json").stdout)["findings"]
    assert (found["code"], found["field"]) == (Code.BLIND_RELATION, "orders.items")
    assert "stale until a new generation, which keeps references, serves" in found["message"]


@pytest.mark.postgres
@pytest.mark.parametrize("sink", ["absent file", "closed port"])
def test_check_makes_no_sink_and_needs_none(database: Database, tmp_path: Path, sink: str) -> None:
    create_market(database, users=1)
    database.execute("alter table items replica identity default")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        search = f'[sinks.search]\ntype = "opensearch"\nurl = "{url}"\n'
        deployment = Deployment(tmp_path, database, sink=search if sink == "closed port" else None)
        (found,) = json.loads(deployment.call("check", "--format", "json").stdout)["findings"]
    assert found["code"] == Code.KEPT_BY_REFERENCES
    assert not (tmp_path / "index.db").exists()
