"""Turn changes into the ids of the documents they touch.

Called by the engine's tasks. A change of a root costs no SQL. Any other goes along its paths, many
changes at once: a bounded number of statements for each hop and each ten thousand values. Results are
handed on as rows come, so one row that touches a million documents does not fill the memory.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import psycopg

from flusso.builder.failure import building
from flusso.builder.keys import key_arrays
from flusso.builder.paths import Hop, Limits, Path
from flusso.builder.plan import IndexPlan, is_root_alone
from flusso.builder.references import is_shown
from flusso.catalog import TableName
from flusso.change import ALL, UNCHANGED, Change, Operation, Values, WatchedTable
from flusso.debt import MOST_KEYS, Owed, Reach, Scope
from flusso.document import DocumentId, Key
from flusso.postgres.connect import Connection

_CHUNK = 10_000
"""Values in one statement, and changes looked at together."""
_REMEMBERED = 200_000
"""Ids kept to leave out repeats; beyond that a repeat may pass, which costs a build and harms nothing."""

_names = itertools.count(1)


def resolve(
    conn: Connection,
    plans: Sequence[IndexPlan],
    changes: Iterable[Change],
    watched: Sequence[WatchedTable],
    *,
    limit: int = sys.maxsize,
) -> Iterator[DocumentId | Owed]:
    """Give the ids of all documents that the changes may have touched, those that `find_owed` names aside.

    What some values lead to along one path is owed instead of named when it is more than the limit: none of
    those documents is given then, and at most that many are in memory.

    The connection is busy, in a transaction, until the iterator has ended or is closed.
    """
    seen: set[DocumentId | Owed] = set()
    for document in _all(conn, plans, changes, watched, limit):
        if document in seen:
            continue
        if len(seen) >= _REMEMBERED:
            seen.clear()
        seen.add(document)
        yield document


def find_owed(plans: Iterable[IndexPlan], changes: Iterable[Change]) -> Iterator[Owed]:
    """Name the indexes with documents that no change leads to: which ones, and why.

    Rows that a TRUNCATE took are in no log: which documents showed them only the sinks know.
    """
    changed = {(change.table, change.operation) for change in changes if not (change.new or change.old)}
    for plan in plans:
        for table, operation in sorted(item for item in changed if item[0] in plan.reads):
            is_root = table == plan.root
            if operation is Operation.TRUNCATE:
                is_alone = is_root and is_root_alone(plan)
                yield Owed(plan.index, Scope.GONE if is_alone else Scope.HELD, f"{table} was truncated")
            else:
                why = f"{table} was changed while its columns had other names"
                yield Owed(plan.index, Scope.WHOLE if is_root else Scope.HELD, why)


def find_hidden(
    plans: Iterable[IndexPlan], changes: Iterable[Change], watched: Iterable[WatchedTable]
) -> Iterator[Owed]:
    """Name the indexes with documents that rows may have left unseen: the log shows neither the old link nor
    the key of a reference.

    The identity of a table can be another for a moment, and the catalog never tells. The log has it all: what
    a row written meanwhile does not show.
    """
    columns = {table.name: table.columns for table in watched}
    found = {(change.table, tuple(map(is_shown, change.old or ()))) for change in changes if change.is_blind}
    hidden = [(table, set(itertools.compress(columns.get(table, ()), shown))) for table, shown in found]
    for plan in plans:
        keys = {(each.field, each.table): each.key for each in plan.references}
        lost = {
            path.table
            for path in plan.paths
            for table, shown in hidden
            if path.table == table
            and path.place in plan.exact
            and not shown.issuperset(path.columns)
            and not shown.issuperset(keys.get((path.field, table), path.columns))
        }
        for table in sorted(lost):
            yield Owed(plan.index, Scope.HELD, f"the replica identity of {table} hid what rows left")


def _all(
    conn: Connection,
    plans: Sequence[IndexPlan],
    changes: Iterable[Change],
    watched: Sequence[WatchedTable],
    limit: int,
) -> Iterator[DocumentId | Owed]:
    positions = {table.name: {name: n for n, name in enumerate(table.columns)} for table in watched}
    reads = {plan.index: _bits(plan, watched) for plan in plans}
    for chunk in _chunks(changes):
        by_table: dict[TableName, list[Change]] = {}
        for change in chunk:
            by_table.setdefault(change.table, []).append(change)
        for plan in plans:
            for path in plan.paths:
                read = reads[plan.index].get(path.table, ALL)
                rows = [
                    change
                    for change in by_table.get(path.table, ())
                    if change.changed & read and (change.new or change.old)
                ]
                if rows:
                    starts = _starts(conn, path, rows, positions[path.table])
                    yield from _find(conn, plan, path, starts, limit)


def _bits(plan: IndexPlan, watched: Iterable[WatchedTable]) -> dict[TableName, int]:
    """Give the bits of the columns that an index reads: an update that changed no other leaves it alone."""
    found: dict[TableName, int] = {}
    for table in watched:
        bits, names = table.bits(), plan.columns.get(table.name, frozenset())
        if names and names <= bits.keys():
            found[table.name] = reduce(or_, (bits[name] for name in names))
    return found


def _find(
    conn: Connection, plan: IndexPlan, path: Path, starts: Sequence[Key], limit: int
) -> Iterator[DocumentId | Owed]:
    """Give the documents that values lead to, or, where they are too many, what is owed."""
    found: dict[Key, None] = {}
    for key in _climb(conn, path, starts):
        found[key] = None
        if len(found) > limit and path.hops:
            break
    else:
        yield from (DocumentId(plan.index, key) for key in found)
        return
    if len(starts) > MOST_KEYS:
        # One of them may lead to nearly all: look again by fewer, so that only those are owed.
        for part in _chunks(starts, MOST_KEYS):
            yield from _find(conn, plan, path, part, limit)
    else:
        why = f"rows of {path.table} changed that more than {limit:,} documents show"
        yield Owed(plan.index, Scope.REACHED, why, Reach(path.place, tuple(starts)))


def _starts(
    conn: Connection, path: Path, changes: Sequence[Change], positions: Mapping[str, int]
) -> list[Key]:
    """Give the values that the path begins with: those that the WAL has, and those that must be read."""
    begun, unread = _begin(changes, [positions[name] for name in path.columns])
    if unread and path.reread is not None:
        key_at = [positions[name] for name in path.key]
        rows = dict.fromkeys(tuple(change.new[n] for n in key_at) for change in unread if change.new)
        begun.update(dict.fromkeys(_hop(conn, path.reread, _known(rows), path)))
    return list(begun)


def _climb(conn: Connection, path: Path, starts: Iterable[Key]) -> Iterator[Key]:
    keys = iter(starts)
    for step in path.hops:
        keys = filter(step.fits, keys) if isinstance(step, Limits) else _hop(conn, step, keys, path)
    return keys


def _begin(changes: Iterable[Change], where: Sequence[int]) -> tuple[dict[Key, None], list[Change]]:
    """Give the distinct values that the WAL has, and the changes whose values must be read."""
    begun: dict[Key, None] = {}
    unread: list[Change] = []
    for change in changes:
        images = []
        if change.old is not None:
            images.append(tuple(change.old[n] for n in where))
        if change.new is not None:
            images.append(tuple(_current(change.new, change.old, n) for n in where))
            if UNCHANGED in images[-1]:
                unread.append(change)
        for key in _known(images):
            if UNCHANGED not in key:
                begun[key] = None
    return begun, unread


def _current(new: Values, old: Values | None, n: int) -> str | None:
    """A value that the update did not touch is the old row's."""
    if new[n] == UNCHANGED and old is not None and old[n] is not None:
        return old[n]
    return new[n]


def _known(rows: Iterable[Values]) -> Iterator[Key]:
    """Leave out tuples with a null (it refers to nothing) or an unknown."""
    for row in rows:
        if None not in row:
            yield row  # type: ignore[misc]


def _hop(conn: Connection, hop: Hop, keys: Iterable[Key], path: Path) -> Iterator[Key]:
    for chunk in _chunks(keys):
        place = f'"{path.field}"' if path.field else "the root"
        yield from _stream(conn, hop.sql, key_arrays(chunk), f"the documents of {path.table} by {place}")


def _stream(conn: Connection, sql: str, parameters: Sequence[Any], doing: str) -> Iterator[Key]:
    """Run a statement and hand on its rows as they come."""
    with building(f"cannot find {doing}"):
        with conn.transaction():
            with psycopg.RawServerCursor(conn, f"flusso_hop_{next(_names)}") as cursor:
                cursor.execute(sql.encode(), parameters)
                while rows := cursor.fetchmany(_CHUNK):
                    yield from _known(rows)


def _chunks(items: Iterable[Any], size: int | None = None) -> Iterator[list[Any]]:
    source = iter(items)
    while chunk := list(itertools.islice(source, size or _CHUNK)):
        yield chunk
