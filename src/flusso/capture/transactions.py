"""Transactions made of raw messages, handed on in pieces of bounded size.

Pure: the stream's reader feeds it payloads in order and gets pieces back. Only the watched columns of
watched tables are decoded, the rest is skipped over by its length; a message that does not fit is given
to `pgoutput.decode`, so that both refuse the same bytes with the same words.

Without pgoutput's streaming option everything received is already committed, so a large transaction
need not be kept whole: `Position` says how far into it a piece reaches.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import TypeAlias

from flusso.capture.pgoutput import Begin, Commit, Relation, Truncate, decode
from flusso.catalog import TableName
from flusso.change import UNCHANGED, Operation, Values, WatchedTable
from flusso.errors import DecodeError, SourceRefused
from flusso.lsn import Lsn

Row: TypeAlias = tuple[TableName, str, Values | None, Values | None, int, int]
"""A change before it becomes a `Change`: table, operation, old, new, commit LSN, ordinal."""

_NOWHERE = Lsn(0)
_ROW_BYTES = 320
"""What one row costs in memory beside its text, so that byte limits hold for the process."""

_BEGIN, _COMMIT, _RELATION, _TRUNCATE = b"BCRT"
_INSERT, _UPDATE, _DELETE = b"IUD"
_NEW, _KEY, _OLD = b"NKO"
_TEXT, _NULL, _TOAST = b"tnu"
_OPERATIONS = {
    _INSERT: Operation.INSERT.value,
    _UPDATE: Operation.UPDATE.value,
    _DELETE: Operation.DELETE.value,
}
_read_head = Struct(">BI").unpack_from
_read_oid = Struct(">I").unpack_from
_read_width = Struct(">H").unpack_from
_PAD = b"\0\0\0\0"
"""Lets the head of a last column without a length be read like any other."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """How far a reader of the stream has come; positions compare in stream order."""

    lsn: Lsn
    """Every transaction that ends here or before has been handed on whole: may be confirmed."""
    commit: Lsn = _NOWHERE
    """Commit LSN of the transaction that was handed on in part, 0 if none."""
    ordinal: int = 0
    """Row and truncate messages of that transaction already handed on. Others are not counted: the
    server sends a relation once per session, so counting it would number a replay differently."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one transaction, up to `end`. Without rows it only moves the position."""

    end: Position
    xid: int | None
    """The transaction that must be visible before the piece may be used; None if it has no rows."""
    changes: Sequence[Row] = ()
    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the watched columns of a relation are: per column its place in the row, or -1 to skip."""

    number: int
    table: TableName
    width: int
    count: int
    places: tuple[int, ...]
    key_places: tuple[int, ...]
    """The same for an old tuple that carries the identity alone: all else in it is unknown."""


@dataclass(slots=True)
class _Open:
    """The transaction being received."""

    final: Lsn
    xid: int
    ordinal: int = 0
    rows: list[Row] = field(default_factory=list)
    seen: set[object] = field(default_factory=set)
    bytes: int = 0


class Assembler:
    """Turns payloads into pieces. `start` is where the slot stood when the stream began."""

    def __init__(
        self,
        tables: Sequence[WatchedTable],
        *,
        piece_changes: int,
        piece_bytes: int,
        fold: bool = True,
        start: Lsn = _NOWHERE,
    ) -> None:
        self._watched = {table.name: (number, table) for number, table in enumerate(tables)}
        self._piece_changes = piece_changes
        self._piece_bytes = piece_bytes
        self._fold = fold
        self._lsn = start
        self._plans: dict[int, _Plan | None] = {}
        self._open: _Open | None = None

    def feed(self, data: bytes | memoryview, start: int = 0) -> Sequence[Piece]:
        """Take the message that begins at `start`; give the pieces that it completes, mostly none."""
        try:
            kind = data[start]
        except IndexError:
            raise DecodeError("an empty replication message") from None
        if kind in _OPERATIONS:
            return self._feed_row(kind, data, start)
        return self._feed_rare(bytes(data[start:]))

    def keepalive(self, end: Lsn) -> Sequence[Piece]:
        """Take the server's word that nothing is pending up to `end`."""
        if self._open is not None or end <= self._lsn:
            return ()
        self._lsn = end
        return (Piece(Position(end), None),)

    def _feed_row(self, kind: int, data: bytes | memoryview, start: int) -> Sequence[Piece]:
        opened = self._open
        try:
            plan = self._plans[_read_oid(data, start + 1)[0]]
        except struct.error:
            decode(bytes(data[start:]))
            raise
        except KeyError:
            raise DecodeError("a row change of a relation that was never described") from None
        if opened is None:
            raise DecodeError("a row change outside a transaction")
        opened.ordinal += 1
        if plan is None:
            return ()
        padded = b"".join((data[start:] if start else data, _PAD))
        try:
            old, new, size = _read_row(kind, padded, plan)
        except (struct.error, ValueError):
            decode(padded[: -len(_PAD)])
            raise DecodeError(f"a row change of {plan.table} does not fit its relation") from None
        if self._fold:
            # An update that left all watched columns as they were says the same twice.
            if old == new and kind == _UPDATE and padded[5] == _OLD:
                old = None
            key = (plan.number, old, new)
            if key in opened.seen:
                return ()
        row = (plan.table, _OPERATIONS[kind], old, new, opened.final, opened.ordinal)
        pieces = self._add(opened, row, size + _ROW_BYTES)
        if self._fold:
            opened.seen.add(key)
        return pieces

    def _add(self, opened: _Open, row: Row, size: int) -> Sequence[Piece]:
        rows = opened.rows
        if not rows or (len(rows) < self._piece_changes and opened.bytes + size <= self._piece_bytes):
            rows.append(row)
            opened.bytes += size
            return ()
        # Folding must not reach back into what is handed on, hence the new set.
        end = Position(self._lsn, opened.final, row[5] - 1)
        piece = Piece(end, opened.xid, rows, len(rows), opened.bytes)
        opened.rows, opened.seen, opened.bytes = [row], set(), size
        return (piece,)

    def _feed_rare(self, data: bytes) -> Sequence[Piece]:
        match decode(data):
            case Begin(final_lsn=final, xid=xid):
                if self._open is not None:
                    raise DecodeError("a transaction begins inside another")
                self._open = _Open(final, xid)
            case Commit(commit_lsn=commit, end_lsn=end):
                return (self._close(commit, end),)
            case Relation() as relation:
                self._plans[relation.oid] = self._plan(relation)
            case Truncate(oids=oids):
                return self._truncate(oids)
            case _:
                pass
        return ()

    def _close(self, commit: Lsn, end: Lsn) -> Piece:
        opened = self._open
        if opened is None or opened.final != commit:
            raise DecodeError("a commit that belongs to no open transaction")
        if end <= self._lsn:
            raise DecodeError(f"a transaction ends at {end}, before what was already received")
        self._open, self._lsn = None, end
        rows = opened.rows
        if not rows:
            return Piece(Position(end), None)
        return Piece(Position(end), opened.xid, rows, len(rows), opened.bytes)

    def _truncate(self, oids: tuple[int, ...]) -> Sequence[Piece]:
        opened = self._open
        if opened is None:
            raise DecodeError("a truncate outside a transaction")
        opened.ordinal += 1
        pieces: list[Piece] = []
        for oid in oids:
            if oid not in self._plans:
                raise DecodeError("a truncate of a relation that was never described")
            plan = self._plans[oid]
            if plan is None or (self._fold and (plan.number, None, None) in opened.seen):
                continue
            row = (plan.table, Operation.TRUNCATE.value, None, None, opened.final, opened.ordinal)
            pieces.extend(self._add(opened, row, _ROW_BYTES))
            opened.seen.add((plan.number, None, None))
        return pieces

    def _plan(self, relation: Relation) -> _Plan | None:
        name = TableName(relation.namespace, relation.name)
        if name not in self._watched:
            return None
        number, table = self._watched[name]
        present = {column.name for column in relation.columns}
        for column in table.columns:
            if column not in present:
                raise SourceRefused(
                    f'table {name} sends no column "{column}": it was renamed, dropped or not published',
                    hint="name the column in the schema file as the table does, and publish it",
                )
        places = {column: place for place, column in enumerate(table.columns)}
        return _Plan(
            number,
            table.name,
            len(relation.columns),
            len(table.columns),
            tuple(places.get(column.name, -1) for column in relation.columns),
            tuple(places.get(column.name, -1) if column.is_key else -1 for column in relation.columns),
        )


def _read_row(kind: int, data: bytes, plan: _Plan) -> tuple[Values | None, Values | None, int]:
    """Read old and new values of a padded row message; ValueError or struct.error if it is not one."""
    at, mark = 5, data[5]
    old: Values | None = None
    new: Values | None = None
    old_size = size = 0
    if mark != _NEW:
        if kind == _INSERT or (mark != _KEY and mark != _OLD):
            raise ValueError
        old, at, old_size = _read_tuple(data, 6, plan, plan.key_places if mark == _KEY else plan.places)
        mark = data[at]
    elif kind == _DELETE:
        raise ValueError
    if kind != _DELETE:
        if mark != _NEW:
            raise ValueError
        new, at, size = _read_tuple(data, at + 1, plan, plan.places)
        if old is not None and UNCHANGED in new:
            new = tuple(
                before if value == UNCHANGED and before is not None else value
                for before, value in zip(old, new, strict=True)
            )
    if at != len(data) - len(_PAD):
        raise ValueError
    return old, new, old_size + size


def _read_tuple(data: bytes, at: int, plan: _Plan, places: tuple[int, ...]) -> tuple[Values, int, int]:
    """Read the wanted columns of the tuple at `at`; give them, where it ends, and their size."""
    if _read_width(data, at)[0] != plan.width:
        raise ValueError
    at += 2
    values: list[str | None] = [None] * plan.count
    size = 0
    for place in places:
        kind, length = _read_head(data, at)
        if kind == _TEXT:
            at += 5
            if place >= 0:
                text = data[at : at + length].decode()
                if text == UNCHANGED:
                    raise ValueError
                values[place] = text
                size += length
            at += length
        elif kind == _NULL:
            at += 1
        elif kind == _TOAST:
            at += 1
            if place >= 0:
                values[place] = UNCHANGED
        else:
            raise ValueError
    return tuple(values), at, size
