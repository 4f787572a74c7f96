"""What the catalog said of the tables of an index when its documents were last known to be right. Pure.

A fingerprint is text in the sink's state: it is compared at each start and every few seconds while running. A
difference that may have changed documents without a change in the WAL becomes a debt; one that leaves them
as they are (a label added to an enum, VACUUM FULL, a comment) is only written down.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flusso.catalog import Catalog, TableName
from flusso.debt import Scope
from flusso.engine.continuity import index_of
from flusso.errors import CatalogChanged
from flusso.postgres.shapes import ColumnShape, TableShape

_SAME_TEXT = ({"int2", "int4", "int8"}, {"text", "varchar", "citext"})
"""Types between which a key column may change: the ids that there are stay readable as its values."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What an index reads."""

    index: str
    root: TableName
    key: tuple[str, ...]
    """Key columns of the root, each with its type."""
    columns: Mapping[TableName, frozenset[str]]
    is_root_alone: bool
    """Whether the root's rows stand nowhere in its documents but at the top."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What may have changed documents, and which."""

    scope: Scope
    reason: str


def key_text(root: TableName, key: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    """Name the key columns with their types."""
    columns = catalog.tables[root].columns
    return tuple(f"{name} {columns[name].base}" for name in key)


def take(reads: Reads, shapes: Mapping[TableName, TableShape]) -> str:
    """Write down what an index reads, as it is now; tables and columns that are not there are left out."""
    tables = {
        str(table): _table(shapes[table], columns)
        for table, columns in sorted(reads.columns.items())
        if table in shapes
    }
    return json.dumps({"key": reads.key, "tables": tables}, sort_keys=True, separators=(",", ":"))


def _table(shape: TableShape, columns: frozenset[str]) -> dict[str, Any]:
    present = {name: _column(shape.columns[name]) for name in columns if name in shape.columns}
    files = _short(sorted(shape.files))
    return {
        "oid": shape.oid,
        "key": shape.key,
        "leaves": sorted(shape.leaves),
        "files": files,
        "identities": sorted(shape.identities),
        "columns": present,
    }


def _column(shape: ColumnShape) -> list[Any]:
    labels = {str(oid): _short(label) for oid, label in sorted(shape.labels.items())}
    return [_short(shape.meaning), shape.mark, *([labels] if labels else [])]


def _short(facts: object) -> str:
    return f"{zlib.crc32(repr(facts).encode()):08x}"


def find_differences(
    reads: Reads, before: str, now: str, has_rows: Callable[[int], bool]
) -> list[Difference]:
    """List what may have changed documents between two fingerprints. `has_rows` is asked of new partitions.

    Raises `CatalogChanged` when the ids of an index are other ones now: no document could be found by them.
    """
    if rekeyed := find_other_key(reads, before):
        raise rekeyed
    old, new = json.loads(before), json.loads(now)
    return [
        difference
        for table in sorted(reads.columns)
        if str(table) in old["tables"] and str(table) in new["tables"]
        for difference in _compare(
            reads, table, old["tables"][str(table)], new["tables"][str(table)], has_rows
        )
    ]


def is_routed_alike(before: str, now: str) -> bool:
    """Whether the same tables, keys, columns, partitions and replica identities are there: what plans and
    capture rest on."""

    def routes(text: str) -> Any:
        return [
            (name, table["key"], table["leaves"], sorted(table["columns"]), table.get("identities"))
            for name, table in json.loads(text)["tables"].items()
        ]

    return bool(routes(before) == routes(now))


def find_other_key(reads: Reads, before: str) -> CatalogChanged | None:
    """Say whether documents have other ids now than when this was written down."""
    key = tuple(json.loads(before)["key"])
    pairs = [(was.rpartition(" "), is_.rpartition(" ")) for was, is_ in zip(key, reads.key, strict=False)]
    is_readable = len(key) == len(reads.key) and all(
        was[0] == is_[0] and any({was[2], is_[2]} <= alike for alike in _SAME_TEXT)
        for was, is_ in pairs
        if was != is_
    )
    if is_readable:
        return None
    return CatalogChanged(
        f'the key of {reads.root}, the root of index "{index_of(reads.index)}", is now '
        f"({', '.join(reads.key)}) and was ({', '.join(key)}): its documents have other ids",
        hint=f"run flusso reindex {index_of(reads.index)}",
    )


def _compare(
    reads: Reads, table: TableName, old: Any, new: Any, has_rows: Callable[[int], bool]
) -> Iterator[Difference]:
    is_root = table == reads.root
    anything = Scope.WHOLE if is_root else Scope.HELD
    if old["oid"] != new["oid"]:
        yield Difference(anything, f"{table} was dropped and made again")
        return
    if any(has_rows(leaf) for leaf in sorted(set(new["leaves"]) - set(old["leaves"]))):
        yield Difference(anything, f"a partition with rows was attached to {table}")
    if set(old["leaves"]) - set(new["leaves"]):
        gone = Scope.GONE if is_root and reads.is_root_alone else Scope.HELD
        yield Difference(gone, f"a partition of {table} was detached or dropped")
    is_moved = old["files"] != new["files"]
    for name in sorted(set(old["columns"]) & set(new["columns"])):
        why = _compare_column(old["columns"][name], new["columns"][name], is_moved=is_moved)
        if why:
            yield Difference(anything, f'{why} column "{name}" of {table}')


def _compare_column(old: list[Any], new: list[Any], *, is_moved: bool) -> str | None:
    if old[0] != new[0]:
        return "another definition of"
    if is_moved and old[1] != new[1]:
        return "rewritten values of"
    labels = new[2] if len(new) > 2 else {}
    known = old[2] if len(old) > 2 else {}
    if any(labels.get(oid, label) != label for oid, label in known.items()):
        return "a renamed label of"
    return None
