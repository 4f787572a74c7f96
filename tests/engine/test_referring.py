"""Tasks that look references up, run as Spark runs them but in this process: real Postgres, real sinks."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fix_postgres import Database
from flusso.builder.plan import compile_referring, watched_tables
from flusso.builder.ranges import plan_ranges, read_range
from flusso.builder.references import tokens_of
from flusso.capture import wire
from flusso.catalog import TableName
from flusso.change import ALL
from flusso.debt import Reach, Scope
from flusso.document import Write, WriteReport, WriteResult
from flusso.engine import due, tasks, work
from flusso.engine.debts import Payer
from flusso.engine.due import settle_due
from flusso.engine.entry import Entry
from flusso.engine.frames import changes_batch
from flusso.engine.ledger import Ledger
from flusso.engine.outcome import Totals, settle_reports
from flusso.engine.quarantine import Quarantine
from flusso.engine.room import Room
from flusso.engine.work import Destination, WorkSpec
from flusso.engine.writer import Writer
from flusso.errors import SinkUnavailable
from flusso.postgres.introspect import read_catalog
from flusso.postgres.version import emit_version
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexState, SinkSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSink, SqliteSpec
from flusso.sinks.stdout import StdoutSpec
from search_proxy import proxied_search
from turns_here import TurnsHere

pytestmark = pytest.mark.postgres

TABLES = """
create table users (id int primary key, name text);
create table orders (id int primary key, user_id int);
insert into users values (1, 'ada'), (2, 'bob');
insert into orders values (10, 1), (11, 1), (12, 2);
"""
SCHEMA = parse_schema(
    """
version: 1
table: users
fields:
  - ids: orders
    table: orders
    foreign_key: user_id
    element_type: integer
""",
    file="users",
)
ORDERS = TableName("public", "orders")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    work.forget()


@pytest.fixture
def spec(database18: Database, tmp_path: Path) -> WorkSpec:
    return made(database18, SqliteSpec("one", tmp_path / "one.db"))


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> SinkSpec:
    """One of the two kinds of sinks that keep references."""
    if request.param == "sqlite":
        return SqliteSpec("one", tmp_path / "one.db")
    found: SinkSpec = request.getfixturevalue("search_sink")
    return found


def made(database: Database, *sinks: SinkSpec, is_seeded: bool = True) -> WorkSpec:
    """Make the index in the sinks, and fill it."""
    database.execute(TABLES)
    with database.connect() as conn:
        plan = compile_referring("users", SCHEMA, read_catalog(conn, [SCHEMA.table, ORDERS]))
    references = tuple(map(str, plan.references))
    state = IndexState("users", "a" * 64, 1, is_seeded=True, references=references)
    destinations = []
    for sink in sinks:
        keeps = sink.capabilities.keeps_references
        destination = Destination(sink, replace(state.target, keeps_references=keeps))
        work.sink(sink).ensure(destination.target, SCHEMA)
        destinations.append(destination)
    spec = WorkSpec(database.dsn, {"users": plan}, watched_tables([plan]), {"users": tuple(destinations)})
    if is_seeded:
        write(spec, read_seed(spec))
    return spec


def read_seed(spec: WorkSpec) -> tuple[int, list[Any]]:
    """Build all documents and do not write them yet."""
    conn = work.connection(spec.dsn)
    version = emit_version(conn)
    plan = spec.plans["users"]
    return version, [
        built
        for part in plan_ranges(conn, plan, 1)
        for chunk in read_range(conn, plan, part)
        for built in chunk
    ]


def write(spec: WorkSpec, seed: tuple[int, list[Any]]) -> None:
    writer = Writer(spec, seed[0])  # type: ignore[arg-type]
    writer.put("users", seed[1])
    settled(writer.finish(), spec)


def reports_of(batches: Iterator[pa.RecordBatch]) -> list[WriteReport]:
    return [pickle.loads(report) for batch in batches for report in batch.column(0).to_pylist()]


def turns(spec: WorkSpec) -> TurnsHere:
    def emit() -> Any:
        return emit_version(work.connection(spec.dsn))

    return TurnsHere(None, Quarantine({"users": False}), 1.0, 1, emit, lambda _: None, Room(1))  # type: ignore[arg-type]


def settled(reports: Sequence[WriteReport], spec: WorkSpec) -> Totals:
    return settle_reports(
        reports, spec, Quarantine({"users": False}), lambda: emit_version(work.connection(spec.dsn))
    )


def process(
    spec: WorkSpec, *rows: tuple[str, tuple[str | None, ...] | None, tuple[str, ...] | None]
) -> Totals:
    """Process changes of orders: operation, in capitals when blind, old and new (id, user)."""
    payload = wire.encode(
        [(ORDERS, operation, old, new, 1, n, ALL) for n, (operation, old, new) in enumerate(rows)]
    )
    return settled(reports_of(tasks.process_changes(spec)(iter([changes_batch(payload)]))), spec)


def token_of(spec: WorkSpec, order: str) -> Sequence[str]:
    payload = wire.encode([(ORDERS, "D", (order, None), None, 1, 0, ALL)])
    return tokens_of(spec.plans["users"].references, wire.decode(payload), spec.watched)


def orders_in(spec: WorkSpec, number: int = 0) -> dict[str, list[int]]:
    destination = spec.destinations["users"][number]
    found = work.sink(destination.sink).read(destination.target, ["1", "2"])
    return {id_: json.loads(stored.body)["orders"] for id_, stored in found.items()}


def test_a_row_that_goes_leaves_its_document_though_the_log_does_not_say_which(
    database18: Database, spec: WorkSpec
) -> None:
    database18.execute("delete from orders where id = 10")
    assert process(spec, ("D", ("10", None), None)).written == 1
    assert orders_in(spec) == {"1": [11], "2": [12]}


def test_a_row_that_moves_leaves_one_document_and_joins_another(database18: Database, spec: WorkSpec) -> None:
    database18.execute("update orders set user_id = 2 where id = 10")
    assert process(spec, ("U", ("10", None), ("10", "2"))).written == 2
    assert orders_in(spec) == {"1": [11], "2": [10, 12]}


def test_what_earlier_batches_wrote_is_found(database18: Database, spec: WorkSpec) -> None:
    for user, expected in ((2, {"1": [11], "2": [10, 12]}), (1, {"1": [10, 11], "2": [12]})):
        database18.execute("update orders set user_id = %s where id = 10", user)
        process(spec, ("U", ("10", None), ("10", str(user))))
        assert orders_in(spec) == expected


def test_a_change_that_is_not_blind_asks_nobody(
    database18: Database, spec: WorkSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(SqliteSink, "find_references", lambda *_: asked.append(1) or iter(()))
    process(spec, ("d", ("10", "1"), None), ("i", None, ("13", "2")), ("u", None, ("11", "1")))
    assert asked == []
    process(
        spec, ("U", ("10", None), ("10", "1")), ("D", ("12", None), None), ("U", ("11", None), ("11", "1"))
    )
    assert asked == [1]


@pytest.mark.opensearch
def test_blind_changes_of_a_batch_cost_one_refresh_and_one_search_and_others_nothing(
    database18: Database, search_sink: OpenSearchSpec, opensearch_url: str
) -> None:
    with proxied_search(opensearch_url) as proxy:
        spec = made(database18, replace(search_sink, urls=(proxy.url,)))
        proxy.asked.clear()
        process(spec, ("d", ("10", "1"), None), ("i", None, ("13", "2")), ("u", None, ("11", "1")))
        written = [asked.path.partition("?")[0].rpartition("/")[2] for asked in proxy.asked]
        assert set(written) == {"_bulk"}
        proxy.asked.clear()
        process(
            spec,
            ("U", ("10", None), ("10", "1")),
            ("D", ("12", None), None),
            ("U", ("11", None), ("11", "1")),
        )
        asked = [asked.path.partition("?")[0].rpartition("/")[2] for asked in proxy.asked]
        assert asked == ["_refresh", "_search", *written]
        work.forget()  # while the server can be reached


def test_what_one_sink_finds_is_built_for_all(database18: Database, tmp_path: Path) -> None:
    """A batch that was written to one sink and not to another is found by the one that lacks it."""
    spec = made(database18, SqliteSpec("one", tmp_path / "one.db"), SqliteSpec("two", tmp_path / "two.db"))
    database18.execute("delete from orders where id = 10")
    one = replace(spec, destinations={"users": spec.destinations["users"][:1]})
    process(one, ("D", ("10", None), None))
    assert (orders_in(spec, 0)["1"], orders_in(spec, 1)["1"]) == ([11], [10, 11])
    process(spec, ("D", ("10", None), None))
    assert orders_in(spec, 1)["1"] == [11]


def test_beside_a_sink_that_keeps_references_stdout_gets_every_document(
    database18: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = made(database18, SqliteSpec("one", tmp_path / "one.db"), StdoutSpec("out"))
    capfd.readouterr()
    database18.execute("delete from orders where id = 10")
    process(spec, ("D", ("10", None), None))
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["document"] == {"orders": [11]}


def test_a_range_written_after_the_look_up_is_mended_when_the_seed_has_ended(
    database18: Database, either: SinkSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are read by the range, go, are looked up, and only then is the range written. What was remembered
    is looked up some at a time."""
    monkeypatch.setattr(due, "_TOKENS", 1)
    spec = made(database18, either, is_seeded=False)
    (destination,) = spec.destinations["users"]
    entry = Entry(destination, IndexState("users", destination.target.digest, 1))
    ledger = Ledger([entry])
    late = read_seed(spec)
    database18.execute("delete from orders where id in (10, 12)")
    remembering = replace(spec, remembers=ledger.remembering())
    assert process(remembering, ("D", ("10", None), None), ("D", ("12", None), None)).written == 0
    write(spec, late)
    assert orders_in(spec) == {"1": [10, 11], "2": [12]}
    entry.is_settling = True
    assert ledger.remembering() == frozenset()
    assert settle_due(turns(spec), spec, ledger, entry) > 0
    assert orders_in(spec) == {"1": [11], "2": []}
    assert settle_due(turns(spec), spec, ledger, entry) == 0


def test_beyond_what_is_remembered_all_that_is_held_is_built_when_the_seed_has_ended(
    database18: Database, either: SinkSpec
) -> None:
    spec = made(database18, either, is_seeded=False)
    (destination,) = spec.destinations["users"]
    sink, target = work.sink(destination.sink), destination.target
    ledger = Ledger([Entry(destination, IndexState("users", target.digest, 1))], most_due=1)
    late = read_seed(spec)
    for order in ("10", "12"):
        database18.execute(f"delete from orders where id = {order}")
        ledger.make_room(1)
        assert process(replace(spec, remembers=ledger.remembering()), ("D", (order, None), None)).written == 0
    assert (sink.remembered_tokens(target, 9), sink.count_tokens(target)) == (token_of(spec, "10"), 1)
    write(spec, late)
    # Another process, which knows only what the sink remembers.
    (state,) = sink.load_states().all
    entry = Entry(destination, state)
    ledger = Ledger([entry])
    assert settle_due(turns(spec), spec, ledger, entry) > 0
    assert orders_in(spec) == {"1": [11], "2": []}
    (state,) = sink.load_states().all
    assert (state.is_all_due, sink.count_tokens(target)) == (False, 0)
    assert settle_due(turns(spec), spec, ledger, entry) == 0


def test_as_many_tokens_as_documents_are_remembered_and_counted_once_more_before_it_is_too_many(
    spec: WorkSpec,
) -> None:
    (destination,) = spec.destinations["users"]
    entry = Entry(destination, IndexState("users", destination.target.digest, 1))
    ledger = Ledger([entry], most_due=1)
    tokens = token_of(spec, "10"), token_of(spec, "11")
    for changes, remembered in ((2, tokens[0]), (1, tokens[1])):
        ledger.make_room(changes)
        assert ledger.remembering() == {destination}
        work.sink(destination.sink).remember_tokens(destination.target, remembered)
    ledger.make_room(1)
    assert ledger.remembering() == frozenset()


def test_a_sink_that_cannot_be_told_that_all_is_due_is_told_again(
    spec: WorkSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (destination,) = spec.destinations["users"]
    entry = Entry(destination, IndexState("users", destination.target.digest, 1))
    ledger = Ledger([entry], most_due=0)

    def fail(*_: object) -> None:
        raise SinkUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteSink, "save_state", fail)
        ledger.make_room(3)
    assert ledger.remembering() == {destination}
    ledger.make_room(3)
    (state,) = work.sink(destination.sink).load_states().all
    assert state.is_all_due


def test_the_last_look_up_writes_nothing_while_a_batch_is_in_hand(
    database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has its version and builds a document after a row has gone from it, which the last look-up,
    under a higher version, would still have read."""
    spec = made(database18, SqliteSpec("one", tmp_path / "one.db"))
    (destination,) = spec.destinations["users"]
    entry = Entry(destination, IndexState("users", destination.target.digest, 1), is_settling=True)
    ledger = Ledger([entry])
    work.sink(destination.sink).remember_tokens(destination.target, token_of(spec, "10"))
    is_in_hand, is_over, gate = threading.Event(), threading.Event(), Gate()

    def wait_for_the_batch() -> None:
        if is_in_hand.is_set():
            gate.is_asked.set()
            is_over.wait(10)

    before_a_write(monkeypatch, wait_for_the_batch)
    last = threading.Thread(target=settle_due, args=(replace(turns(spec), gate=gate), spec, ledger, entry))  # type: ignore[arg-type]
    with gate.lock:
        is_in_hand.set()
        database18.execute("insert into orders values (13, 1)")
        version = emit_version(work.connection(spec.dsn))
        last.start()
        assert gate.is_asked.wait(10)
        database18.execute("delete from orders where id = 13")
        write(spec, (version, read_seed(spec)[1]))
        is_in_hand.clear()
    with gate.lock:
        process(replace(spec, remembers=ledger.remembering()), ("D", ("13", None), None))
    is_over.set()
    last.join(10)
    assert orders_in(spec) == {"1": [10, 11], "2": [12]}


class Gate:
    """A gate that says when somebody comes to it."""

    def __init__(self) -> None:
        self.lock, self.is_asked = threading.Lock(), threading.Event()

    def __enter__(self) -> None:
        self.is_asked.set()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


@pytest.mark.parametrize("scope", [Scope.REACHED, Scope.HELD])
def test_a_turn_written_after_the_look_up_is_mended_before_its_debt_is_paid(
    database18: Database, spec: WorkSpec, monkeypatch: pytest.MonkeyPatch, scope: Scope
) -> None:
    """The row is read by the turn, goes, is looked up, and only then is the turn written."""
    (destination,) = spec.destinations["users"]
    entry = Entry(destination, IndexState("users", destination.target.digest, 1, is_seeded=True))
    ledger = Ledger([entry])
    # No batch has built this one: what came with it is owed.
    database18.execute("insert into orders values (13, 1)")
    (path,) = (path for path in spec.plans["users"].paths if path.table == ORDERS)
    reach = Reach(path.place, (("1",),)) if scope is Scope.REACHED else None
    ledger.owe(["users"], scope, "rows came", reach=reach)

    def lose_it() -> None:
        database18.execute("delete from orders where id = 13")
        remembering = replace(spec, remembers=ledger.remembering())
        assert process(remembering, ("D", ("13", None), None)).written == 0

    written = before_a_write(monkeypatch, lose_it)
    payer = Payer(turns(spec), spec, ledger)
    while ledger.owing():
        payer._take_turn(entry)
    assert json.loads(written[0].body or b"")["orders"] == [10, 11, 13]
    assert orders_in(spec) == {"1": [10, 11], "2": [12]}


def before_a_write(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> list[Write]:
    """Do something when the next write has been read and is about to be made; give all that are made."""
    write, written, to_do = SqliteSink.write, list[Write](), [act]

    def first_act(sink: SqliteSink, *args: Any, **options: Any) -> WriteResult:
        if to_do:
            to_do.pop()()
        written.extend(args[1])
        return write(sink, *args, **options)

    monkeypatch.setattr(SqliteSink, "write", first_act)
    return written
