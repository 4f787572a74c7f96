"""The look before a pipeline starts: it refuses on errors, tells warnings once, and leaves nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fix_postgres import Database
from flusso.builder.resolve import find_hidden
from flusso.catalog import TableName
from flusso.change import Change, Operation
from flusso.debt import Scope
from flusso.diagnostic import Code, Diagnostic
from flusso.engine import work
from flusso.engine.events import Event, IdentitySet, Noticed
from flusso.engine.preflight import examine
from flusso.engine.provision import prepare, renew
from flusso.engine.spec import PipelineSpec
from flusso.errors import SchemaError, SourceRefused
from flusso.lsn import Lsn
from flusso.ops.logs import describe
from flusso.postgres.connect import Dsn
from market import create_market
from pipelines import market_spec, publish_seeded, sqlite_sink

pytestmark = pytest.mark.postgres


def test_a_deployment_that_fits_has_no_findings(database: Database, tmp_path: Path) -> None:
    create_market(database, users=3)
    with database.connect() as conn:
        assert examine(conn, market_spec(database, sqlite_sink(tmp_path))).findings == ()


def test_errors_are_raised_together_before_anything_is_made(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=3)
    database18.execute("drop table tags; alter table orders drop column total")
    with pytest.raises(SchemaError) as caught:
        prepare(market_spec(database18, sqlite_sink(tmp_path)), lambda event: None, threading.Event())
    assert {problem.code for problem in caught.value.problems} == {Code.MISSING_TABLE, Code.MISSING_COLUMN}
    assert database18.execute("select pubname from pg_publication") == []
    made = "select slot_name from pg_replication_slots where database = current_database()"
    assert database18.execute(made) == []


def test_a_server_that_is_not_ready_is_refused_as_the_source(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=3)
    role = f"guest_{database18.name}"
    database18.execute(f"create role {role} login; grant select on all tables in schema public to {role}")
    dsn = Dsn(database18.dsn.text.replace("user=flusso", f"user={role}"))
    spec = market_spec(database18, sqlite_sink(tmp_path), dsn=dsn)
    try:
        with pytest.raises(SourceRefused, match=r"may not replicate.*must own public\.categories") as caught:
            prepare(spec, lambda event: None, threading.Event())
    finally:
        database18.execute(f"drop owned by {role}; drop role {role}")
    assert caught.value.hint is not None
    assert f'alter role "{role}" replication' in caught.value.hint


def test_warnings_are_told_once_and_keep_nobody_from_starting(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=3)
    database18.execute("drop index orders_user_id_idx; alter table items replica identity default")
    events: list[Event] = []
    assert prepare(market_spec(database18, sqlite_sink(tmp_path)), events.append, threading.Event())
    told = [event.finding.code for event in events if isinstance(event, Noticed)]
    assert told == [Code.MISSING_INDEX, Code.BLIND_RELATION]
    assert describe(events[0]).startswith('warning code=missing-index index "users": field "orderCount": ')
    assert 'create index concurrently on "public"."orders" ("user_id");' in describe(events[0])


def test_managed_identities_are_set_told_and_then_exact(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=3)
    database18.execute("alter table items replica identity default")
    spec = market_spec(database18, sqlite_sink(tmp_path), manages_identity=True)
    events: list[Event] = []
    assert prepare(spec, events.append, threading.Event())
    set_by = 'alter table "public"."items" replica identity full'
    assert [event for event in events if isinstance(event, IdentitySet)] == [
        IdentitySet("public.items", set_by)
    ]
    assert [event.finding.code for event in events if isinstance(event, Noticed)] == [Code.MANAGED_IDENTITY]
    with database18.connect() as conn:
        assert examine(conn, spec).findings == ()


def test_a_managed_identity_that_somebody_alters_is_set_again_and_what_it_hid_is_owed(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=3)
    spec = market_spec(database18, sqlite_sink(tmp_path), manages_identity=True)
    prepared = prepare(spec, lambda _: None, threading.Event())
    assert prepared is not None
    database18.execute("alter table items replica identity default")
    events: list[Event] = []
    assert renew(spec, prepared, events.append, threading.Event()) is not None, "the stream goes on with it"
    work.forget()
    assert [event.table for event in events if isinstance(event, IdentitySet)] == ["public.items"]
    items = TableName("public", "items")
    (columns,) = (table.columns for table in prepared.watched if table.name == items)
    old = tuple("1" if name == "id" else None for name in columns)
    gone = Change(items, Operation.DELETE, old, None, Lsn(1), 1, is_blind=True)
    (owed,) = find_hidden(prepared.work.plans.values(), [gone], prepared.work.watched)
    assert (owed.index, owed.scope) == ("users", Scope.HELD)


def test_a_start_tells_what_is_stale_until_the_generation_with_references_serves(
    database18: Database, tmp_path: Path
) -> None:
    create_market(database18, users=3)
    spec = market_spec(database18, sqlite_sink(tmp_path), keeps_references=True)
    assert _told(spec) == []
    database18.execute("alter table items replica identity default")
    (stale,) = _told(spec)
    assert stale.code is Code.BLIND_RELATION
    assert "stale until a new generation, which keeps references, serves" in stale.message
    assert [finding.code for finding in _told(spec)] == [Code.KEPT_BY_REFERENCES]


def _told(spec: PipelineSpec) -> list[Diagnostic]:
    """Start, let readers see what is there, and give what was said."""
    events: list[Event] = []
    prepared = prepare(spec, events.append, threading.Event())
    assert prepared is not None
    publish_seeded(prepared.ledger, "users")
    work.forget()
    return [event.finding for event in events if isinstance(event, Noticed)]
