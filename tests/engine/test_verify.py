"""Verifying indexes on real tables and SQLite files: what is found, what is not, and what is repaired."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.builder.read import read_documents
from flusso.debt import Debt, Scope
from flusso.engine import work
from flusso.engine.catalogs import find_outdated
from flusso.engine.events import Event, Repaired, VerifyAdvanced, VerifySettled
from flusso.engine.spec import PipelineSpec
from flusso.engine.verify import settle, verifier
from flusso.engine.verify.judge import Kind
from flusso.engine.verify.pace import Follow, Limits, Pace
from flusso.engine.work import Destination
from flusso.errors import ConfigError, IndexUnready, SourceReplaced
from flusso.lsn import Lsn
from flusso.postgres.version import emit_version
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexState
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec
from market import create_market
from pipelines import assert_exact, market_spec, published, sqlite_sink
from verifying import damage, fill, found, record, things_spec, verify, verify_one, write_documents

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody follows here, so that is known at once; and whatever a test leaves open is closed."""
    monkeypatch.setattr(settle, "LIMITS", Limits(absent_s=0.0))
    yield
    work.forget()


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> PipelineSpec:
    create_market(database18, users=40)
    return market_spec(database18, sqlite_sink(tmp_path))


PLANTED = (
    "delete from documents where id in ('3', '4')",
    """update documents set body = '{"id":5}' where id = '5'""",
    "update documents set id = 'ghost' where id = '6'",
    """update documents set body = replace(body, '"name":"user 7"', '"name":"other"') where id = '7'""",
)


def test_an_index_as_it_was_filled_agrees(database: Database, tmp_path: Path) -> None:
    create_market(database, users=40)
    spec = market_spec(database, sqlite_sink(tmp_path))
    fill(spec)
    one = verify_one(spec)
    assert (one.documents, one.held, one.remaining, one.changing) == (40, 40, 0, 0)
    assert verify(spec).agrees


def test_missing_extra_and_different_documents_are_named_with_the_paths_that_differ(
    spec: PipelineSpec,
) -> None:
    fill(spec)
    damage(spec, *PLANTED)
    one = verify_one(spec)
    assert found(one) == {
        "3": "missing",
        "4": "missing",
        "5": "different",
        "6": "missing",
        "7": "different",
        "ghost": "extra",
    }
    assert one.counts == {Kind.MISSING: 3, Kind.DIFFERENT: 2, Kind.EXTRA: 1}
    paths = {each.id: each.paths for each in one.differences}
    assert paths["7"] == ("$.name",)
    assert "$.orders" in paths["5"]


def test_a_repair_writes_what_differs_removes_what_is_extra_and_touches_nothing_else(
    database18: Database, spec: PipelineSpec
) -> None:
    fill(spec)
    damage(spec, *PLANTED)
    before = _versions(spec)
    events: list[Event] = []
    one = verify_one(spec, events.append, repairs=True)
    assert one.remaining == 0
    assert one.repaired == {Kind.MISSING: 3, Kind.DIFFERENT: 2, Kind.EXTRA: 1}
    assert {each.id for each in one.mended} == {"3", "4", "5", "6", "7", "ghost"}
    assert [event for event in events if isinstance(event, Repaired)] == [Repaired("users", "local", 5, 1)]
    after = _versions(spec)
    changed = {id_ for id_ in after if after[id_] != before.get(id_)}
    assert changed == {"3", "4", "5", "6", "7"}
    assert min(after[id_] for id_ in changed) > max(before.values())
    assert_exact(database18, spec)
    assert verify(spec).agrees


def _versions(spec: PipelineSpec) -> dict[str, int]:
    sink = spec.indexes[0].sinks[0].open()
    try:
        target = published(sink)
        return {id_: stored.version for id_, stored in sink.read(target, list(sink.ids(target))).items()}
    finally:
        sink.close()


def test_a_document_of_a_row_that_is_soft_deleted_is_extra(database18: Database, spec: PipelineSpec) -> None:
    fill(spec)
    database18.execute("update users set deleted_at = now() where id = 9")
    assert found(verify_one(spec)) == {"9": "extra"}
    assert found(verify_one(spec, repairs=True)) == {}
    assert_exact(database18, spec)


def test_that_nobody_follows_is_told_and_differences_count_as_they_are(
    database18: Database, spec: PipelineSpec
) -> None:
    fill(spec)
    assert verify_one(spec).pace is Pace.FOLLOWED, "without a suspect there is nobody to wait for"
    database18.execute("update users set name = 'new' where id = 1")
    one = verify_one(spec)
    assert one.pace is Pace.UNFOLLOWED
    assert found(one) == {"1": "different"}


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "passed over"])
def test_a_change_on_its_way_is_no_difference_unless_whoever_follows_passes_it_over(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    prepared = fill(spec)
    monkeypatch.setattr(settle, "LIMITS", Limits())
    database18.execute("update users set name = 'new' where id = 1; delete from users where id = 2")
    database18.execute("insert into users values (1000, 'come', 'x')")
    waits: list[Lsn] = []
    wait = Follow.wait

    def follow_then_wait(self: Follow, mark: Lsn) -> Pace:
        waits.append(mark)
        if is_written:
            write_documents(prepared, "users", "1", "2", "1000")
        record(prepared, spec)
        return wait(self, mark)

    monkeypatch.setattr(Follow, "wait", follow_then_wait)
    one = verify_one(spec)
    assert waits
    assert one.pace is Pace.FOLLOWED
    assert found(one) == ({} if is_written else {"1": "different", "2": "extra", "1000": "missing"})


def test_a_document_that_is_written_anew_at_every_look_is_neither_right_nor_wrong(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = fill(spec)
    database18.execute("update users set name = 'new' where id = 1")
    times = iter(range(100))

    def change_again(self: Follow, mark: Lsn) -> Pace:
        database18.execute(f"update users set name = 'name {next(times)}' where id = 1")
        write_documents(prepared, "users", "1")
        return Pace.FOLLOWED

    monkeypatch.setattr(Follow, "wait", change_again)
    one = verify_one(spec)
    assert (one.remaining, one.changing) == (0, 1)
    assert verify(spec).agrees
    assert next(times) < 15


def test_what_a_build_with_an_older_version_wrote_meanwhile_is_no_difference(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task takes its version at its start, so what it writes last may be newer than what verify built."""
    prepared = fill(spec)
    database18.execute("update users set name = 'on its way' where id = 1")
    with database18.connect() as conn:
        early = emit_version(conn)
    is_late = False

    def change_then_write(self: Follow, mark: Lsn) -> Pace:
        nonlocal is_late
        if not is_late:
            is_late = True
            database18.execute("update users set name = 'newer' where id = 1")
            with monkeypatch.context() as patch:
                patch.setattr(work, "emit_version", lambda conn: early)
                write_documents(prepared, "users", "1")
        return Pace.FOLLOWED

    monkeypatch.setattr(Follow, "wait", change_then_write)
    one = verify_one(spec)
    assert is_late
    assert (found(one), one.changing) == ({}, 0)


def test_what_a_reader_that_stands_still_has_yet_to_write_is_no_difference(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spec)
    database18.execute("update users set name = 'new' where id = 1")
    monkeypatch.setattr(settle, "LIMITS", Limits(stuck_s=0.0))
    whole = verify(spec, repairs=True)
    (one,) = whole.indexes
    assert (one.pace, one.unproven, found(one), one.repaired) == (Pace.STUCK, 1, {}, {})
    assert not whole.agrees


@pytest.mark.parametrize("writer", ["own", "foreign"])
def test_the_slot_that_an_index_is_written_through_is_followed_and_not_the_configured_one(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    fill(spec)
    foreign = f"foreign_{database18.name}"
    database18.execute(f"select pg_create_logical_replication_slot('{foreign}', 'pgoutput')")
    database18.execute("update users set name = 'new' where id = 1")
    ahead = spec.slot if writer == "own" else foreign
    wait = Follow.wait

    def advance_then_wait(self: Follow, mark: Lsn) -> Pace:
        database18.execute(f"select pg_replication_slot_advance('{ahead}', pg_current_wal_flush_lsn())")
        return wait(self, mark)

    monkeypatch.setattr(Follow, "wait", advance_then_wait)
    one = verify_one(replace(spec, slot=foreign))
    assert one.pace is (Pace.FOLLOWED if writer == "own" else Pace.UNFOLLOWED)


@pytest.mark.parametrize("is_paid", [True, False], ids=["paid", "too slow"])
def test_what_is_owed_since_it_began_is_waited_for(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch, is_paid: bool
) -> None:
    """The position of a TRUNCATE is confirmed as soon as what follows from it is owed."""
    prepared = fill(spec)
    (entry,) = prepared.ledger.entries
    monkeypatch.setattr(settle, "LIMITS", Limits(absent_s=60.0, owed_s=60.0 if is_paid else 0.0))
    wait, state_of = Follow.wait, settle.state_of

    def owe_then_wait(self: Follow, mark: Lsn) -> Pace:
        if not waits:
            prepared.ledger.owe(["users"], Scope.HELD, "orders was truncated")
        waits.append(mark)
        record(prepared, spec)
        return wait(self, mark)

    def pay_meanwhile(destination: Destination) -> IndexState:
        found = state_of(destination)
        if found.debts and is_paid:
            write_documents(prepared, "users", *map(str, range(1, 41)))
            prepared.ledger.pay(entry, entry.state.debts[0], None, 0)
        return found

    waits: list[Lsn] = []
    monkeypatch.setattr(Follow, "wait", owe_then_wait)
    monkeypatch.setattr(settle, "state_of", pay_meanwhile)
    database18.execute("delete from orders")
    one = verify_one(spec)
    assert waits
    if is_paid:
        assert (found(one), one.unproven, one.pace, one.not_exact) == ({}, 0, Pace.FOLLOWED, ())
    else:
        assert (found(one), one.pace, one.not_exact) == ({}, Pace.OWED, ("orders was truncated",))
        assert one.unproven > 0


def test_a_change_of_the_tables_that_nobody_has_noticed_yet_is_waited_for(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that is dropped sends nothing: it is noticed some seconds later, and then owed."""
    prepared = fill(spec)
    monkeypatch.setattr(settle, "LIMITS", Limits())
    wait, state_of = Follow.wait, settle.state_of
    looks = 0

    def pass_then_wait(self: Follow, mark: Lsn) -> Pace:
        record(prepared, spec)
        return wait(self, mark)

    def notice_late(destination: Destination) -> IndexState:
        nonlocal looks
        looks += 1
        if looks == 3:
            write_documents(prepared, "users", "1")
            with database18.connect() as conn:
                find_outdated(conn, prepared.ledger, prepared.reads)
        return state_of(destination)

    monkeypatch.setattr(Follow, "wait", pass_then_wait)
    monkeypatch.setattr(settle, "state_of", notice_late)
    database18.execute("cluster orders using orders_pkey")
    database18.execute("update users set name = 'new' where id = 1")
    one = verify_one(spec)
    assert looks >= 3
    assert (found(one), one.pace) == ({}, Pace.FOLLOWED)


def test_suspects_are_settled_in_pieces_and_all_are_counted(
    database18: Database, spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spec)
    monkeypatch.setattr(verifier, "_MOST_SUSPECTS", 5)
    monkeypatch.setattr(verifier, "_IDS_IN_A_SHARE", 3)
    monkeypatch.setattr(settle, "_PORTION_BYTES", 1)
    database18.execute("update users set name = 'new'; delete from users where id <= 5")
    spec = replace(spec, batch=replace(spec.batch, chunk=2))
    events: list[Event] = []
    one = verify_one(spec, events.append, repairs=True)
    assert one.repaired == {Kind.DIFFERENT: 35, Kind.EXTRA: 5}
    assert len([event for event in events if isinstance(event, VerifySettled)]) > 1
    assert_exact(database18, spec)


def test_a_table_whose_rows_move_meanwhile_is_read_again_and_counted_once(
    database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "_MOST_SUSPECTS", 1)
    database18.execute("create table things (id int primary key, name text, pad text)")
    database18.execute("insert into things select n, 'x', repeat('y', 900) from generate_series(1, 400) as n")
    spec = things_spec(database18, sqlite_sink(tmp_path))
    fill(spec)
    damage(spec, "delete from documents where id in ('1', '399', '400')")
    moved = False

    def move(event: Event) -> None:
        nonlocal moved
        if isinstance(event, VerifyAdvanced) and event.part == "rows" and not moved:
            moved = True
            database18.execute("delete from things where id between 2 and 299")
            database18.execute("cluster things using things_pkey")

    one = verify_one(spec, move)
    assert moved
    assert {id_ for id_, kind in found(one).items() if kind == "missing"} == {"1", "399", "400"}
    assert one.counts == {Kind.MISSING: 3, Kind.EXTRA: 298}
    assert (one.documents, len(one.differences)) == (102, 301)


def test_composite_keys_and_ids_that_are_hashed_are_compared_as_any_other(
    database18: Database, tmp_path: Path
) -> None:
    database18.execute("create table things (part text, id numeric, name text, primary key (part, id))")
    database18.execute(
        "insert into things values ('a|b', 1.00, 'x'), ('', 2, 'y'), (repeat('k', 600), 3, 'z'), ('d', 4, '')"
    )
    spec = things_spec(
        database18, sqlite_sink(tmp_path), "version: 1\ntable: things\nfields:\n  - text: name\n"
    )
    fill(spec)
    assert (verify_one(spec).remaining, verify_one(spec).held) == (0, 4)
    database18.execute("delete from things where id = 4; update things set name = 'new' where id in (1, 3)")
    damage(spec, "update documents set id = 'one part' where id like '|2'")
    kinds = sorted(found(verify_one(spec)).values())
    assert kinds == ["different", "different", "extra", "extra", "missing"]
    assert verify_one(spec, repairs=True).remaining == 0
    assert verify_one(spec).remaining == 0


def test_a_sample_finds_what_its_rows_show_and_does_not_claim_more(
    database18: Database, spec: PipelineSpec
) -> None:
    fill(spec)
    damage(spec, *PLANTED)
    database18.execute("update users set deleted_at = now() where id = 9")
    small = verify_one(spec, sample=10)
    assert (small.documents, small.held, small.is_sample) == (10, 0, True)
    whole = verify_one(spec, sample=1000)
    assert whole.documents == 40
    assert found(whole) == {
        "3": "missing",
        "4": "missing",
        "6": "missing",
        "5": "different",
        "7": "different",
        "9": "extra",
    }
    assert verify_one(spec, sample=1000, repairs=True).remaining == 0
    assert found(verify_one(spec)) == {"ghost": "extra"}


def test_a_repair_writes_the_references_that_the_generation_keeps(
    database18: Database, spec: PipelineSpec
) -> None:
    database18.execute("alter table orders replica identity default")
    spec = replace(spec, keeps_references=True)
    prepared = fill(spec)
    with database18.connect() as conn:
        (built,) = read_documents(conn, prepared.work.plans["users"], [("5",)])
    tokens = json.loads(built.tokens or b"[]")
    assert tokens
    damage(spec, "delete from documents where id = '5'")
    assert found(verify_one(spec, repairs=True)) == {}
    sink = spec.indexes[0].sinks[0].open()
    state = sink.load_states().serving("users")
    assert state is not None
    assert set(sink.find_references(state.target, tokens)) == {"5"}
    sink.close()


def test_each_sink_is_compared_and_repaired_by_itself(
    database18: Database, spec: PipelineSpec, tmp_path: Path
) -> None:
    other = SqliteSpec("other", str(tmp_path / "other.db"))
    index = replace(spec.indexes[0], sinks=(*spec.indexes[0].sinks, other, StdoutSpec("lines")))
    spec = replace(spec, indexes=(index,))
    fill(spec)
    damage(spec, "delete from documents where id = '3'")
    whole = verify(spec)
    assert [(one.sink, found(one)) for one in whole.indexes] == [("local", {"3": "missing"}), ("other", {})]
    assert whole.unreadable == (("users", "lines"),)
    events: list[Event] = []
    assert verify(spec, events.append, repairs=True).agrees
    assert [event.sink for event in events if isinstance(event, Repaired)] == ["local"]


def test_a_sink_that_takes_only_changes_misses_nothing(database18: Database, spec: PipelineSpec) -> None:
    index = replace(spec.indexes[0], not_backfilled=frozenset({"local"}))
    spec = replace(spec, indexes=(index,))
    prepared = fill(spec)
    write_documents(prepared, "users", "1", "2")
    database18.execute("update users set name = 'new' where id = 1")
    assert found(verify_one(spec)) == {"1": "different"}


def test_a_debt_is_told_beside_the_result_and_stays_owed(spec: PipelineSpec) -> None:
    fill(spec)
    sink = spec.indexes[0].sinks[0].open()
    state = sink.load_states().serving("users")
    assert state is not None
    debts = (Debt(Scope.WHOLE, ("the server recovered from a crash",), state.witness),)
    sink.save_state(replace(state, debts=debts))
    one = verify_one(spec, repairs=True)
    assert one.not_exact == ("the server recovered from a crash",)
    after = sink.load_states().serving("users")
    sink.close()
    assert after is not None
    assert after.debts == debts


def test_what_cannot_be_compared_is_told_with_its_remedy(database18: Database, spec: PipelineSpec) -> None:
    assert re.search(r"not seeded yet.*flusso run", _reason(spec))
    with pytest.raises(ConfigError, match=r"there is no index nobody.*users"):
        verify(spec, names=("nobody",))
    prepared = fill(spec)
    text = "version: 1\ntable: users\nfields:\n  - integer: id\n"
    other = replace(spec.indexes[0], schema=parse_schema(text, file="u.yml"))
    assert "another schema" in _reason(replace(spec, indexes=(other,)))
    lines = replace(spec.indexes[0], sinks=(StdoutSpec("lines"),))
    assert "keeps documents" in _reason(replace(spec, indexes=(lines,)))
    (entry,) = prepared.ledger.entries
    sink = spec.indexes[0].sinks[0].open()
    sink.save_state(replace(entry.state, system_identifier="1"))
    sink.close()
    (lost,) = verify(spec).uncompared
    assert isinstance(lost.error, SourceReplaced)


def _reason(spec: PipelineSpec) -> str:
    whole = verify(spec)
    (lost,) = whole.uncompared
    assert (whole.indexes, whole.agrees, type(lost.error)) == ((), False, IndexUnready)
    return str(lost.error)
