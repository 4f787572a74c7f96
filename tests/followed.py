"""Indexes kept in step without Spark: what the engine's tasks do, one after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from fix_postgres import Database
from flusso.builder.plan import IndexPlan, compile_index, watched_tables
from flusso.builder.read import plan_ranges, read_documents, read_range
from flusso.builder.resolve import resolve, truncated_roots
from flusso.capture import wire
from flusso.capture.publication import ensure_publication
from flusso.capture.slot import ensure_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.capture.transactions import Position
from flusso.catalog import Catalog
from flusso.change import Change, WatchedTable
from flusso.document import DocumentId, key_of
from flusso.lsn import Lsn
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import IndexSchema, tables_of
from waiting import wait_until

Documents = dict[tuple[str, str], bytes]
"""Bodies by index and id."""


class Followed:
    """Indexes as dictionaries, seeded once and then kept by the stream."""

    def __init__(self, database: Database, schemas: dict[str, IndexSchema]) -> None:
        self._database = database
        self._conn = database.connect()
        self.catalog = read_catalog(self._conn, {t for schema in schemas.values() for t in tables_of(schema)})
        self.plans = compile_all(schemas, self.catalog)
        self._watched: tuple[WatchedTable, ...] = watched_tables(self.plans)
        columns = {table.name: table.columns for table in self._watched}
        ensure_publication(self._conn, "flusso", list(columns), manage=True, columns=columns)
        slot = f"slot_{database.name}"
        ensure_slot(self._conn, slot)
        self._stream = CaptureStream(CaptureSpec(database.dsn, slot, "flusso", self._watched))
        self._position = self._stream.start()
        self.documents = self.seeded()

    def seeded(self) -> Documents:
        """Everything as a seed would write it now."""
        return {
            (plan.index, built.id): built.body or b""
            for plan in self.plans
            for part in plan_ranges(self._conn, plan, 1)
            for batch in read_range(self._conn, plan, part)
            for built in batch
        }

    def catch_up(self) -> set[tuple[str, str]]:
        """Apply all that was committed so far; give what was written or removed."""
        changes = self._changes()
        touched: set[tuple[str, str]] = set()
        keys: dict[str, list[DocumentId]] = {}
        for document in [*resolve(self._conn, self.plans, changes, self._watched), *self._truncated(changes)]:
            keys.setdefault(document.index, []).append(document)
        for plan in self.plans:
            for built in read_documents(self._conn, plan, [each.key for each in keys.get(plan.index, ())]):
                touched.add((plan.index, built.id))
                if built.body is None:
                    self.documents.pop((plan.index, built.id), None)
                else:
                    self.documents[plan.index, built.id] = built.body
        return touched

    def close(self) -> None:
        self._stream.stop()
        self._conn.close()

    def _truncated(self, changes: Iterable[Change]) -> Iterator[DocumentId]:
        lengths = {plan.index: len(plan.key) for plan in self.plans}
        truncated = truncated_roots(self.plans, changes)
        return (
            DocumentId(index, key_of(id_, lengths[index]))
            for index, id_ in self.documents
            if index in truncated
        )

    def _changes(self) -> list[Change]:
        target = Lsn.parse(str(self._database.execute("select pg_current_wal_insert_lsn()")[0][0]))
        changes: list[Change] = []

        def read() -> bool:
            self._stream.wait(self._position, 0.2)
            end = self._stream.available(self._position, max_changes=1_000_000, max_bytes=1 << 30)
            changes.extend(self._take(end))
            self._position = end
            return end.lsn >= target

        wait_until(read, what=f"the stream to reach {target}")
        return changes

    def _take(self, end: Position) -> Iterator[Change]:
        for piece in self._stream.pieces(self._position, end):
            for batch in wire.decode(piece.payload):
                yield from wire.changes_of(batch)


def compile_all(schemas: dict[str, IndexSchema], catalog: Catalog) -> list[IndexPlan]:
    return [compile_index(name, schema, catalog) for name, schema in schemas.items()]


@contextmanager
def following(database: Database, schemas: dict[str, IndexSchema]) -> Iterator[Followed]:
    """Seed, then follow until the block ends."""
    followed = Followed(database, schemas)
    try:
        yield followed
    finally:
        followed.close()
