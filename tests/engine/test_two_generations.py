"""From what sinks remember to who is written: schemas that are declared no more, requests, what was deleted.

Real Postgres and SQLite, no Spark: what a start decides and saves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.debt import Debt, Scope
from flusso.engine.entry import Entry
from flusso.engine.events import Event, ReadersMoved, Reseeding, Waiting
from flusso.engine.generations import Roles
from flusso.engine.ledger import Ledger
from flusso.engine.lookout import Lookout
from flusso.engine.provision import Prepared, prepare
from flusso.engine.spec import PipelineSpec
from flusso.engine.switch import Switcher
from flusso.engine.tenure import Tenure
from flusso.errors import IndexTaken, SinkUnavailable, SlotMissing
from flusso.lsn import Lsn, Version
from flusso.schema.model import IndexSchema
from flusso.sinks.base import IndexState, IndexTarget, Request, Sink, States
from flusso.sinks.sqlite.sink import SqliteSink
from market import create_market, market_schema
from pipelines import market_spec, publish_seeded, sqlite_sink
from waiting import wait_until

pytestmark = pytest.mark.postgres

AHEAD = Version.of(1, Lsn(1 << 40))


def start(spec: PipelineSpec, tell: Callable[[Event], None] = lambda event: None) -> Prepared:
    prepared = prepare(spec, tell, threading.Event())
    assert prepared is not None
    return prepared


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    """A deployment that has run: readers see its index."""
    create_market(database18, users=3)
    made = market_spec(database18, sqlite_sink(tmp_path))
    publish_seeded(start(made).ledger, "users")
    return made


def opened(spec: PipelineSpec) -> Sink:
    return spec.indexes[0].sinks[0].open()


def states(spec: PipelineSpec) -> States:
    sink = opened(spec)
    try:
        return sink.load_states()
    finally:
        sink.close()


def ask(spec: PipelineSpec, request: Request, generation: int = 0) -> None:
    sink = opened(spec)
    sink.ask("users", request, generation)
    sink.close()


def without_email(schema: IndexSchema) -> IndexSchema:
    return replace(schema, fields=tuple(item for item in schema.fields if item.name != "email"))


def changed(spec: PipelineSpec, **changes: object) -> PipelineSpec:
    index = replace(spec.indexes[0], schema=without_email(market_schema()), **changes)  # type: ignore[arg-type]
    return replace(spec, indexes=(index,))


def entries(prepared: Prepared) -> list[tuple[int, bool, bool]]:
    """Generation, whether readers see it, and whether it has a plan of its own."""
    return [
        (
            entry.state.generation,
            entry.state.serves,
            entry.plan_name in prepared.work.plans and bool(entry.plan),
        )
        for entry in prepared.ledger.entries
    ]


def switcher(ledger: Ledger, tell: Callable[[Event], None] = lambda event: None) -> Switcher:
    return Switcher(ledger, threading.Lock(), lambda: AHEAD, tell)


def test_a_changed_schema_keeps_the_old_one_written_by_a_plan_of_its_own(spec: PipelineSpec) -> None:
    prepared = start(changed(spec))
    assert entries(prepared) == [(1, True, True), (2, False, False)]
    plans = prepared.work.plans
    assert len(plans) == 2
    assert sorted(prepared.ledger.narrow(prepared.work).destinations) == sorted(plans)


def test_an_old_schema_whose_column_is_gone_is_written_no_more_and_still_read(
    spec: PipelineSpec, database18: Database
) -> None:
    database18.execute("alter table users drop column email")
    prepared = start(changed(spec))
    assert entries(prepared) == [(2, False, False)]
    serving = states(spec).serving("users")
    assert serving is not None
    assert (serving.generation, serving.stale) == (1, "the database no longer has what its schema reads")


def test_readers_are_led_back_to_a_generation_that_is_written_no_more(
    spec: PipelineSpec, database18: Database
) -> None:
    database18.execute("alter table users drop column email")
    quick = replace(changed(spec), look_s=0.05)
    prepared, sink = start(quick), opened(spec)
    sink._conn.execute("delete from published")  # type: ignore[attr-defined]
    lookout = Lookout(quick, prepared, Tenure(quick))
    lookout.start()
    failure = wait_until(lambda: lookout.failure, what="the word that readers are gone")
    lookout.close()
    assert str(failure) == 'readers no longer see generation 1 of index "users" in sink "local"'
    assert entries(start(quick)) == [(2, False, False)]
    assert [each.generation for each in sink.held() if each.is_read] == [1]
    sink.close()


def test_a_request_begins_a_generation_beside_the_serving_one_once(spec: PipelineSpec) -> None:
    ask(spec, Request.REINDEX)
    assert entries(start(spec)) == [(1, True, False), (2, False, False)]
    assert states(spec).asked == {}
    assert entries(start(spec)) == [(1, True, False), (2, False, False)]


def test_the_same_plan_writes_both_generations_of_one_schema(spec: PipelineSpec) -> None:
    ask(spec, Request.REINDEX)
    prepared = start(spec)
    (destinations,) = prepared.ledger.narrow(prepared.work).destinations.values()
    assert [destination.target.generation for destination in destinations] == [1, 2]
    assert [entry.state.generation for entry in prepared.ledger.to_seed()] == [2]


def test_readers_move_when_the_stream_has_passed_the_end_of_the_seed_and_nothing_is_owed(
    spec: PipelineSpec,
) -> None:
    ask(spec, Request.REINDEX)
    ledger = start(spec).ledger
    events: list[Event] = []
    switch = switcher(ledger, events.append)
    switch.look()
    ledger.finish_seed(ledger.of("users"))
    switch.look()
    ledger.owe(["users"], Scope.HELD, "it was truncated")
    ledger.position = AHEAD.lsn
    switch.look()
    assert not events
    for entry in ledger.owing():
        ledger.pay(entry, entry.state.debts[0], None, 1)
    switch.look()
    assert events == [ReadersMoved("users", "local", 2)]
    found = states(spec)
    assert [(state.generation, state.serves) for state in found.all] == [(2, True)]
    assert [entry.state.generation for entry in ledger.entries] == [2]


def test_a_move_that_fails_is_tried_again(spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(spec, Request.REINDEX)
    ledger = start(spec).ledger
    ledger.finish_seed(ledger.of("users"))
    ledger.position = AHEAD.lsn
    events: list[Event] = []
    switch = switcher(ledger, events.append)

    def refuse(sink: SqliteSink, target: IndexTarget) -> None:
        raise SinkUnavailable("for a moment")

    with monkeypatch.context() as broken:
        broken.setattr(SqliteSink, "publish", refuse)
        with pytest.raises(SinkUnavailable):
            switch.look()
    assert not events
    switch.look()
    assert events == [ReadersMoved("users", "local", 2)]


@pytest.mark.parametrize(("step", "keeps"), [("drop", 0), ("save_state", 1)])
def test_what_fails_after_readers_have_moved_is_done_later_and_they_move_once(
    spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch, step: str, keeps: int
) -> None:
    ask(spec, Request.REINDEX)
    keeping = replace(spec, indexes=(replace(spec.indexes[0], keeps=keeps),))
    ledger = start(keeping).ledger
    ledger.finish_seed(ledger.of("users"))
    ledger.position = AHEAD.lsn
    events: list[Event] = []
    switch = switcher(ledger, events.append)
    does = getattr(SqliteSink, step)

    def refuse(sink: SqliteSink, what: IndexTarget | IndexState) -> None:
        if what.generation == 1:
            raise SinkUnavailable("for a moment")
        does(sink, what)

    with monkeypatch.context() as broken:
        broken.setattr(SqliteSink, step, refuse)
        with pytest.raises(SinkUnavailable):
            switch.look()
    assert read_by(spec) == 2
    switch.look()
    assert events == [ReadersMoved("users", "local", 2)]
    found = [(state.generation, state.serves, state.is_kept) for state in states(spec).all]
    assert found == [(1, False, True)] * keeps + [(2, True, False)]
    assert len(ledger.entries) == 1 + keeps


def test_what_is_paid_to_readers_meanwhile_must_reach_the_new_one_first(spec: PipelineSpec) -> None:
    ask(spec, Request.REINDEX)
    ledger = start(spec).ledger
    ledger.finish_seed(ledger.of("users"))
    (waiting,) = ledger.waiting()
    (serving,) = (entry for entry in ledger.entries if entry.state.serves)
    ledger.await_position(waiting, Lsn(7))
    ledger.owe(["users"], Scope.HELD, "it was truncated")
    (debt,) = serving.state.debts
    ledger.pay(serving, debt, None, 9)
    assert waiting.state.ready_at == 0
    assert isinstance(debt, Debt)


def test_a_kept_generation_is_written_and_readers_are_led_back_and_stay_there(spec: PipelineSpec) -> None:
    keeping = changed(spec, keeps=1)
    publish_seeded(start(keeping).ledger, "users")
    assert entries(start(keeping)) == [(1, False, True), (2, True, False)]
    ask(spec, Request.ROLLBACK, 1)
    assert entries(start(keeping)) == [(1, True, True), (2, False, False)]
    assert entries(start(keeping)) == [(1, True, True), (2, False, False)]
    sink = opened(spec)
    for state in sink.load_states().all:
        if state.serves:
            with pytest.raises(Exception, match="readers"):
                sink.drop(state.target)
    sink.close()


@pytest.mark.parametrize("pays", [True, False], ids=["paid", "owed"])
def test_what_changes_while_a_generation_is_verified_keeps_readers_where_they_are(
    spec: PipelineSpec, pays: bool
) -> None:
    ask(spec, Request.REINDEX)
    ledger = start(spec).ledger
    ledger.finish_seed(ledger.of("users"))
    ledger.position = AHEAD.lsn
    events: list[Event] = []
    switch = switcher(ledger, events.append)

    def owe(entry: Entry) -> bool:
        ledger.owe(["users"], Scope.HELD, "it was truncated")
        for each in ledger.owing() if pays else ():
            ledger.pay(each, each.state.debts[0], None, 1)
        return True

    switch.is_verified = owe
    switch.look()
    assert not events
    assert read_by(spec) == 1


def kept(spec: PipelineSpec, keeps: int) -> PipelineSpec:
    """Three generations of one schema, of which readers see the last."""
    keeping = replace(spec, indexes=(replace(spec.indexes[0], keeps=keeps),))
    for _ in range(2):
        ask(spec, Request.REINDEX)
        publish_seeded(start(keeping).ledger, "users")
    return keeping


def read_by(spec: PipelineSpec) -> int:
    """The generation that readers see, as the sink has it."""
    sink = opened(spec)
    try:
        (found,) = (each.generation for each in sink.held() if each.is_read)
        return found
    finally:
        sink.close()


@pytest.mark.parametrize("step", ["publish", "answer"])
def test_a_rollback_that_fails_half_way_leads_to_where_it_was_to_lead(
    spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    keeping = kept(spec, keeps=2)
    ask(spec, Request.ROLLBACK, 2)

    def fail(sink: SqliteSink, *_: object) -> None:
        raise SinkUnavailable("for a moment")

    with monkeypatch.context() as broken:
        if step == "answer":
            broken.setattr(SqliteSink, "answer", fail)
        else:  # the second: the first one repeats what serves
            broken.setattr(SqliteSink, "publish", failing_at(2, SqliteSink.publish))
        with pytest.raises(SinkUnavailable):
            start(keeping)
    assert entries(start(keeping)) == [(1, False, False), (2, True, False), (3, False, False)]
    assert read_by(spec) == 2
    assert states(spec).asked == {}


def failing_at(number: int, step: Callable[[SqliteSink, IndexTarget], None]) -> Callable[..., None]:
    """Take a step, but for the time of this number."""
    calls = iter(range(1, 100))

    def taken(sink: SqliteSink, target: IndexTarget) -> None:
        if next(calls) == number:
            raise SinkUnavailable("for a moment")
        step(sink, target)

    return taken


def test_only_as_many_are_kept_as_wanted(spec: PipelineSpec) -> None:
    index = replace(spec.indexes[0], keeps=1)
    keeping = replace(spec, indexes=(index,))
    for _ in range(3):
        ask(spec, Request.REINDEX)
        publish_seeded(start(keeping).ledger, "users")
    assert [(state.generation, state.serves) for state in states(spec).all] == [(3, False), (4, True)]


def test_what_readers_saw_last_is_kept_and_not_what_they_were_led_back_from(spec: PipelineSpec) -> None:
    keeping = kept(spec, keeps=1)
    ask(spec, Request.ROLLBACK, 2)
    start(keeping)
    ask(spec, Request.REINDEX)
    publish_seeded(start(keeping).ledger, "users")
    found = states(spec)
    assert [(state.generation, state.serves) for state in found.all] == [(2, False), (4, True)]
    back = Roles.of(found.of("users")).back()
    assert back is not None
    assert back.generation == 2


@pytest.mark.parametrize("why", ["a request", "another schema"])
def test_a_sink_that_takes_only_changes_shows_no_empty_generation_in_place_of_what_readers_see(
    spec: PipelineSpec, why: str
) -> None:
    partial = replace(spec.indexes[0], not_backfilled=frozenset({"local"}))
    if why == "a request":
        ask(spec, Request.REINDEX)
    else:
        partial = replace(partial, schema=without_email(partial.schema))
    again = replace(spec, indexes=(partial,))
    ledger = start(again).ledger
    assert [entry.state.generation for entry in ledger.to_seed()] == [2]
    assert read_by(spec) == 1
    ledger.finish_seed(ledger.of("users"))
    assert len(start(again).ledger.waiting()) == 1, "a start in between moves nobody either"
    assert read_by(spec) == 1


def test_an_order_to_skip_the_backfill_is_followed_though_readers_see_another(spec: PipelineSpec) -> None:
    start(replace(changed(spec), skips_seed=True))
    assert read_by(spec) == 2


def test_an_index_that_is_written_through_another_slot_is_left_to_it(spec: PipelineSpec) -> None:
    ledger = start(spec).ledger
    ledger.beat(1.0)
    other = replace(spec, slot=f"{spec.slot}_other", look_s=1.0)
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Waiting) and "is anyone still writing" in event.reason:
            ledger.beat(2.0)

    with pytest.raises(IndexTaken, match=f'written through slot "{spec.slot}"'):
        start(other, listen)
    ledger.beat(3.0)
    with pytest.raises(SlotMissing):  # nobody writes it any more, so what was lost is what counts
        start(replace(other, look_s=0.1))
    ledger.beat(0.0)
    events.clear()
    with pytest.raises(SlotMissing):
        start(other, listen)
    assert not [event for event in events if isinstance(event, Waiting)]


def test_who_was_replaced_saves_nothing_any_more(spec: PipelineSpec) -> None:
    old, new = start(spec).ledger, start(spec).ledger
    new.record(Lsn(1 << 50), 0)
    with pytest.raises(IndexTaken):
        old.record(Lsn(1 << 51), 0)


def test_a_generation_deleted_by_hand_is_filled_anew_and_told(spec: PipelineSpec) -> None:
    sink = opened(spec)
    serving = sink.load_states().serving("users")
    assert serving is not None
    sink._conn.execute("delete from published")  # type: ignore[attr-defined]
    sink.drop(serving.target)
    sink.save_state(serving)
    sink.close()
    events: list[Event] = []
    assert entries(start(spec, events.append)) == [(2, False, False)]
    assert [event for event in events if isinstance(event, Reseeding)] == [
        Reseeding("users", 'generation 1 is no longer in sink "local"')
    ]
    assert [state.generation for state in states(spec).all] == [2]
