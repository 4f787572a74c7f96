"""What a start finds of slot and server, and what it does about it: the preparation, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database, fresh_database
from flusso.capture.slot import read_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.demo.server import EmbeddedServer
from flusso.engine import provision, work
from flusso.engine.events import Event, Reseeding, Waiting
from flusso.engine.provision import Prepared, prepare
from flusso.engine.spec import PipelineSpec
from flusso.errors import (
    FlussoError,
    SlotAdvanced,
    SlotBusy,
    SlotInvalidated,
    SlotMissing,
    SlotPhysical,
    SourceRefused,
    SourceReplaced,
    TimelineBehind,
)
from flusso.sinks.base import Request
from market import create_market
from pipelines import market_spec, publish_seeded, sqlite_sink
from slots import invalidated, move

pytestmark = pytest.mark.postgres


def start(spec: PipelineSpec, tell: Callable[[Event], None] = lambda event: None) -> Prepared:
    prepared = prepare(spec, tell, threading.Event())
    assert prepared is not None
    return prepared


def seeded(database: Database, folder: Path) -> PipelineSpec:
    """A deployment that has run: its index is whole, as far as the sink remembers."""
    create_market(database, users=3)
    spec = market_spec(database, sqlite_sink(folder))
    publish_seeded(start(spec).ledger, "users")
    return spec


def drop(database: Database, slot: str) -> None:
    database.execute("select pg_drop_replication_slot(%s)", slot)


def with_physical(database: Database, slot: str) -> None:
    drop(database, slot)
    database.execute("select pg_create_physical_replication_slot(%s)", slot)


def generations(spec: PipelineSpec) -> tuple[int, bool]:
    state = work.sink(spec.indexes[0].sinks[0]).load_states().newest("users")
    assert state is not None
    return state.generation, state.is_seeded


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [(drop, SlotMissing), (move, SlotAdvanced), (with_physical, SlotPhysical)],
    ids=["dropped", "moved", "physical"],
)
def test_a_start_stops_at_a_spoilt_slot_with_its_own_error(
    database18: Database,
    tmp_path: Path,
    spoil: Callable[[Database, str], None],
    kind: type[FlussoError],
) -> None:
    spec = seeded(database18, tmp_path)
    spoil(database18, spec.slot)
    with pytest.raises(kind) as raised:
        start(spec)
    assert raised.value.hint
    assert raised.value.exit_code == 3
    assert generations(spec) == (1, True)
    database18.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots "
                       "where slot_name = %s", spec.slot)  # fmt: skip


@pytest.mark.parametrize("spoil", [drop, move], ids=["dropped", "moved"])
def test_a_start_that_may_reseed_begins_a_new_generation(
    database18: Database, tmp_path: Path, spoil: Callable[[Database, str], None]
) -> None:
    spec = replace(seeded(database18, tmp_path), reseeds=True)
    spoil(database18, spec.slot)
    events: list[Event] = []
    prepared = start(spec, events.append)
    assert [event.index for event in events if isinstance(event, Reseeding)] == ["users"]
    assert prepared.ledger.unseeded() == ["users"]
    assert generations(spec) == (2, False)


def test_a_slot_that_the_server_gave_up_stops_or_makes_room_for_a_new_one(
    database: Database, tmp_path: Path
) -> None:
    spec = seeded(database, tmp_path)
    with invalidated(database, spec.slot):
        with pytest.raises(SlotInvalidated, match="lost"):
            start(spec)
        assert start(replace(spec, reseeds=True)).ledger.unseeded() == ["users"]
        with database.connect() as conn:
            made = read_slot(conn, spec.slot)
    assert made is not None
    assert not made.is_lost


def test_another_cluster_stops_or_is_seeded_from(
    database18: Database, server_of: Callable[[int], EmbeddedServer], tmp_path: Path
) -> None:
    before = seeded(database18, tmp_path)
    others = fresh_database(server_of(16))
    other = next(others)
    create_market(other, users=3)
    spec = replace(before, dsn=other.dsn)
    with pytest.raises(SourceReplaced, match="reindex"):
        start(spec)
    assert other.execute("select * from pg_replication_slots where slot_name = %s", spec.slot) == []
    assert start(replace(spec, reseeds=True)).ledger.unseeded() == ["users"]
    next(others, None)


def test_a_server_that_another_took_over_from_is_followed_into_other_indexes_alone(
    database18: Database, tmp_path: Path
) -> None:
    """Neither a request nor a reseed makes it the one to follow: that is as the hint says."""
    spec = replace(seeded(database18, tmp_path), reseeds=True)
    sink = work.sink(spec.indexes[0].sinks[0])
    (state,) = sink.load_states().all
    sink.save_state(replace(state, timeline=state.timeline + 1))
    sink.ask("users", Request.REINDEX)
    with pytest.raises(TimelineBehind) as raised:
        start(spec)
    assert raised.value.hint is not None
    assert "flusso reindex" not in raised.value.hint
    assert "set another prefix, or another file" in raised.value.hint
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = replace(spec.indexes[0], sinks=(sqlite_sink(elsewhere),))
    assert start(replace(spec, indexes=(other,))).ledger.unseeded() == ["users"]


def test_a_slot_that_is_read_is_waited_for_and_its_reader_named(
    database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "_BUSY_S", 0.1)
    spec = seeded(database18, tmp_path)
    prepared = start(spec)
    events: list[Event] = []
    stream = CaptureStream(CaptureSpec(spec.dsn, spec.slot, spec.publication, prepared.watched))
    stream.start()
    try:
        with pytest.raises(SlotBusy, match=r'pid \d+ \("flusso" at 127.0.0.1\)'):
            start(spec, events.append)
    finally:
        stream.stop()
    assert [event for event in events if isinstance(event, Waiting)]


def test_a_failover_slot_needs_postgres_17(database: Database, tmp_path: Path) -> None:
    spec = replace(seeded(database, tmp_path), is_failover=True)
    with database.connect() as conn:
        version = conn.info.server_version
    if version < 170000:
        with pytest.raises(SourceRefused, match="failover slots came with 17"):
            start(spec)
        return
    start(spec)
    with database.connect() as conn:
        info = read_slot(conn, spec.slot)
    assert info is not None
    assert info.is_failover
