"""Transactions made of raw messages, handed on in pieces of bounded size.

Pure: the stream's reader feeds it payloads in order and gets pieces back. Only the watched columns of
watched tables are decoded, the rest is skipped over by its length; a message that does not fit is given
to `pgoutput.decode`, so that both refuse the same bytes with the same words. `rows` has the other way, by
the same steps: every column, and nothing folded.

Without pgoutput's streaming option everything received is already committed, so a large transaction
need not be kept whole: `Position` says how far into it a piece reaches.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeAlias

from flusso.capture.images import (
    DELETE,
    INSERT,
    NEW,
    OLD,
    PAD,
    UPDATE,
    Plan,
    compare,
    find_compared,
    is_cut,
    read_images,
    read_tuple,
    show_identity,
)
from flusso.capture.pgoutput import Relation, Truncate, decode
from flusso.catalog import TableName
from flusso.change import ALL, UNCHANGED, Operation, Values, WatchedTable
from flusso.errors import DecodeError
from flusso.lsn import Lsn

Row: TypeAlias = tuple[TableName, str, Values | None, Values | None, int, int, int]
"""A change before it becomes a `Change`: table, operation, old, new, commit LSN, ordinal, changed columns.
The operation of a blind one is written in capitals."""

_NOWHERE = Lsn(0)
_ROW_BYTES = 320
"""What one row costs in memory beside its text, so that byte limits hold for the process."""

_BEGIN, _COMMIT = b"BC"
_OPERATIONS = {
    INSERT: Operation.INSERT.value,
    UPDATE: Operation.UPDATE.value,
    DELETE: Operation.DELETE.value,
}
_INSERTED = Operation.INSERT.value
_TRUNCATE = Operation.TRUNCATE.value
_UNREAD = Operation.UNREAD.value
_begin = Struct(">BQqI")
_commit = Struct(">BBQQq")
_read_change = Struct(">BIBH").unpack_from
_join = b"".join


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader of the stream has come; positions compare in stream order.

    The order is that of the rows, not of `lsn`: two readers of the same transaction may have met different
    keepalives before it.
    """

    lsn: Lsn
    """Every transaction that ends here or before has been handed on whole: may be confirmed."""
    commit: Lsn = _NOWHERE
    """Commit LSN of the transaction that was handed on in part, 0 if none."""
    ordinal: int = 0
    """Row and truncate messages of that transaction already handed on. Others are not counted: the
    server sends a relation once per session, so counting it would number a replay differently."""

    @property
    def key(self) -> tuple[int, int]:
        """Commit LSN and ordinal: a row whose own are higher lies after this position."""
        return (self.commit, self.ordinal) if self.commit else (self.lsn, -1)

    def __lt__(self, other: Position) -> bool:
        return self.key < other.key

    def __le__(self, other: Position) -> bool:
        return self.key <= other.key

    def __gt__(self, other: Position) -> bool:
        return self.key > other.key

    def __ge__(self, other: Position) -> bool:
        return self.key >= other.key


@dataclass(frozen=True, slots=True)
class Held:
    """A received transaction that no new snapshot sees for long: nothing behind it can be taken."""

    xid: int
    since: float
    """In Unix time."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one transaction, up to `end`. Without rows it only moves the position."""

    end: Position
    xid: int | None
    """The transaction that must be visible before the piece may be used; None if it has no rows."""
    changes: Sequence[Any] = ()
    """Rows of whichever assembler made the piece."""
    count: int = 0
    bytes: int = 0
    unchanged: int = 0
    """Updates left out because they changed nothing that documents are made from."""


_NOTHING: tuple[Piece, ...] = ()


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
        self._watched = {
            name: (number, table)
            for number, table in enumerate(tables)
            for name in (table.name, *(table.partitions or ()))
        }
        self._by_oid = {table.oid: (number, table) for number, table in enumerate(tables) if table.oid}
        self.strangers: list[int] = []
        """Relations met that were not known, by oid: one may be a new partition of a table that is watched,
        or a new table under its name."""
        self._piece_changes = piece_changes
        self._piece_bytes = piece_bytes
        self._fold = fold
        self._lsn = start
        self._plans: dict[int, Plan | None] = {}
        # The transaction being received: kept in plain attributes, as most have a single row.
        self._is_open = False
        self._final = _NOWHERE
        self._xid = 0
        self._time_us = 0
        self._ordinal = 0
        self._rows: list[Any] = []
        self._seen: set[tuple[int, Values | None, Values | None, int]] = set()
        self._bytes = 0
        self._unchanged = 0

    def feed(self, data: bytes | memoryview, start: int = 0) -> Sequence[Piece]:
        """Take the message that begins at `start`; give the pieces that it completes, mostly none."""
        try:
            kind, oid, mark, width = _read_change(data, start)
        except struct.error:
            return self._feed_rare(bytes(data[start:]))
        operation = _OPERATIONS.get(kind)
        if operation is None:
            return self._feed_edge(kind, bytes(data[start:]))
        try:
            plan = self._plans[oid]
        except KeyError:
            raise DecodeError("a row change of a relation that was never described") from None
        if not self._is_open:
            raise DecodeError("a row change outside a transaction")
        self._ordinal += 1
        if plan is None:
            return ()
        padded = _join((data, PAD))
        try:
            if width != plan.width:
                raise ValueError
            old: Values | None = None
            new: Values | None
            changed = ALL
            if mark == NEW and kind != DELETE:
                new, end, size = read_tuple(padded, start + 8, plan.count, plan.last_places)
                if end != len(padded) - 4 and not is_cut(plan, end, padded):
                    raise ValueError
            else:
                old, new, size, changed = self._read_images(kind, mark, padded, start + 8, plan)
        except (struct.error, ValueError, IndexError):
            decode(padded[start:-4])
            raise DecodeError(f"a row change of {plan.table} does not fit its relation") from None
        return self._add(plan, operation, mark, old, new, size, changed)

    def keepalive(self, end: Lsn) -> Sequence[Piece]:
        """Take the server's word that nothing is pending up to `end`."""
        if self._is_open or end <= self._lsn:
            return ()
        self._lsn = end
        return (Piece(Position(end), None),)

    def _read_images(
        self, kind: int, mark: int, data: bytes, at: int, plan: Plan
    ) -> tuple[Values | None, Values | None, int, int]:
        old, new, size, new_at = read_images(kind, mark, data, at, plan)
        changed = ALL
        if new is not None and mark == OLD and plan.compared:
            changed = compare(data, at, new_at, plan.compared)
        if new is not None and UNCHANGED in new:
            new = tuple(
                before if value == UNCHANGED and before is not None else value
                for before, value in zip(old, new, strict=True)
            )
        # An update that left all watched columns as they were would say the same twice.
        return None if mark == OLD and old == new else old, new, size, changed

    def _add(
        self,
        plan: Plan,
        operation: str,
        mark: int,
        old: Values | None,
        new: Values | None,
        size: int,
        changed: int,
    ) -> Sequence[Piece]:
        # Before any folding: an update there and one back both changed something, and whoever looked in
        # between has seen it.
        if not changed:
            self._unchanged += 1
            return ()
        key = (plan.number, old, new, changed)
        if key in self._seen:
            return ()
        if plan.is_blind and operation != _INSERTED:
            operation = operation.upper()
            # What it does not show tells which links are lacking, whatever the catalog says by now.
            old = show_identity(plan, new) if old is None and new is not None else old
        rows, pieces = self._rows, _NOTHING
        size += self._bytes + _ROW_BYTES
        if rows and (size > self._piece_bytes or len(rows) >= self._piece_changes):
            size -= self._bytes
            pieces = self._cut()
            rows = self._rows
        if plan.count:
            rows.append((plan.table, operation, old, new, self._final, self._ordinal, changed))
        else:
            rows.append((plan.table, _UNREAD, None, None, self._final, self._ordinal, ALL))
        self._bytes = size
        if self._fold:
            self._seen.add(key)
        return pieces

    def _cut(self) -> tuple[Piece, ...]:
        """Hand on the rows so far, all of messages before the current one."""
        end = Position(self._lsn, self._final, self._ordinal - 1)
        piece = Piece(end, self._xid, self._rows, len(self._rows), self._bytes, self._unchanged)
        self._rows, self._bytes, self._unchanged = [], 0, 0
        # Folding must not reach back into what is handed on.
        self._seen.clear()
        return (piece,)

    def _feed_edge(self, kind: int, data: bytes) -> Sequence[Piece]:
        """Take the two messages that every transaction has without the detour of a decoded value."""
        if kind == _BEGIN and len(data) == _begin.size:
            _, final, time_us, xid = _begin.unpack(data)
            self._enter(Lsn(final), time_us, xid)
            return ()
        if kind == _COMMIT and len(data) == _commit.size:
            _, _, commit, end, _ = _commit.unpack(data)
            return (self._leave(commit, Lsn(end)),)
        return self._feed_rare(data)

    def _feed_rare(self, data: bytes) -> Sequence[Piece]:
        message = decode(data)
        if isinstance(message, Relation):
            self._plans[message.oid] = self._plan(message)
        elif isinstance(message, Truncate):
            return self._truncate(message.oids)
        return ()

    def _enter(self, final: Lsn, time_us: int, xid: int) -> None:
        if self._is_open:
            raise DecodeError("a transaction begins inside another")
        self._is_open, self._final, self._time_us, self._xid, self._ordinal = True, final, time_us, xid, 0

    def _leave(self, commit: int, end: Lsn) -> Piece:
        if not self._is_open or self._final != commit:
            raise DecodeError("a commit that belongs to no open transaction")
        if end <= self._lsn:
            raise DecodeError(f"a transaction ends at {end}, before what was already received")
        self._is_open, self._lsn = False, end
        rows, size, unchanged = self._rows, self._bytes, self._unchanged
        self._unchanged = 0
        if not rows:
            return Piece(Position(end), None, unchanged=unchanged)
        self._rows, self._bytes = [], 0
        self._seen.clear()
        return Piece(Position(end), self._xid, rows, len(rows), size, unchanged)

    def _truncate(self, oids: tuple[int, ...]) -> Sequence[Piece]:
        if not self._is_open:
            raise DecodeError("a truncate outside a transaction")
        self._ordinal += 1
        pieces = self._cut() if len(self._rows) >= self._piece_changes else ()
        for oid in oids:
            if oid not in self._plans:
                raise DecodeError("a truncate of a relation that was never described")
            plan = self._plans[oid]
            if plan is not None:
                # Past the limits if need be: a cut inside one message would have no position of its own.
                self._keep_truncate(plan)
        return pieces

    def _keep_truncate(self, plan: Plan) -> None:
        mark = (plan.number, None, None, ALL)
        if mark in self._seen:
            return
        self._rows.append((plan.table, _TRUNCATE, None, None, self._final, self._ordinal, ALL))
        self._bytes += _ROW_BYTES
        if self._fold:
            self._seen.add(mark)

    def _plan(self, relation: Relation) -> Plan | None:
        found = self._find(relation)
        if found is None:
            return None
        number, table = found
        present = {column.name for column in relation.columns}
        # Without a column that leads to documents no row of it does: that rows changed is all that is known.
        columns = table.columns if set(table.columns) <= present else ()
        named = {column: place for place, column in enumerate(columns)}
        places = tuple(named.get(column.name, -1) for column in relation.columns)
        until = max((at + 1 for at, place in enumerate(places) if place >= 0), default=0)
        return Plan(
            number,
            table.name,
            len(relation.columns),
            len(columns),
            places,
            tuple(named.get(column.name, -1) if column.is_key else -1 for column in relation.columns),
            places[:until],
            not set(table.links) <= {column.name for column in relation.columns if column.is_key},
            find_compared(table, relation) if columns else (),
        )

    def _find(self, relation: Relation) -> tuple[int, WatchedTable] | None:
        """Tell which watched table a relation is: its oid is the surest sign, whatever its name is now."""
        found = self._by_oid.get(relation.oid)
        if found is None:
            name = TableName(relation.namespace, relation.name)
            found = self._watched.get(name)
            if found is None or (found[1].oid and found[1].name == name):
                self.strangers.append(relation.oid)
        return found
