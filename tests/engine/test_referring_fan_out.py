"""A row that very many documents have a token of, from its change to the last of them, without Spark."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fix_postgres import Database
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import plan_ranges
from flusso.capture import wire
from flusso.catalog import TableName
from flusso.change import ALL
from flusso.debt import BY_REFERENCES, Debt, Owed, Reach, Scope
from flusso.document import WriteReport
from flusso.engine import debts, referring, tasks, work
from flusso.engine.debts import Payer
from flusso.engine.entry import Entry
from flusso.engine.frames import changes_batch
from flusso.engine.ledger import Ledger
from flusso.engine.provision import prepare
from flusso.engine.quarantine import Quarantine
from flusso.engine.room import Room
from flusso.engine.session import SparkSpec
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.engine.work import WorkSpec
from flusso.lsn import Lsn
from flusso.postgres.connect import connect
from flusso.postgres.version import emit_version
from flusso.schema.parse import parse_schema
from flusso.sinks.base import SinkSpec
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec
from turns_here import TurnsHere

pytestmark = pytest.mark.postgres

USERS, LIMIT = 300, 100
TABLES = f"""
create table countries (id int primary key, code text unique not null, name text);
create table users (id int primary key, country text);
create index on users (country);
insert into countries select n, 'c' || n, 'country ' || n from generate_series(1, {USERS}) as n;
insert into users select n, 'c1' from generate_series(1, {USERS}) as n;
"""
SCHEMA = parse_schema(
    """
version: 1
table: users
fields:
  - belongs_to: home
    table: countries
    primary_key: code
    column: country
    fields:
      - keyword: name
""",
    file="users",
)
COUNTRIES = TableName("public", "countries")


class Scene:
    """Users of one country, referred to by a column that the identity does not show."""

    def __init__(self, database: Database, *sinks: SinkSpec, sql: str = "") -> None:
        self.database = database
        database.execute(TABLES + sql)
        spec = PipelineSpec(
            database.dsn,
            f"slot_{database.name}",
            "flusso",
            (IndexSpec("users", SCHEMA, sinks),),
            SparkSpec("local[2]"),
            BatchSpec(max_fan_out=LIMIT),
            keeps_references=True,
        )
        prepared = prepare(spec, lambda event: None, threading.Event())
        assert prepared is not None
        self.work: WorkSpec = prepared.work
        self.plan: IndexPlan = prepared.work.plans["users"]
        self.ledger = prepared.ledger
        with connect(database.dsn) as conn:
            ranges = plan_ranges(conn, self.plan, 1)
        self.turns().run(tasks.write_ranges(self.work, [ranges], 600.0), 1)
        self.ledger.finish_seed(self.ledger.entries)

    def turns(self) -> TurnsHere:
        with connect(self.database.dsn) as conn:
            version = emit_version(conn)
        kept, room = Quarantine({"users": False}), Room(2)
        return TurnsHere(None, kept, 0.01, 1, lambda: version, lambda event: None, room)  # type: ignore[arg-type]

    def move(self, *ids: int) -> list[WriteReport]:
        """Give countries other codes, and process that."""
        self.database.execute("update countries set code = 'x' || id where id = any(%s)", list(ids))
        rows = [(COUNTRIES, "U", (str(n), None), (str(n), f"x{n}"), 1, n, ALL) for n in ids]
        return reports(tasks.process_changes(self.work)(iter([changes_batch(wire.encode(rows))])))

    def owe(self, found: Sequence[WriteReport]) -> None:
        for owed in owed_of(found):
            self.ledger.owe([owed.index], owed.scope, owed.reason, Lsn(7), reach=owed.reach)

    def restart(self) -> None:
        """Forget all that the sinks do not remember."""
        self.ledger = Ledger(
            [Entry(each.destination, stored(each)) for each in self.ledger.entries if is_kept(each)]
        )

    def pay(self) -> None:
        payer = Payer(self.turns(), self.work, self.ledger)
        while owing := self.ledger.owing():
            payer._take_turn(owing[0])

    def homes(self) -> dict[str, Any]:
        """What each document shows of its country."""
        destination = self.ledger.entries[0].destination
        sink = work.sink(destination.sink)
        found = sink.read(destination.target, list(sink.ids(destination.target)))
        return {id_: json.loads(each.body)["home"] for id_, each in found.items()}


def reports(batches: tasks.Batches) -> list[Any]:
    return [pickle.loads(row) for batch in batches for row in batch.column(0).to_pylist()]


def owed_of(found: Sequence[WriteReport]) -> list[Owed]:
    return [report.owes for report in found if report.owes]


def is_kept(entry: Entry) -> bool:
    return entry.destination.sink.capabilities.keeps_state


def stored(entry: Entry) -> Any:
    return work.sink(entry.destination.sink).load_states().newest("users")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    work.forget()


@pytest.fixture
def scene(database18: Database, tmp_path: Path) -> Scene:
    return Scene(database18, SqliteSpec("local", tmp_path / "index.db"))


def test_a_batch_owes_the_tokens_of_a_row_that_too_many_documents_showed(scene: Scene) -> None:
    found = scene.move(1)
    why = "rows of public.countries changed that more than 100 documents showed"
    (owed,) = owed_of(found)
    assert (owed.index, owed.scope, owed.reason) == ("users", Scope.REACHED, why)
    assert owed.reach is not None
    assert (owed.reach.place, len(owed.reach.keys)) == (BY_REFERENCES, 1)
    assert sum(report.written for report in found) == 0


def test_the_tokens_that_are_owed_are_looked_up_beside_the_batches(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debts, "_IDS_IN_A_SHARE", 70)
    scene.owe(scene.move(1))
    (entry,) = scene.ledger.owing()
    Payer(scene.turns(), scene.work, scene.ledger)._take_turn(entry)
    assert sorted(scene.homes().values(), key=str).count(None) == 70
    scene.restart()
    scene.pay()
    assert list(scene.homes().values()) == [None] * USERS


def test_a_row_that_changes_again_while_its_tokens_are_looked_up_is_looked_up_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debts, "_IDS_IN_A_SHARE", 70)
    scene.owe(scene.move(1))
    (entry,) = scene.ledger.owing()
    payer = Payer(scene.turns(), scene.work, scene.ledger)
    payer._take_turn(entry)
    scene.owe(scene.move(1))
    assert [debt.cursor.has_begun for debt in entry.state.debts] == [True, False]


def test_rows_that_few_documents_showed_are_not_owed_however_many_they_are(
    database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(referring, "MOST_KEYS", 50)
    sink = SqliteSpec("local", tmp_path / "index.db")
    scene = Scene(database18, sink, sql="update users set country = 'c' || id")
    found = scene.move(*range(1, USERS + 1))
    assert owed_of(found) == []
    assert list(scene.homes().values()) == [None] * USERS


def test_a_sink_that_keeps_nothing_gets_what_the_other_finds(
    database18: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(database18, SqliteSpec("local", tmp_path / "index.db"), StdoutSpec("out"))
    scene.owe(scene.move(1))
    capfd.readouterr()
    scene.pay()
    assert len(capfd.readouterr().out.splitlines()) == USERS


def test_a_generation_without_references_builds_all_that_it_holds(scene: Scene) -> None:
    scene.database.execute("update countries set code = 'x' where id = 1")
    (entry,) = scene.ledger.entries
    target = replace(entry.destination.target, keeps_references=False)
    entry.destination = replace(entry.destination, target=target)
    reach = Reach(BY_REFERENCES, (("token",),))
    entry.state = replace(entry.state, debts=(Debt(Scope.REACHED, ("rows changed",), 7, reach=reach),))
    scene.pay()
    assert list(scene.homes().values()) == [None] * USERS
