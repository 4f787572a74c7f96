"""What is done at a start when the publication was not all there since the last one."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fix_postgres import Database
from flusso.capture.slot import read_slot
from flusso.engine import work
from flusso.engine.events import Event, Reseeding
from flusso.engine.lookout import Lookout
from flusso.engine.provision import Prepared, prepare
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.engine.tenure import Tenure
from flusso.errors import CoverageGap, PublicationYounger
from flusso.schema.parse import parse_schema
from market import create_market
from pipelines import market_spec, publish_seeded, sqlite_sink

pytestmark = pytest.mark.postgres

TAGS = "version: 1\ntable: tags\nfields: [{ keyword: name }]\n"


def _spec(database: Database, folder: Path, **changes: Any) -> PipelineSpec:
    """Two indexes: the market's, and one of tags."""
    made = market_spec(database, sqlite_sink(folder), **changes)
    tags = IndexSpec("tags", parse_schema(TAGS, file="tags"), made.indexes[0].sinks)
    return replace(made, indexes=(*made.indexes, tags))


def _start(spec: PipelineSpec, heard: list[Event] | None = None) -> Prepared:
    prepared = prepare(spec, (heard if heard is not None else []).append, threading.Event())
    assert prepared is not None
    return prepared


def _filled(database: Database, folder: Path, **changes: Any) -> PipelineSpec:
    """Prepare, and remember both indexes as filled."""
    create_market(database, users=3)
    spec = _spec(database, folder, **changes)
    ledger = _start(spec).ledger
    for name in ("users", "tags"):
        publish_seeded(ledger, name)
    return spec


def _slot_lsn(database: Database, spec: PipelineSpec) -> object:
    with database.connect() as conn:
        info = read_slot(conn, spec.slot)
    assert info is not None
    return info.restart_lsn


def test_a_publication_that_was_made_again_is_told_with_its_remedy(
    database: Database, tmp_path: Path
) -> None:
    spec = _filled(database, tmp_path)
    database.execute("drop publication flusso")
    for _ in range(2):  # the second time the publication may be there again, and the gap still is
        with pytest.raises(PublicationYounger, match=r"older than the publication.*flusso slot drop"):
            _start(spec)
        database.execute("drop publication if exists flusso; create publication flusso for all tables")


def test_a_member_that_was_away_concerns_only_the_indexes_that_read_it(
    database18: Database, tmp_path: Path
) -> None:
    spec = _filled(database18, tmp_path)
    database18.execute(
        "alter publication flusso drop table orders; alter publication flusso add table orders"
    )
    with pytest.raises(CoverageGap, match=r"public\.orders was added.*flusso reindex users"):
        _start(spec)
    heard: list[Event] = []
    ledger = _start(replace(spec, reseeds=True), heard).ledger
    assert [event.index for event in heard if isinstance(event, Reseeding)] == ["users"]
    assert ledger.unseeded() == ["users"]


def test_a_member_that_is_missing_is_a_gap_even_to_a_state_without_a_fingerprint(
    database18: Database, tmp_path: Path
) -> None:
    spec = _filled(database18, tmp_path)
    sink = work.sink(spec.indexes[0].sinks[0])
    for state in sink.load_states().all:
        sink.save_state(replace(state, publication=""))
    database18.execute("alter publication flusso drop table orders")
    for _ in range(2):
        with pytest.raises(CoverageGap, match=r"does not hold public\.orders"):
            _start(spec)


def test_a_reseed_after_another_publication_begins_with_another_slot(
    database: Database, tmp_path: Path
) -> None:
    spec = _filled(database, tmp_path, reseeds=True)
    before = _slot_lsn(database, spec)
    database.execute("drop publication flusso")
    ledger = _start(spec).ledger
    assert sorted(ledger.unseeded()) == ["tags", "users"]
    assert _slot_lsn(database, spec) != before


def test_a_slot_that_was_there_before_the_publication_is_made_anew(
    database: Database, tmp_path: Path
) -> None:
    create_market(database, users=3)
    spec = _spec(database, tmp_path)
    database.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", spec.slot)
    before = _slot_lsn(database, spec)
    database.execute("insert into tags values (900, 'early')")
    _start(spec)
    assert _slot_lsn(database, spec) != before
    options = "'proto_version', '1', 'publication_names', 'flusso'"
    sql = f"select count(*) from pg_logical_slot_peek_binary_changes(%s, null, null, {options})"
    database.execute("insert into tags values (901, 'late')")
    assert database.execute(sql, spec.slot) != [(0,)]


def test_an_extension_for_another_index_is_no_gap_even_if_nothing_was_saved_after_it(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=3)
    both = _spec(database18, tmp_path)
    alone = replace(both, indexes=both.indexes[1:])
    publish_seeded(_start(alone).ledger, "tags")
    sink = work.sink(both.indexes[0].sinks[0])
    before = sink.load_states().newest("tags")
    _start(both)
    after = sink.load_states().newest("tags")
    assert before is not None
    assert after is not None
    sink.save_state(replace(before, term=after.term))
    assert _start(alone).ledger.unseeded() == []
    assert _start(both).ledger.unseeded() == ["users"]


def test_a_look_while_running_finds_what_was_taken_out(database18: Database, tmp_path: Path) -> None:
    spec = _filled(database18, tmp_path)
    prepared = _start(spec)
    lookout = Lookout(spec, prepared, Tenure(spec))
    assert lookout.look() is None
    database18.execute("alter publication flusso drop table tags")
    found = lookout.look()
    assert isinstance(found, CoverageGap)
    assert "public.tags" in str(found)
