"""flusso without Spark: its own capture, its own tasks and its own sink, driven by hand one batch at a time.

What Spark would do stands here in a few lines: hand changes to tasks, collect reports, owe debts, confirm.
All else is the code that runs in production. Between any two steps others may write (`meanwhile`), an attempt
may be left behind and write when nobody expects it any more, and the whole may crash.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from fix_postgres import Database
from flusso.builder.plan import IndexPlan, compile_index, compile_referring, watched_tables
from flusso.builder.ranges import plan_ranges
from flusso.capture import wire
from flusso.capture.coverage import ensure_coverage
from flusso.capture.slot import ensure_slot
from flusso.capture.snapshot import await_settled
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Position
from flusso.catalog import TableName
from flusso.change import WatchedTable
from flusso.debt import BY_REFERENCES, Debt, Owed, Scope, join
from flusso.document import DocumentId, WriteReport, key_of
from flusso.engine import tasks, work
from flusso.engine.due import settle_due
from flusso.engine.entry import Entry
from flusso.engine.frames import ID_SCHEMA, changes_batch
from flusso.engine.ledger import Ledger
from flusso.engine.quarantine import Quarantine
from flusso.engine.room import Room
from flusso.engine.work import Destination, WorkSpec
from flusso.lsn import Lsn
from flusso.postgres.introspect import read_catalog
from flusso.postgres.version import emit_version
from flusso.schema.model import IndexSchema, tables_of
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexState, IndexTarget
from flusso.sinks.sqlite import SqliteSpec
from oracle import late
from oracle.late import LateSpec
from oracle.world import World
from turns_here import TurnsHere
from waiting import wait_until

MARK = WatchedTable(TableName("public", "oracle_mark"), ("id",))
Meanwhile = Callable[[], None]
_LOOK_S = 0.3


@dataclass(slots=True)
class Follower:
    """One world, followed."""

    database: Database
    world: World
    folder: Path
    rng: random.Random
    meanwhile: Meanwhile
    """Lets others write."""
    depart: Meanwhile
    """Lets rows go, or to another parent."""
    debts: dict[str, tuple[Debt, ...]] = field(default_factory=dict)
    _watched: tuple[WatchedTable, ...] = ()
    _stream: CaptureStream = field(init=False)
    _position: Position = field(init=False)
    _plans: dict[str, IndexPlan] = field(default_factory=dict)
    _targets: dict[str, IndexTarget] = field(default_factory=dict)
    _remembers: frozenset[Destination] = frozenset()
    """Where batches remember their tokens, because ranges that were read are written later."""
    _marks: int = 0
    _seen: int = 0

    def begin(self) -> None:
        """Publish, make the slot, wait for who is older, and start to read."""
        schemas = self._schemas()
        tables = {table for schema in schemas.values() for table in tables_of(schema)}
        self.database.execute("create table oracle_mark (id int primary key)")
        with self.database.connect() as conn:
            catalog = read_catalog(conn, tables)
            compile_ = compile_referring if self.world.identity == "default" else compile_index
            self._plans = {name: compile_(name, each, catalog) for name, each in schemas.items()}
            required = [WatchedTable(table, ()) for table in sorted(tables)]
            ensure_coverage(conn, "flusso", [*required, MARK], manage=True)
            ensure_slot(conn, self.slot)
            await_settled(conn, 60)
        self._watched = watched_tables(list(self._plans.values()))
        self._start()

    def _schemas(self) -> dict[str, IndexSchema]:
        return {name: parse_schema(text, file=name) for name, text in self.world.schemas.items()}

    def _renew(self) -> None:
        """Give every index a generation that holds nothing, and write to that one alone."""
        sink = self._sink.open()
        for name, schema in self._schemas().items():
            last = self._targets.get(name)
            keeps = bool(self._plans[name].references)
            number = 1 if last is None else last.generation + 1
            self._targets[name] = IndexTarget(name, "digest", number, keeps_references=keeps)
            sink.ensure(self._targets[name], schema)
        sink.close()

    @property
    def slot(self) -> str:
        return f"slot_{self.database.name}"

    @property
    def _sink(self) -> SqliteSpec:
        return SqliteSpec("local", str(self.folder / "index.db"))

    def _spec(self, sink: Any = None) -> WorkSpec:
        return WorkSpec(
            self.database.dsn,
            self._plans,
            self._watched,
            {name: (Destination(sink or self._sink, each),) for name, each in self._targets.items()},
            chunk=self.rng.choice((1, 3, 1000)),
            overflow=self.rng.choice((2, 5000)),
            max_fan_out=self.rng.choice((1, 3, 50_000)),
            remembers=self._remembers,
            lanes=1,
        )

    def _start(self) -> None:
        self._stream = CaptureStream(
            CaptureSpec(self.database.dsn, self.slot, "flusso", (*self._watched, MARK), piece_changes=5)
        )
        self._position = self._stream.start()

    def stop(self) -> None:
        """Let go of everything."""
        self._stream.stop()
        work.forget()
        late.drop()

    def crash(self) -> None:
        """Forget all that was not confirmed, and start again from the slot."""
        self._stream.stop()
        work.forget()
        self._start()

    def crash_in_batch(self) -> None:
        """Take a batch of all there is, and crash before any of it is written."""
        self.look()
        self._take(1000)
        self.crash()

    def _take(self, most: int) -> list[bytes]:
        end = self._stream.available(self._position, max_changes=most, max_bytes=1 << 30)
        pieces = [piece.payload for piece in self._stream.pieces(self._position, end)]
        self._position = end
        return pieces

    def step(self) -> bool:
        """Take one batch of what has arrived, if any, write it and confirm it."""
        start = self._position
        pieces = self._take(self.rng.choice((1, 4, 1000)))
        if self._position == start:
            return False
        if pieces:
            self.write(pieces)
        self._stream.confirm(self._position)
        self._note_marks(pieces)
        return True

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody write between its steps while the block runs."""
        kept, self.meanwhile = self.meanwhile, lambda: None
        try:
            yield
        finally:
            self.meanwhile = kept

    def look(self) -> bool:
        """Wait a moment for something to follow."""
        return self._stream.wait(self._position, _LOOK_S)

    def write(self, pieces: Sequence[bytes]) -> None:
        """Write what the pieces touch; sometimes an attempt is left behind, and another one does it."""
        if self.rng.random() < 0.5:
            self._attempt(pieces, LateSpec(self._sink))
            self.meanwhile()
        for report in self._attempt(pieces):
            if report.failure is not None:
                raise report.failure
            if report.owes is not None:
                self._owe(report.owes)

    def _attempt(self, pieces: Sequence[bytes], sink: LateSpec | None = None) -> list[WriteReport]:
        spec = self._spec(sink)
        batches = [changes_batch(piece) for piece in pieces]
        if self.rng.random() < 0.5:
            reports = _reports(tasks.process_changes(spec), iter(batches))
            if not any(report.is_overflow for report in reports):
                return reports
        found = list(tasks.resolve_changes(spec)(iter(batches)))
        self.meanwhile()
        return _reports(tasks.write_documents(spec), self._slowly(found))

    def _slowly(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand ids on one by one, in any order, while others write."""
        rows = list(dict.fromkeys((r["index_name"], tuple(r["key"])) for b in batches for r in b.to_pylist()))
        self.rng.shuffle(rows)
        for index, key in rows:
            yield pa.record_batch([[index], [list(key)]], schema=ID_SCHEMA)
            if self.rng.random() < 0.3:
                self.meanwhile()

    def seed(self) -> None:
        """Fill a new generation of each index while others write; some ranges write far behind the stream."""
        self._renew()
        if self.world.identity == "default":
            self._remembers = frozenset(Destination(self._sink, each) for each in self._targets.values())
        for name, plan in self._plans.items():
            with self.database.connect() as conn:
                ranges = plan_ranges(conn, plan, 0.01)
            for each in ranges:
                self.meanwhile()
                is_late = self.rng.random() < (0.7 if self._remembers else 0.4)
                run = tasks.write_ranges(self._spec(LateSpec(self._sink) if is_late else None), [[each]], 1.0)
                self._check(_turns(run, name))
                if self.rng.random() < 0.3:
                    self.step()
        if self._remembers:
            self._end_seed()

    def _end_seed(self) -> None:
        """Follow rows that go, let the last ranges write, and look up once more what was remembered."""
        for _ in range(self.rng.choice((1, 2, 4))):
            self.depart()
        self.look()
        while self.step():
            continue
        self.release()
        turns = TurnsHere(
            None,  # type: ignore[arg-type]
            Quarantine({}), 1.0, 1, lambda: emit_version(work.connection(self.database.dsn)),
            lambda _: None, Room(1),
        )  # fmt: skip
        for destination in sorted(self._remembers, key=lambda each: each.target.index):
            state = IndexState(
                destination.target.index, destination.target.digest, destination.target.generation
            )
            entry = Entry(destination, state, is_settling=True)
            settle_due(turns, self._spec(), Ledger([entry]), entry)
        self._remembers = frozenset()

    def _check(self, reports: Sequence[WriteReport]) -> None:
        for report in reports:
            if report.failure is not None:
                raise report.failure

    def _owe(self, owed: Owed) -> None:
        debt = Debt(owed.scope, (owed.reason,), Lsn(0), reach=owed.reach)
        self.debts[owed.index] = join(self.debts.get(owed.index, ()), debt)

    def pay(self) -> None:
        """Build anew what is owed, once no range of a seed is under way any more."""
        if self.debts:
            self.release()
        for index in list(self.debts):
            for debt in self.debts.pop(index):
                self._pay(index, debt)

    def _pay(self, index: str, debt: Debt) -> None:
        if debt.reach is not None and debt.reach.place == BY_REFERENCES:
            tokens = [token for (token,) in debt.reach.keys]
            self._build(index, debt, work.sink(self._sink).find_references(self._targets[index], tokens))
            return
        if debt.scope in (Scope.REACHED, Scope.WHOLE):
            with self.database.connect() as conn:
                ranges = plan_ranges(conn, self._plans[index], 0.01)
            run = tasks.write_ranges(self._spec(), [ranges], 600.0, debt.reach)
            self._check(_turns(run, index))
        if debt.scope is Scope.REACHED:
            return
        self._build(index, debt, self.ids(index))

    def _build(self, index: str, debt: Debt, ids: Iterable[str]) -> None:
        columns = len(self._plans[index].key)
        for document in [DocumentId(index, key_of(id_, columns)) for id_ in ids]:
            self.meanwhile()
            run = tasks.write_held(self._spec(), [[document]], only_gone=debt.scope is Scope.GONE)
            self._check(_reports(run, iter([_number(0)])))

    def ids(self, index: str) -> list[str]:
        sink = work.sink(self._sink)
        return list(sink.ids(self._targets[index]))

    def release(self) -> None:
        """Let what was left behind write at last."""
        late.let_go(work.sink(self._sink), self.rng)

    def settle(self) -> None:
        """Follow all that was written so far, and owe nothing."""
        self._marks += 1
        self.database.execute("insert into oracle_mark values (%s)", self._marks)

        def has_come() -> bool:
            if not self.step():
                self._stream.wait(self._position, 0.2)
            return self._seen >= self._marks

        wait_until(has_come, what="the mark")
        self.pay()
        self.release()

    def _note_marks(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            for change in wire.decode(piece):
                if change.table == MARK.name and change.new is not None:
                    self._seen = max(self._seen, int(change.new[0] or 0))

    def documents(self) -> dict[str, dict[str, bytes]]:
        """Give all that the sink holds."""
        sink = work.sink(self._sink)
        return {
            name: {id_: each.body for id_, each in sink.read(target, list(sink.ids(target))).items()}
            for name, target in self._targets.items()
        }


def _number(value: int) -> pa.RecordBatch:
    return pa.record_batch([[value]], names=["id"])


def _reports(run: Callable[[Any], Any], batches: Iterator[pa.RecordBatch]) -> list[WriteReport]:
    return [pickle.loads(each) for batch in run(batches) for each in batch.column(0).to_pylist()]


def _turns(run: Callable[[Any], Any], index: str) -> list[WriteReport]:
    turns: list[Any] = _reports(run, iter([_number(0)]))
    return [report for turn in turns for report in turn.reports]
