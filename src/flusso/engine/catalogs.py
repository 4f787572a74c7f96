"""Watch what tables look like, and owe what a difference may have changed.

Some DDL sends nothing over the WAL: partitions that come and go, values that an ALTER rewrites, labels that
are renamed. The fingerprint of each index, in the sink's state, is compared with the catalog at each start
and, by the lookout, every few seconds while running. What matters ends the live query: `provision` looks
again, refuses what no longer fits, owes what follows, and the next query knows the tables as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flusso.builder.complete import complete
from flusso.builder.plan import IndexPlan, is_root_alone
from flusso.builder.reads import columns_read
from flusso.catalog import Catalog, TableName
from flusso.engine.continuity import plan_of
from flusso.engine.fingerprint import (
    Reads,
    find_differences,
    find_other_key,
    is_routed_alike,
    key_text,
    take,
)
from flusso.engine.ledger import Ledger
from flusso.errors import CatalogChanged, CatalogOutdated, SourceError
from flusso.postgres.connect import Connection
from flusso.postgres.shapes import TableShape, has_rows, read_shapes
from flusso.schema.model import IndexSchema
from flusso.sinks.base import IndexState


def reads_of(plan: IndexPlan, schema: IndexSchema, catalog: Catalog) -> Reads:
    """Say what an index reads, for its documents and for their references: other keys are other tokens."""
    columns = columns_read(complete(schema, catalog), catalog)
    for each in plan.references:
        columns[each.table] |= frozenset(each.key)
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
        read, before = known[entry.plan_name], entry.state.catalog
        now = take(read, shapes)
        if before and before != now:
            found = find_differences(read, before, now, lambda oid: has_rows(conn, leaves[oid]))
            for difference in found:
                ledger.owe(
                    [read.index], difference.scope, difference.reason, sink=entry.destination.sink.name
                )
        if before != now:
            ledger.remember_catalog(entry, now)


def find_rekeyed(
    states: Iterable[IndexState], reads: Mapping[str, Reads], declared: str
) -> dict[int, CatalogChanged]:
    """Say of which generations the documents have other ids by now: no write finds them any more.

    `declared` is the schema of the plan that has the index's name; a plan that does not fit has no `reads`.
    """
    found: dict[int, CatalogChanged] = {}
    for state in states:
        read = reads.get(state.index if state.schema == declared else plan_of(state))
        rekeyed = find_other_key(read, state.catalog) if read is not None and state.catalog else None
        if rekeyed is not None:
            found[state.generation] = rekeyed
    return found


def find_outdated(conn: Connection, ledger: Ledger, reads: Iterable[Reads]) -> SourceError | None:
    """Say whether a new look at everything is due; what cannot change a document is only remembered."""
    known = tuple(reads)
    shapes = _read(conn, known)
    leaves = _leaves(shapes)
    for read in known:
        now = take(read, shapes)
        for entry in ledger.of(read.index):
            before = entry.state.catalog
            if before == now:
                continue
            if not is_routed_alike(before, now):
                return CatalogOutdated(
                    f'tables, partitions or replica identities of index "{read.index}" changed'
                )
            try:
                found = find_differences(read, before, now, lambda oid: has_rows(conn, leaves[oid]))
            except CatalogChanged as error:
                return error
            if found:
                return CatalogOutdated(found[0].reason)
            ledger.remember_catalog(entry, now)
    return None


def _read(conn: Connection, reads: Iterable[Reads]) -> dict[TableName, TableShape]:
    return read_shapes(conn, {table for each in reads for table in each.columns})


def _leaves(shapes: Mapping[TableName, TableShape]) -> dict[int, TableName]:
    return {oid: name for shape in shapes.values() for oid, name in shape.leaves.items()}
