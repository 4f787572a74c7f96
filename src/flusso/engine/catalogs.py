"""Watch what tables look like, and owe what a difference may have changed.

Some DDL sends nothing over the WAL: partitions that come and go, values that an ALTER rewrites, labels that
are renamed. The fingerprint of each index, in the sink's state, is compared with the catalog at each start
and, by the `Lookout`, every few seconds while running. What matters ends the live query: `provision` looks
again, refuses what no longer fits, owes what follows, and the next query knows the tables as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flusso.builder.complete import complete
from flusso.builder.plan import IndexPlan, is_root_alone
from flusso.builder.reads import columns_read
from flusso.catalog import Catalog, TableName
from flusso.engine.fingerprint import Reads, find_differences, is_routed_alike, key_text, take
from flusso.engine.ledger import Ledger
from flusso.errors import CatalogChanged, CatalogOutdated, SourceError
from flusso.postgres.connect import Connection, Dsn, connect
from flusso.postgres.shapes import TableShape, has_rows, read_shapes
from flusso.schema.model import IndexSchema


def reads_of(plan: IndexPlan, schema: IndexSchema, catalog: Catalog) -> Reads:
    """Say what an index reads."""
    columns = columns_read(complete(schema, catalog), catalog)
    key = key_text(plan.root, plan.key, catalog)
    return Reads(plan.index, plan.root, key, columns, is_root_alone(plan))


def owe_differences(conn: Connection, ledger: Ledger, reads: Iterable[Reads]) -> None:
    """Compare what each sink remembers of the tables with what they are, and owe what may have changed.

    Called when no batch is in hand: what is under way might still write what it read before. A generation
    that nothing was written to yet remembers nothing.
    """
    known = {each.index: each for each in reads}
    shapes = _read(conn, known.values())
    leaves = _leaves(shapes)
    for entry in ledger.entries:
        read, before = known[entry.state.index], entry.state.catalog
        now = take(read, shapes)
        if before and before != now:
            found = find_differences(read, before, now, lambda oid: has_rows(conn, leaves[oid]))
            for difference in found:
                ledger.owe(
                    [read.index], difference.scope, difference.reason, sink=entry.destination.sink.name
                )
        if before != now:
            ledger.remember_catalog(entry, now)


def _read(conn: Connection, reads: Iterable[Reads]) -> dict[TableName, TableShape]:
    return read_shapes(conn, {table for each in reads for table in each.columns})


def _leaves(shapes: Mapping[TableName, TableShape]) -> dict[int, TableName]:
    return {oid: name for shape in shapes.values() for oid, name in shape.leaves.items()}


@dataclass(slots=True)
class Lookout:
    """Looks at the catalog now and then; `failure` says that a new look at everything is due."""

    dsn: Dsn
    reads: tuple[Reads, ...]
    ledger: Ledger
    interval_s: float
    failure: SourceError | None = None
    _is_closed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look, once; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="flusso-lookout", daemon=True)
            self._thread.start()

    def expect(self, reads: tuple[Reads, ...]) -> None:
        """Take the tables as they were just looked at for right."""
        self.reads = reads
        self.failure = None

    def close(self) -> None:
        """Look no more."""
        self._is_closed.set()

    def look(self) -> SourceError | None:
        """Look now; gives nothing when the server does not answer: others notice that."""
        try:
            with connect(self.dsn) as conn:
                return self._compare(conn)
        except SourceError:
            return None

    def _run(self) -> None:
        conn: Connection | None = None
        while not self._is_closed.wait(self.interval_s):
            try:
                if conn is None or conn.closed or conn.broken:
                    conn = connect(self.dsn)
                self.failure = self.failure or self._compare(conn)
            except SourceError:
                continue
        if conn is not None:
            conn.close()

    def _compare(self, conn: Connection) -> SourceError | None:
        shapes = _read(conn, self.reads)
        leaves = _leaves(shapes)
        for read in self.reads:
            now = take(read, shapes)
            for entry in self.ledger.of(read.index):
                before = entry.state.catalog
                if before == now:
                    continue
                if not is_routed_alike(before, now):
                    return CatalogOutdated(f'tables or partitions of index "{read.index}" came or went')
                try:
                    found = find_differences(read, before, now, lambda oid: has_rows(conn, leaves[oid]))
                except CatalogChanged as error:
                    return error
                if found:
                    return CatalogOutdated(found[0].reason)
                self.ledger.remember_catalog(entry, now)
        return None
