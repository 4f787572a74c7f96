"""Documents that someone put back in a real search server, alone or with what is remembered of them.

Real Postgres, no Spark.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from fix_postgres import Database
from flusso.capture.slot import advance_slot
from flusso.document import Write
from flusso.engine import work
from flusso.engine.events import Event, Reseeding
from flusso.engine.lookout import Lookout
from flusso.engine.provision import Prepared, prepare
from flusso.engine.spec import PipelineSpec
from flusso.engine.tenure import Tenure
from flusso.errors import GenerationGone, SlotAdvanced
from flusso.sinks.search.opensearch import OpenSearchSpec
from market import create_market
from pipelines import current_lsn, market_spec, publish_seeded
from search_snapshots import snapshot_of
from waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.opensearch]


@dataclass(slots=True)
class Bed:
    """A deployment into a search server, of which everything but Spark is real."""

    database: Database
    sink: OpenSearchSpec
    told: list[Event] = field(default_factory=list)

    @property
    def spec(self) -> PipelineSpec:
        return market_spec(self.database, self.sink, look_s=0.05)

    @property
    def meta(self) -> str:
        return f"{self.sink.prefix}flusso_meta"

    def start(self) -> Prepared:
        self.told.clear()
        prepared = prepare(self.spec, self.told.append, threading.Event())
        assert prepared is not None
        return prepared

    def seed(self, prepared: Prepared) -> None:
        publish_seeded(prepared.ledger, "users")

    def go_on(self, prepared: Prepared) -> None:
        """Write something, remember it and confirm it."""
        self.database.execute("update users set name = 'later'")
        lsn = current_lsn(self.database)
        (entry,) = prepared.ledger.entries
        work.sink(self.sink).write(entry.destination.target, [Write("1", 7, b'{"id":1}')], refresh=True)
        prepared.ledger.record(lsn, 7)
        with self.database.connect() as conn:
            advance_slot(conn, self.spec.slot, lsn)

    def generations(self) -> dict[int, bool]:
        """Those that are there, and whether readers see them."""
        return {each.generation: each.is_read for each in work.sink(self.sink).held()}

    def name_of(self, generation: int) -> str:
        held = work.sink(self.sink).held()
        (digest,) = (each.digest for each in held if each.generation == generation)
        return f"{self.sink.prefix}users_{digest}_{generation}"

    def reasons(self) -> list[str]:
        return [event.reason for event in self.told if isinstance(event, Reseeding)]


@pytest.fixture
def bed(database18: Database, search_sink: OpenSearchSpec) -> Iterator[Bed]:
    create_market(database18, users=3)
    yield Bed(database18, search_sink)
    work.forget()


def test_documents_that_were_put_back_alone_stay_readers_until_a_new_generation_is_whole(bed: Bed) -> None:
    prepared = bed.start()
    bed.seed(prepared)
    name = bed.name_of(1)
    with snapshot_of(bed.sink, name) as snapshot:
        bed.go_on(prepared)
        snapshot.put_back(name)
    again = bed.start()
    assert bed.reasons() == ["generation 1: it was put back or made anew in its sink"]
    assert [entry.state.generation for entry in again.ledger.to_seed()] == [2]
    assert bed.generations() == {1: True, 2: False}
    bed.seed(again)
    assert bed.generations() == {2: True}
    assert [entry.state.is_seeded for entry in bed.start().ledger.entries] == [True]


def test_documents_that_were_put_back_with_their_state_are_filled_anew_above_whatever_is_there(
    bed: Bed,
) -> None:
    """What a later generation holds, of which the older state does not know, must not become a part of it."""
    prepared = bed.start()
    bed.seed(prepared)
    name = bed.name_of(1)
    with snapshot_of(bed.sink, name, bed.meta) as snapshot:
        bed.go_on(prepared)
        with contextlib.closing(bed.sink.open()) as sink:
            (entry,) = prepared.ledger.entries
            later = replace(entry.destination.target, generation=2)
            sink.ensure(later, bed.spec.indexes[0].schema)
        snapshot.put_back(name, bed.meta)
    again = bed.start()
    (reason,) = bed.reasons()
    assert "the slot" in reason
    assert [entry.state.generation for entry in again.ledger.to_seed()] == [3]
    assert bed.generations() == {1: True, 2: False, 3: False}
    bed.seed(again)
    assert bed.generations() == {2: False, 3: True}


def test_states_that_were_put_back_alone_look_like_a_slot_that_somebody_moved(bed: Bed) -> None:
    prepared = bed.start()
    bed.seed(prepared)
    with snapshot_of(bed.sink, bed.meta) as snapshot:
        bed.go_on(prepared)
        snapshot.put_back(bed.meta)
    with pytest.raises(SlotAdvanced):
        bed.start()
    assert bed.generations() == {1: True}


def test_documents_that_are_put_back_while_nothing_is_written_are_noticed(bed: Bed) -> None:
    prepared = bed.start()
    bed.seed(prepared)
    with Tenure(bed.spec) as tenure:
        lookout = Lookout(bed.spec, prepared, tenure)
        lookout.start()
        try:
            name = bed.name_of(1)
            with snapshot_of(bed.sink, name) as snapshot:
                assert lookout.failure is None
                snapshot.put_back(name, over_closed=True)
            failure = wait_until(lambda: lookout.failure, what="the word that they were put back")
        finally:
            lookout.close()
    assert isinstance(failure, GenerationGone)
    assert str(failure) == 'generation 1 of index "users" was put back or made anew in sink "search"'
