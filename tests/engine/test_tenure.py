"""What a process gives back when nothing comes of its start. Real Postgres, no Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.capture.slot import read_slot
from flusso.engine import pipeline, provision
from flusso.engine.pipeline import run_pipeline
from flusso.engine.policy import Patience
from flusso.engine.spec import PipelineSpec
from flusso.engine.tenure import Tenure
from flusso.errors import FlussoError, GenerationGone, IndexTaken, SinkRefused, SinkUnavailable
from flusso.schema.model import IndexSchema
from flusso.sinks.base import IndexTarget
from flusso.sinks.sqlite.sink import SqliteSink
from market import create_market
from pipelines import market_spec, sqlite_sink
from waiting import wait_until

pytestmark = pytest.mark.postgres


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    create_market(database18, users=3)
    return market_spec(database18, sqlite_sink(tmp_path), patience=Patience(sink_s=0.0))


def has_slot(spec: PipelineSpec, database: Database) -> bool:
    with database.connect() as conn:
        return read_slot(conn, spec.slot) is not None


@pytest.mark.parametrize("failure", [SinkRefused("not that name"), SinkUnavailable("away")], ids=type)
def test_a_slot_that_was_made_for_an_index_that_its_sink_does_not_make_goes_again(
    spec: PipelineSpec, database18: Database, monkeypatch: pytest.MonkeyPatch, failure: FlussoError
) -> None:
    def refuse(sink: SqliteSink, target: IndexTarget, schema: IndexSchema) -> None:
        assert has_slot(spec, database18)
        raise failure

    monkeypatch.setattr(SqliteSink, "ensure", refuse)
    with pytest.raises(type(failure)):
        run_pipeline(spec, lambda event: None, threading.Event())
    assert not has_slot(spec, database18)


def test_a_slot_that_was_made_goes_again_when_the_start_is_stopped(
    spec: PipelineSpec, database18: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    monkeypatch.setattr(provision, "await_settled", lambda *_, **__: stop.set())
    run_pipeline(spec, lambda event: None, stop)
    assert stop.is_set()
    assert not has_slot(spec, database18)


def test_a_slot_that_was_there_before_stays_whatever_a_start_comes_to(
    spec: PipelineSpec, database18: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert provision.prepare(spec, lambda event: None, threading.Event())

    def refuse(sink: SqliteSink, target: IndexTarget, schema: IndexSchema) -> None:
        raise SinkRefused("not that name")

    monkeypatch.setattr(SqliteSink, "ensure", refuse)
    with pytest.raises(SinkRefused):
        run_pipeline(spec, lambda event: None, threading.Event())
    assert has_slot(spec, database18)


def beat_of(spec: PipelineSpec) -> float:
    with contextlib.closing(spec.indexes[0].sinks[0].open()) as sink:
        return max((state.beat for state in sink.load_states().all), default=0.0)


def is_later(spec: PipelineSpec, than: float) -> Callable[[], bool]:
    return lambda: beat_of(spec) > than


def test_what_is_taken_beats_from_the_start_on_over_every_new_look_until_the_process_ends(
    spec: PipelineSpec,
) -> None:
    spec = replace(spec, look_s=0.05)
    with Tenure(spec) as tenure:
        assert beat_of(spec) == 0.0
        for _ in range(2):
            assert provision.prepare(spec, lambda event: None, threading.Event(), tenure=tenure)
            first = beat_of(spec)
            assert first
            wait_until(is_later(spec, first), what="the next beat")
        assert tenure.failure is None
        other = replace(spec, slot=f"{spec.slot}_other", look_s=1.0)
        with pytest.raises(IndexTaken, match="is being done now"):
            provision.prepare(other, lambda event: None, threading.Event())
        tenure.flow()
    assert beat_of(spec) == 0.0


def test_who_was_replaced_learns_so_by_its_beat(spec: PipelineSpec) -> None:
    spec = replace(spec, look_s=0.05)
    with Tenure(spec) as tenure:
        for given in (tenure, None):
            assert provision.prepare(spec, lambda event: None, threading.Event(), tenure=given)
        wait_until(lambda: isinstance(tenure.failure, IndexTaken), what="the word that another writes")
        tenure.flow()


def test_who_was_replaced_ends_instead_of_looking_again_at_what_it_lost(spec: PipelineSpec) -> None:
    spec = replace(spec, look_s=600.0)
    met, never = GenerationGone("the index is gone"), threading.Event()
    with Tenure(spec) as tenure:
        prepared = provision.prepare(spec, lambda event: None, never, tenure=tenure)
        assert prepared is not None
        assert pipeline._begins_again(met, spec, prepared, never, tenure) is None
        assert provision.prepare(spec, lambda event: None, never)
        with pytest.raises(IndexTaken, match="a later start"):
            pipeline._begins_again(met, spec, prepared, never, tenure)
        tenure.flow()
