"""References: which related rows a document was built from, named so that a sink can find it by them.

Pure. Where the WAL does not carry the old link of a row, the document that the row leaves cannot be told from
the change. So each document is written with a *token* for every such row it contains, and a change looks its
own token up. A token is a short mark of the table and the row's key as the WAL shows it: the same text from a
SELECT and from the log. Relations over one table share their tokens, so a row counts once in a document.

Two rows with one token do no harm: a document is then built once more than needed.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from flusso.builder.keys import columns_of, join_texts
from flusso.builder.paths import Path
from flusso.catalog import Catalog, Table, TableName
from flusso.change import UNCHANGED, Change, WatchedTable
from flusso.document import joined
from flusso.postgres.identifiers import literal
from flusso.postgres.values import count_bytes
from flusso.schema.model import Columns

MAX_KEY_BYTES = 200
"""A longer key is hashed: tokens are terms of a search index, and many."""
_MARK_LENGTH = 4
_SHORT = (
    *("bool", "int2", "int4", "int8", "oid", "float4", "float8", "money", "uuid"),
    *("date", "time", "timetz", "timestamp", "timestamptz"),
)
"""Types that never print more than a few dozen characters."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A place in a document whose rows are kept as tokens."""

    field: str
    """Dotted name of the place, empty for the root."""
    table: TableName
    key: Columns
    """The columns whose values make the token: every old row in the WAL shows them."""

    def __str__(self) -> str:
        """Write it as a sink remembers it."""
        return json.dumps([self.field, self.table.schema, self.table.name, *self.key], ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read what `str` gave."""
        field, schema, name, *key = json.loads(text)
        return cls(field, TableName(schema, name), tuple(key))


def find_references(paths: Iterable[Path], catalog: Catalog) -> tuple[Reference, ...]:
    """List the places whose old links the WAL lacks, where the identity shows a key to know the rows by."""
    return tuple(
        Reference(path.field, path.table, key)
        for path in paths
        if is_blind(path, catalog) and (key := reference_key(catalog.tables[path.table]))
    )


def keep_fitting(
    references: Iterable[Reference], paths: Iterable[Path], catalog: Catalog
) -> tuple[Reference, ...]:
    """Leave out references of places that are not there, or whose rows the WAL shows by another key now."""
    keys = {(path.field, path.table): reference_key(catalog.tables[path.table]) for path in paths}
    return tuple(sorted({each for each in references if each.key == keys.get((each.field, each.table))}))


def is_blind(path: Path, catalog: Catalog) -> bool:
    """Whether the catalog's identities, those of all partitions together, leave a link column out."""
    return not set(path.columns) <= set(catalog.tables[path.table].identity_columns)


def reference_key(table: Table) -> Columns:
    """Choose the columns that every old row shows; its primary key if that is among them. May be empty."""
    shown = table.identity_columns
    return table.primary_key if table.primary_key and set(table.primary_key) <= set(shown) else shown


def token_sql(table: Table, key: Columns, alias: str) -> str:
    """Give the expression of a row's token."""
    columns = columns_of(table, key)
    text = join_texts(alias, columns)
    mark = _mark(table.name)
    plain = f"{literal(mark + ':').strip()} || {text}"
    if all(column.base in _SHORT and not column.is_array for column in columns):
        return plain
    hashed = f"{literal(mark + '~').strip()} || encode(sha256(convert_to({text}, 'UTF8')), 'hex')"
    return f"(case when {count_bytes(text)} <= {MAX_KEY_BYTES} then {plain} else {hashed} end)"


def token_of(table: TableName, values: Sequence[str]) -> str:
    """Name a row by its key as the WAL has it: what `token_sql` gives for the same row."""
    text = joined(values)
    encoded = text.encode()
    if len(encoded) <= MAX_KEY_BYTES:
        return f"{_mark(table)}:{text}"
    return f"{_mark(table)}~{hashlib.sha256(encoded).hexdigest()}"


def tokens_of(
    references: Collection[Reference], changes: Iterable[Change], watched: Sequence[WatchedTable]
) -> list[str]:
    """Give the tokens of the rows that were changed or went and whose old place the WAL does not tell."""
    keys = {reference.table: reference.key for reference in references}
    places = {
        table.name: [table.columns.index(name) for name in keys[table.name]]
        for table in watched
        if table.name in keys
    }
    found: dict[str, None] = {}
    for change in changes:
        where = places.get(change.table)
        if where is None or not change.is_blind or change.old is None:
            continue
        values = [change.old[n] for n in where]
        known = [value for value in values if is_shown(value)]
        if len(known) == len(values):
            found[token_of(change.table, known)] = None
    return list(found)


def tables_named(references: Iterable[Reference], tokens: Collection[str]) -> list[TableName]:
    """Say of which tables tokens are."""
    marks = {token[:_MARK_LENGTH] for token in tokens}
    return sorted({each.table for each in references if _mark(each.table) in marks})


def is_shown(value: str | None) -> TypeGuard[str]:
    """Whether the old row of a blind change has a column. No column of such an identity is ever null."""
    return value is not None and value != UNCHANGED


def _mark(table: TableName) -> str:
    """Tell the tables of an index apart in few characters."""
    return f"{zlib.crc32(str(table).encode()) & 0xFFFF:0{_MARK_LENGTH}x}"
