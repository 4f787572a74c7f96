"""A row that very many documents show, from its change to the last of them, without Spark: what tasks do runs
here, one after the other."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from faulty import FaultySpec
from fix_postgres import Database
from flusso.builder.ranges import plan_ranges
from flusso.capture import wire
from flusso.catalog import TableName
from flusso.change import ALL
from flusso.debt import Cursor, Debt, Owed, Reach, Scope
from flusso.document import WriteReport
from flusso.engine import tasks, work
from flusso.engine.debts import Payer
from flusso.engine.entry import Entry
from flusso.engine.events import DebtFound, DebtPaid, Event
from flusso.engine.frames import changes_batch
from flusso.engine.ledger import Ledger
from flusso.engine.provision import Prepared, prepare
from flusso.engine.quarantine import Quarantine
from flusso.engine.room import Room
from flusso.engine.spec import BatchSpec, PipelineSpec
from flusso.engine.tasks import Batches
from flusso.engine.turns import Turns
from flusso.lsn import Lsn
from flusso.postgres.connect import connect
from flusso.postgres.version import emit_version
from market import create_market
from pipelines import assert_exact, market_spec, sqlite_sink

pytestmark = pytest.mark.postgres

USERS = 1500
TAGS, ROOT = TableName("public", "tags"), TableName("public", "users")


class Here(Turns):
    """Turns in this process and this thread."""

    def run(self, task: Callable[[Batches], Batches], count: int) -> list[Any]:
        numbers = [pa.record_batch([[number]], names=["id"]) for number in range(count)]
        return [report for number in numbers for report in reports(task(iter([number])))]


def reports(batches: Batches) -> list[Any]:
    return [pickle.loads(row) for batch in batches for row in batch.column(0).to_pylist()]


class Scene:
    """The market, seeded, with a tag that two of three users have."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self._log = folder / "writes"
        create_market(database, users=USERS)
        database.execute(
            "insert into tags values (99, 'wide');"
            "insert into user_tags select id, 99 from users where id % 3 > 0"
        )
        batch = BatchSpec(seed_range_mb=0.01, max_fan_out=100)
        sink = FaultySpec(sqlite_sink(folder), str(folder))
        self.spec: PipelineSpec = market_spec(database, sink, batch=batch)
        prepared = prepare(self.spec, lambda event: None, threading.Event())
        assert prepared is not None
        self.prepared: Prepared = prepared
        self.ledger = prepared.ledger
        self.events: list[Event] = []
        with connect(database.dsn) as conn:
            ranges = plan_ranges(conn, prepared.work.plans["users"], 1)
        self.turns().run(tasks.write_ranges(prepared.work, [ranges], 600.0), 1)
        self.ledger.finish_seed(self.ledger.entries)
        self.ledger.publish(self.ledger.entries[0])
        self.take_written()

    def turns(self) -> Here:
        with connect(self.database.dsn) as conn:
            version = emit_version(conn)
        kept = Quarantine({"users": False})
        return Here(None, kept, 0.01, 1, lambda: version, self.events.append, Room(2))  # type: ignore[arg-type]

    def payer(self) -> Payer:
        return Payer(self.turns(), self.prepared.work, self.ledger)

    def take_written(self) -> list[str]:
        """The ids written since this was last asked."""
        found = self._log.read_text().split() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return found

    def wide(self) -> set[str]:
        rows = self.database.execute("select user_id from user_tags where tag_id = 99")
        return {str(id_) for (id_,) in rows}

    def change(self, name: str) -> Batches:
        """Rename the wide tag and user 3, who does not have it, and give the changes as a batch has them."""
        self.database.execute("update tags set name = %s where id = 99", name)
        self.database.execute("update users set name = %s where id = 3", name)
        rows = [(TAGS, "u", None, ("99",), 1, 1, ALL), (ROOT, "u", None, ("3",), 1, 2, ALL)]
        return iter([changes_batch(wire.encode(rows))])

    def owe(self, found: list[WriteReport]) -> None:
        for owed in (report.owes for report in found):
            if owed is not None:
                self.ledger.owe([owed.index], owed.scope, owed.reason, Lsn(7), reach=owed.reach)

    def restart(self) -> None:
        """Forget all that the sinks do not remember."""
        entries = []
        for entry in self.ledger.entries:
            state = work.sink(entry.destination.sink).load_states().newest("users")
            assert state is not None
            entries.append(Entry(entry.destination, state))
        self.ledger = Ledger(entries)

    def pay(self) -> None:
        payer = self.payer()
        while owing := self.ledger.owing():
            payer._take_turn(owing[0])


@pytest.fixture
def scene(database18: Database, tmp_path: Path) -> Iterator[Scene]:
    yield Scene(database18, tmp_path)
    work.forget()


def owed_of(found: list[WriteReport]) -> list[Owed]:
    return [report.owes for report in found if report.owes]


@pytest.mark.parametrize("is_small", [True, False], ids=["one stage", "two stages"])
def test_a_batch_owes_what_the_wide_row_reaches_and_writes_the_rest(scene: Scene, is_small: bool) -> None:
    spec, changes = scene.prepared.work, scene.change("wider")
    if is_small:
        found = reports(tasks.process_changes(spec)(changes))
    else:
        found = reports(tasks.write_documents(spec)(tasks.resolve_changes(spec)(changes)))
    (path,) = (path for path in spec.plans["users"].paths if path.field == "tags" and path.table == TAGS)
    reached = [owed for owed in owed_of(found) if owed.reach and owed.reach.place == path.place]
    why = "rows of public.tags changed that more than 100 documents show"
    assert reached == [Owed("users", Scope.REACHED, why, Reach(path.place, (("99",),)))]
    assert not any(report.failure for report in found)
    assert scene.take_written() == ["3"]


def test_what_is_owed_is_paid_in_turns_and_goes_on_after_a_crash(scene: Scene) -> None:
    scene.owe(reports(tasks.process_changes(scene.prepared.work)(scene.change("wider"))))
    scene.take_written()
    (entry,) = scene.ledger.owing()
    first = entry.state.debts[0]
    scene.payer()._take_turn(entry)
    paid = scene.take_written()
    assert 0 < len(paid) < len(scene.wide())
    scene.restart()
    (entry,) = scene.ledger.owing()
    assert entry.state.debts[0].cursor.block > 0
    assert entry.state.debts[0].reach == first.reach

    scene.pay()
    rest = scene.take_written()
    debts = 2  # as the tags of a user and as the ids of them
    assert sorted([*paid, *rest]) == sorted([*scene.wide()] * debts)
    assert_exact(scene.database, scene.spec)
    assert [type(event) for event in scene.events][-1] is DebtPaid


def test_a_row_that_changes_again_while_it_is_paid_is_paid_again_but_not_from_the_start(scene: Scene) -> None:
    spec = scene.prepared.work
    scene.owe(reports(tasks.process_changes(spec)(scene.change("wider"))))
    (entry,) = scene.ledger.owing()
    payer = scene.payer()
    payer._take_turn(entry)
    begun = entry.state.debts[0]
    assert begun.cursor.block > 0
    for name in ("wide again", "and again"):
        scene.owe(reports(tasks.process_changes(spec)(scene.change(name))))
    assert entry.state.debts[0] == begun
    waiting = [debt for debt in entry.state.debts[1:] if debt.reach and begun.reach and
               debt.reach.place == begun.reach.place]  # fmt: skip
    assert [debt.cursor for debt in waiting] == [Cursor()]
    scene.pay()
    assert_exact(scene.database, scene.spec)
    assert len([event for event in scene.events if isinstance(event, DebtFound)]) > 1


def test_a_debt_along_a_path_that_is_no_longer_there_is_paid_as_one_of_everything(scene: Scene) -> None:
    scene.database.execute("update users set name = 'unseen'")
    (entry,) = scene.ledger.entries
    debt = Debt(Scope.REACHED, ("rows changed",), 7, reach=Reach("no such path", (("99",),)))
    entry.state = replace(entry.state, debts=(debt,))
    scene.pay()
    assert_exact(scene.database, scene.spec)
