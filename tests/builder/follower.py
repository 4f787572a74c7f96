"""Follow real changes without Spark: from the WAL of a database through resolve and build into dictionaries.

What a follower holds after any change must be, byte for byte, what seeding from scratch would give.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import psycopg

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
from waiting import wait_until

_MARK = WatchedTable(TableName("public", "follower_mark"), ("id",))
Documents = dict[str, dict[str, bytes]]


class Follower:
    """Some indexes of a database, kept in step."""

    def __init__(
        self, database: Database, schemas: Mapping[str, str | IndexSchema], *, keeps_references: bool = False
    ) -> None:
        database.execute("create table follower_mark (id int primary key)")
        parsed = {
            name: parse_schema(schema, file=name) if isinstance(schema, str) else schema
            for name, schema in schemas.items()
        }
        tables = {table for schema in parsed.values() for table in tables_of(schema)}
        with database.connect() as conn:
            catalog = read_catalog(conn, tables)
            compile_ = compile_referring if keeps_references else compile_index
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
        self.tokens: dict[tuple[str, str], frozenset[str]] = {}
        self.documents = self.seed()

    def stop(self) -> None:
        self._stream.stop()
        self.conn.close()
        self._writer.close()

    def seed(self, indexes: Collection[str] | None = None) -> Documents:
        """Read every document anew, as a seed does, of all indexes or of some."""
        found: Documents = {}
        conn = self.conn
        for plan in self.plans:
            if indexes is not None and plan.index not in indexes:
                continue
            batches = [batch for part in plan_ranges(conn, plan, 1) for batch in read_range(conn, plan, part)]
            found[plan.index] = {
                built.id: built.body for batch in batches for built in batch if built.body is not None
            }
            for built in (built for batch in batches for built in batch):
                self._refer(plan, built)
        return found

    def apply(self, sql: str) -> set[tuple[str, str]]:
        """Make a change, follow it, and name the documents that were built for it."""
        changes = self.read(sql)
        touched: dict[str, dict[Key, None]] = {plan.index: {} for plan in self.plans}
        for document in self.resolve(changes):
            touched[document.index][document.key] = None
        for index, id_ in self.referring(changes, self.tokens):
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

    def referring(
        self, changes: list[Change], held: Mapping[tuple[str, str], frozenset[str]]
    ) -> list[tuple[str, str]]:
        """Look up what was built from the rows of blind changes."""
        wanted = {plan.index: set(tokens_of(plan.references, changes, self.watched)) for plan in self.plans}
        return [place for place, tokens in held.items() if not tokens.isdisjoint(wanted[place[0]])]

    def _refer(self, plan: IndexPlan, built: Built) -> None:
        if built.tokens is None:
            self.tokens.pop((plan.index, built.id), None)
        else:
            self.tokens[plan.index, built.id] = frozenset(json.loads(built.tokens))

    def _build(self, plan: IndexPlan, keys: list[Key]) -> None:
        for built in read_documents(self.conn, plan, keys):
            self._refer(plan, built)
            if built.body is None:
                self.documents[plan.index].pop(built.id, None)
            else:
                self.documents[plan.index][built.id] = built.body

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


@contextmanager
def following(
    database: Database, schemas: Mapping[str, str | IndexSchema], *, keeps_references: bool = False
) -> Iterator[Follower]:
    """Follow a database until the end of the block."""
    follower = Follower(database, schemas, keeps_references=keeps_references)
    try:
        yield follower
    finally:
        follower.stop()
