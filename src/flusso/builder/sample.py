"""Find one document to look at: that of a given id, or some.

Called by `flusso sample`. It goes through the same statements as following and seeding, so what is shown
is what would be written, byte for byte; it emits no version and writes nothing.
"""

from __future__ import annotations

import sys

import psycopg

from flusso.builder.keys import columns_of, key_arrays, match_keys
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import plan_ranges, read_range
from flusso.builder.read import Built, read_documents
from flusso.catalog import Catalog
from flusso.document import Key, is_id_alone, key_of
from flusso.errors import DocumentMissing
from flusso.postgres.connect import Connection, translated
from flusso.postgres.identifiers import quote_table

_WHOLE_TABLE_MB = float(sys.maxsize)


def some_document(conn: Connection, plan: IndexPlan) -> Built:
    """Give the first document that a seed would write."""
    for block_range in plan_ranges(conn, plan, _WHOLE_TABLE_MB):
        for part in read_range(conn, plan, block_range, chunk_bytes=1):
            return part[0]
    raise DocumentMissing(
        f'index "{plan.index}" has no document',
        hint=f"{plan.root} is empty, or filters and soft_delete leave out all of its rows",
    )


def document_of(conn: Connection, plan: IndexPlan, catalog: Catalog, id_: str) -> Built:
    """Give the document of an id as the index knows it, or say why there is none."""
    key = key_of(id_, len(plan.key))
    if not is_id_alone(key) and len(key) != len(plan.key):
        raise _missing(plan, id_, f"an id has {len(plan.key)} parts, joined by | ({', '.join(plan.key)})")
    has_row = False if is_id_alone(key) else _has_row(conn, plan, catalog, key)
    if has_row is None:
        types = ", ".join(column.type for column in columns_of(catalog.tables[plan.root], plan.key))
        raise _missing(plan, id_, f"the key of {plan.root} is {', '.join(plan.key)} ({types})")
    found = {built.id: built for built in read_documents(conn, plan, [key]) if built.body is not None}
    if id_ in found:
        return found[id_]
    if found:
        raise _missing(plan, id_, f'the row of this key is document "{next(iter(found))}"')
    if has_row:
        raise _missing(plan, id_, f"{plan.root} has the row, but filters or soft_delete leave it out")
    raise _missing(plan, id_, f"{plan.root} has no such row")


def _missing(plan: IndexPlan, id_: str, hint: str) -> DocumentMissing:
    return DocumentMissing(f'index "{plan.index}" has no document "{id_}"', hint=hint)


def _has_row(conn: Connection, plan: IndexPlan, catalog: Catalog, key: Key) -> bool | None:
    """Look for the row whatever the filters say; None when the text cannot be a key at all."""
    columns = columns_of(catalog.tables[plan.root], plan.key)
    sql = f"select exists (select from {quote_table(plan.root)} as t where {match_keys('t', columns)})"
    with translated(f"cannot look for a row of {plan.root}"):
        try:
            row = psycopg.RawCursor(conn).execute(sql.encode(), key_arrays([key])).fetchone()
        except psycopg.DataError:
            return None
    assert row is not None
    return bool(row[0])
