"""Follow real changes without Spark: from the WAL of a database through resolve and build into dictionaries.

What a follower holds after any change must be, byte for byte, what seeding from scratch would give.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import psycopg
from kept import Kept

from fix_postgres import Database
from flusso.builder.plan import IndexPlan, compile_index, compile_referring, watched_tables
from flusso.builder.ranges import plan_ranges, read_range
from flusso.builder.read import Built, read_documents
from flusso.builder.references import tokens_of
from flusso.builder.resolve import find_owed, resolve
from flusso.capture import wire
from flusso.capture.coverage import ensure_coverage
from flusso.capture.slot import ensure_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.catalog import TableName
from flusso.change import Change, WatchedTable
from flusso.document import DocumentId, Key, id_text, key_of
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import IndexSchema, tables_of
from flusso.schema.parse import parse_schema
from flusso.sinks.base import Sink
from waiting import wait_until

_MARK = WatchedTable(TableName("public", "follower_mark"), ("id",))
Documents = dict[str, dict[str, bytes]]


class Follower:
    """Some indexes of a database, kept in step; with a sink, documents are found by their references too."""

    def __init__(
        self, database: Database, schemas: Mapping[str, str | IndexSchema], sink: Sink | None = None
    ) -> None:
        database.execute("create table follower_mark (id int primary key)")
        parsed = {
            name: parse_schema(schema, file=name) if isinstance(schema, str) else schema
            for name, schema in schemas.items()
        }
        tables = {table for schema in parsed.values() for table in tables_of(schema)}
        with database.connect() as conn:
            catalog = read_catalog(conn, tables)
            compile_ = compile_index if sink is None else compile_referring
            self.plans = [compile_(name, schema, catalog) for name, schema in parsed.items()]
            required = [WatchedTable(table, ()) for table in sorted(tables)]
            ensure_coverage(conn, "flusso", [*required, _MARK], manage=True)
            slot = f"slot_{database.name}"
            ensure_slot(conn, slot)
        self.watched = watched_tables(self.plans)
        self._stream = CaptureStream(CaptureSpec(database.dsn, slot, "flusso", (*self.watched, _MARK)))
        self._position = self._stream.start()
        self.conn = database.connect()
        # Statements of one call are one transaction, though each ends by itself.
        self._writer = psycopg.connect(database.dsn.text, autocommit=True)
        self._marks = 0
        self._kept = None if sink is None else Kept(sink, parsed)
        self.documents = self.fill()

    def stop(self) -> None:
        self._stream.stop()
        self.conn.close()
        self._writer.close()

    def fill(self) -> Documents:
        """Read every document anew and keep it with its tokens."""
        return {plan.index: self._keep(plan, self._read_all(plan)) for plan in self.plans}

    def seed(self, indexes: Collection[str] | None = None) -> Documents:
        """Read every document anew, of all indexes or of some; tokens stay those of what was built."""
        return {
            plan.index: _bodies(self._read_all(plan))
            for plan in self.plans
            if indexes is None or plan.index in indexes
        }

    def _read_all(self, plan: IndexPlan) -> list[Built]:
        parts = plan_ranges(self.conn, plan, 1)
        return [built for part in parts for batch in read_range(self.conn, plan, part) for built in batch]

    def _keep(self, plan: IndexPlan, documents: list[Built]) -> dict[str, bytes]:
        if self._kept is not None:
            self._kept.put(plan.index, documents)
        return _bodies(documents)

    def apply(self, sql: str) -> set[tuple[str, str]]:
        """Make a change, follow it, and name the documents that were built for it."""
        changes = self.read(sql)
        touched: dict[str, dict[Key, None]] = {plan.index: {} for plan in self.plans}
        for document in self.resolve(changes):
            touched[document.index][document.key] = None
        for index, id_ in self.referring(changes):
            touched[index][key_of(id_, len(self._plan(index).key))] = None
        truncated = {owed.index for owed in find_owed(self.plans, changes)}
        for plan in self.plans:
            if plan.index in truncated:
                known = (key_of(id_, len(plan.key)) for id_ in self.documents[plan.index])
                touched[plan.index].update(dict.fromkeys(known))
            self._build(plan, list(touched[plan.index]))
        return {(index, id_text(key)) for index, keys in touched.items() for key in keys}

    def resolve(self, changes: list[Change]) -> list[DocumentId]:
        """Name the documents that changes lead to."""
        found = resolve(self.conn, self.plans, changes, self.watched)
        return [each for each in found if isinstance(each, DocumentId)]

    def _plan(self, index: str) -> IndexPlan:
        return next(plan for plan in self.plans if plan.index == index)

    def referring(self, changes: list[Change]) -> set[tuple[str, str]]:
        """Look up what was built from the rows of blind changes; nobody is asked without any."""
        if self._kept is None:
            return set()
        wanted = {plan.index: tokens_of(plan.references, changes, self.watched) for plan in self.plans}
        return {
            (index, id_)
            for index, tokens in wanted.items()
            if tokens
            for id_ in self._kept.find(index, tokens)
        }

    def _build(self, plan: IndexPlan, keys: list[Key]) -> None:
        built = read_documents(self.conn, plan, keys)
        held = self.documents[plan.index]
        for each in built:
            held.pop(each.id, None)
        held.update(self._keep(plan, built))

    def read(self, *transactions: str, after: str | None = None) -> list[Change]:
        """Do something, and read on until the mark that follows it; what is done before is left out."""
        if after is not None:
            self._writer.execute(after)
            self._mark()
        for sql in transactions:
            self._writer.execute(sql)
        last = self._mark()
        found: list[Change] = []

        def has_come() -> bool:
            self._stream.wait(self._position, 0.2)
            end = self._stream.available(self._position, max_changes=1_000_000, max_bytes=1 << 30)
            for piece in self._stream.pieces(self._position, end):
                found.extend(wire.decode(piece.payload))
            self._position = end
            return any(change.new == (last,) for change in found if change.table == _MARK.name)

        wait_until(has_come, what="the mark")
        marks = [n for n, change in enumerate(found) if change.table == _MARK.name]
        return found[marks[-2] + 1 if after is not None else 0 : marks[-1]]

    def _mark(self) -> str:
        self._marks += 1
        self._writer.execute(f"insert into follower_mark values ({self._marks})")
        return str(self._marks)


def _bodies(documents: list[Built]) -> dict[str, bytes]:
    return {built.id: built.body for built in documents if built.body is not None}


@contextmanager
def following(
    database: Database, schemas: Mapping[str, str | IndexSchema], sink: Sink | None = None
) -> Iterator[Follower]:
    """Follow a database until the end of the block."""
    follower = Follower(database, schemas, sink)
    try:
        yield follower
    finally:
        follower.stop()
