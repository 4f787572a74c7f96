"""One of several is filled alone: a sink that came later or was put back, an index that was left out."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.capture.slot import advance_slot
from flusso.engine import work
from flusso.engine.events import Event, Reseeding
from flusso.engine.provision import Prepared, prepare
from flusso.engine.spec import IndexSpec
from flusso.errors import SlotAdvanced
from flusso.lsn import Lsn
from flusso.sinks.sqlite import SqliteSpec
from market import create_market, market_schema
from pipelines import current_lsn, market_spec, publish_seeded

pytestmark = pytest.mark.postgres


class Bed:
    """A deployment into sinks that are files of their names."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.events: list[Event] = []

    def prepare(self, *names: str, indexes: Sequence[str] = ("users",)) -> Prepared:
        sinks = tuple(SqliteSpec(name, self.folder / f"{name}.db") for name in names)
        made = tuple(IndexSpec(index, market_schema(), sinks) for index in indexes)
        spec = market_spec(self.database, sinks[0], indexes=made)
        self.events.clear()
        prepared = prepare(spec, self.events.append, threading.Event())
        assert prepared is not None
        return prepared

    def go_on(self, prepared: Prepared) -> Lsn:
        """Write everything up to now, and confirm it."""
        for index in prepared.ledger.unseeded():
            publish_seeded(prepared.ledger, index)
        self.database.execute("update users set name = 'later'")
        lsn = current_lsn(self.database)
        prepared.ledger.record(lsn, 2)
        with self.database.connect() as conn:
            advance_slot(conn, f"slot_{self.database.name}", lsn)
        work.forget()
        return lsn


@pytest.fixture
def bed(database18: Database, tmp_path: Path) -> Iterator[Bed]:
    create_market(database18, users=3)
    yield Bed(database18, tmp_path)
    work.forget()


def unseeded(prepared: Prepared) -> list[str]:
    entries = prepared.ledger.of("users")
    return [entry.destination.sink.name for entry in entries if not entry.state.is_seeded]


def test_a_sink_that_comes_later_is_filled_alone(bed: Bed) -> None:
    bed.go_on(bed.prepare("first"))
    prepared = bed.prepare("first", "second")
    assert unseeded(prepared) == ["second"]
    bed.go_on(prepared)
    assert unseeded(bed.prepare("first", "second")) == []


def test_a_sink_that_was_put_back_to_an_older_state_is_filled_alone(bed: Bed) -> None:
    bed.go_on(bed.prepare("first", "second"))
    old = shutil.copytree(bed.folder, bed.folder.with_name("backup"))
    bed.go_on(bed.prepare("first", "second"))
    for file in old.glob("second.db*"):
        shutil.copy(file, bed.folder)
    prepared = bed.prepare("first", "second")
    assert unseeded(prepared) == ["second"]
    assert any(
        "put back to an older state" in event.reason for event in bed.events if isinstance(event, Reseeding)
    )
    bed.go_on(prepared)
    assert unseeded(bed.prepare("first", "second")) == []


def test_a_slot_that_somebody_moved_past_every_sink_still_stops(bed: Bed) -> None:
    bed.go_on(bed.prepare("first", "second"))
    bed.database.execute("update users set name = 'unseen'")
    with bed.database.connect() as conn:
        advance_slot(conn, f"slot_{bed.database.name}", current_lsn(bed.database))
    with pytest.raises(SlotAdvanced):
        bed.prepare("first", "second")


def test_an_index_that_was_left_out_while_others_went_on_is_filled_anew(
    bed: Bed,
) -> None:
    both = ("users", "people")
    bed.go_on(bed.prepare("first", indexes=both))
    bed.go_on(bed.prepare("first"))
    prepared = bed.prepare("first", indexes=both)
    assert prepared.ledger.unseeded() == ["people"]
    [reason] = [event.reason for event in bed.events if isinstance(event, Reseeding)]
    assert "left out for a while" in reason
    assert [state.generation for _, state in prepared.ledger.frozen] == [1]
    bed.go_on(prepared)
    assert bed.prepare("first", indexes=both).ledger.unseeded() == []


def test_an_index_that_was_left_out_while_nothing_was_written_goes_on(bed: Bed) -> None:
    both = ("users", "people")
    bed.go_on(bed.prepare("first", indexes=both))
    bed.prepare("first")
    assert bed.prepare("first", indexes=both).ledger.unseeded() == []
