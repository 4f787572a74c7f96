"""Which references a generation has, and when another one begins: real databases, no Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.builder.plan import Reference
from flusso.engine import work
from flusso.engine.blind import as_served
from flusso.engine.catalogs import find_outdated
from flusso.engine.events import Event, Reseeding
from flusso.engine.preflight import look_for_blind
from flusso.engine.provision import Prepared, prepare
from flusso.engine.spec import PipelineSpec
from flusso.sinks.base import Held, IndexState, Request
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.search.server import Server
from flusso.sinks.stdout import StdoutSpec
from market import create_market
from pipelines import market_spec, publish_seeded, sqlite_sink

pytestmark = pytest.mark.postgres


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    create_market(database18, users=3)
    database18.execute("alter table items replica identity default")
    return market_spec(database18, sqlite_sink(tmp_path), keeps_references=True)


def start(
    spec: PipelineSpec, *, is_seeded: bool = True, tell: Callable[[Event], None] = lambda _: None
) -> Prepared:
    """Prepare as a run does, and take the seed for done."""
    prepared = prepare(spec, tell, threading.Event())
    assert prepared is not None
    if is_seeded:
        publish_seeded(prepared.ledger, "users")
    work.forget()
    return prepared


def state(prepared: Prepared) -> IndexState:
    """Of the newest generation."""
    return prepared.ledger.entries[-1].state


def fields(state: IndexState) -> set[str]:
    return {Reference.parse(text).field for text in state.references}


def test_a_generation_keeps_its_references_when_an_identity_shows_the_links(
    database18: Database, spec: PipelineSpec
) -> None:
    """Changes from before may be still to come, and only references lead to what they left."""
    first = start(spec)
    assert fields(state(first)) == {"orders.items"}
    database18.execute("alter table items replica identity full")
    second = start(spec)
    assert (state(second).generation, state(second).references) == (1, state(first).references)
    assert second.work.plans["users"].references == first.work.plans["users"].references


def test_the_next_generation_is_without_references_that_are_needed_no_more(
    database18: Database, spec: PipelineSpec
) -> None:
    first = start(spec)
    database18.execute("alter table items replica identity full")
    with contextlib.closing(spec.indexes[0].sinks[0].open()) as sink:
        sink.ask("users", Request.REINDEX)
    both = start(spec, is_seeded=False)
    assert [fields(entry.state) for entry in both.ledger.entries] == [{"orders.items"}, set()]
    kept = [entry.destination.target.keeps_references for entry in both.ledger.entries]
    assert kept == [True, False], "what readers see has them to its end"
    assert both.work.plans["users"].references == first.work.plans["users"].references
    start(spec)
    last = start(spec)
    assert [entry.state.generation for entry in last.ledger.entries] == [2]
    assert last.work.plans["users"].references == ()


def test_a_new_generation_begins_when_an_identity_shows_less(
    database18: Database, spec: PipelineSpec
) -> None:
    prepared = start(spec)
    database18.execute("alter table orders replica identity default")
    with database18.connect() as conn:
        outdated = find_outdated(conn, prepared.ledger, prepared.reads)
        assert "replica identities" in str(outdated)
        told = [(one.field, one.is_kept) for one in look_for_blind(conn, spec)]
    assert ("orders.items", True) in told
    assert ("orders", False) in told, "what readers see has no references for it"
    again = start(spec, is_seeded=False)
    assert (state(again).generation, state(again).is_seeded) == (2, False)
    assert again.ledger.entries[0].state.serves, "it is written all the while"
    assert fields(state(again)) >= {"orders", "orders.items", "orderCount", "spent"}
    again = start(spec)
    with database18.connect() as conn:
        assert all(one.is_kept for one in look_for_blind(conn, spec))


def test_without_a_sink_that_can_look_up_relations_stay_blind_and_it_is_said(
    database18: Database, spec: PipelineSpec
) -> None:
    alone = market_spec(database18, StdoutSpec("out"), keeps_references=True)
    with database18.connect() as conn:
        (blind,) = look_for_blind(conn, alone)
    assert not blind.is_kept
    assert "(none of its sinks keeps references)" in blind.effect


def test_what_references_cost_is_told_and_above_a_number_the_identity_is_advised(
    database18: Database, spec: PipelineSpec
) -> None:
    database18.execute("analyze")
    few = market_spec(database18, spec.indexes[0].sinks[0], keeps_references=True, max_references=3)
    with database18.connect() as conn:
        (kept,) = look_for_blind(conn, spec)
        (costly,) = look_for_blind(conn, few)
    assert kept.finding().code == "kept-by-references"
    assert kept.finding().hint == "about 6 references in a document"
    assert costly.finding().code == "many-references"
    assert str(costly.finding().hint).startswith('alter table "public"."items" replica identity full;')
    assert list(as_served([kept], [])) == [kept]


@pytest.mark.opensearch
def test_references_deleted_by_hand_are_filled_anew_with_their_generation_while_readers_keep_it(
    database18: Database, search_sink: OpenSearchSpec
) -> None:
    """Made anew and empty, they would find none of the documents that are there."""
    create_market(database18, users=3)
    database18.execute("alter table items replica identity default")
    spec = market_spec(database18, search_sink, keeps_references=True)
    (held,) = _held(search_sink, start(spec))
    server = Server(search_sink.client(), "search", 0)
    server.request("DELETE", f"/{search_sink.prefix}users_{held.digest}_1_refs")
    server.close()
    told: list[Event] = []
    second = start(spec, is_seeded=False, tell=told.append)
    assert [entry.state.generation for entry in second.ledger.entries] == [2]
    assert [(each.generation, each.is_read) for each in _held(search_sink, second)] == [(1, True), (2, False)]
    assert [event for event in told if isinstance(event, Reseeding)] == [
        Reseeding("users", "generation 1: a part of it was deleted from its sink")
    ]
    assert [each.is_read for each in _held(search_sink, start(spec))] == [True]


def _held(sink: OpenSearchSpec, prepared: Prepared) -> Sequence[Held]:
    """What the sink has once something was prepared."""
    with contextlib.closing(sink.open()) as opened:
        return opened.held()
