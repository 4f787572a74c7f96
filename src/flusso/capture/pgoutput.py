"""The messages of Postgres's `pgoutput` plugin, protocol version 1, as values.

Pure: any bytes give a message or a `DecodeError`, nothing else. This is the strict, complete reader;
`transactions` has a thin one of its own for the rows it watches, held to this one by its tests, and
comes here for everything rare.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

from flusso.catalog import IdentityKind
from flusso.change import UNCHANGED, Values
from flusso.errors import DecodeError
from flusso.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction starts; `final_lsn` is where its commit record begins."""

    final_lsn: Lsn
    commit_time_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends; only past `end_lsn` has all of it been received."""

    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The transaction was itself replicated from elsewhere."""

    lsn: Lsn
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A published column; `is_key` when the replica identity holds it."""

    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as its rows are sent from here on."""

    oid: int
    namespace: str
    name: str
    identity: IdentityKind
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Type:
    """A type that is not built in."""

    oid: int
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    oid: int
    new: Values


@dataclass(frozen=True, slots=True)
class Update:
    """A row changed. `old_kind` is `K` (key columns only), `O` (the whole old row) or None."""

    oid: int
    old_kind: str | None
    old: Values | None
    new: Values


@dataclass(frozen=True, slots=True)
class Delete:
    """A row is gone. `old_kind` is `K` or `O`."""

    oid: int
    old_kind: str
    old: Values


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables were emptied."""

    oids: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What `pg_logical_emit_message` wrote."""

    is_transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


Message: TypeAlias = (
    Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | LogicalMessage
)

_U8 = Struct(">B")
_U16 = Struct(">H")
_U32 = Struct(">I")
_I32 = Struct(">i")
_I64 = Struct(">q")
_U64 = Struct(">Q")


class _Cursor:
    """Reads forward through one message; running over the end is a `DecodeError`."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, form: Struct) -> int:
        try:
            (value,) = form.unpack_from(self.data, self.at)
        except struct.error:
            raise DecodeError(f"a replication message ends early, at byte {len(self.data)}") from None
        self.at += form.size
        return int(value)

    def lsn(self) -> Lsn:
        return Lsn(self.number(_U64))

    def raw(self, length: int) -> bytes:
        end = self.at + length
        if length < 0 or end > len(self.data):
            raise DecodeError(f"a replication message has a value of impossible length {length}")
        found = self.data[self.at : end]
        self.at = end
        return found

    def name(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise DecodeError("a name in a replication message does not end")
        found = _text(self.data[self.at : end])
        self.at = end + 1
        return found

    def values(self) -> Values:
        return tuple(self._value() for _ in range(self.number(_U16)))

    def _value(self) -> str | None:
        kind = self.number(_U8)
        if kind == 0x6E:
            return None
        if kind == 0x75:
            return UNCHANGED
        if kind != 0x74:
            raise DecodeError(f"a column value of unknown or binary kind 0x{kind:02x}")
        text = _text(self.raw(self.number(_I32)))
        if text == UNCHANGED:
            raise DecodeError("a column value holds a zero byte")
        return text


def decode(data: bytes) -> Message:
    """Read one whole message; anything malformed, bytes left over included, is a `DecodeError`."""
    if not data:
        raise DecodeError("an empty replication message")
    read = _READERS.get(data[0])
    if data[0] in _NOT_ASKED_FOR:
        raise DecodeError(f"a {_NOT_ASKED_FOR[data[0]]} message, which was not asked for")
    if read is None:
        raise DecodeError(f"a replication message of unknown kind 0x{data[0]:02x}")
    cursor = _Cursor(bytes(data))
    cursor.at = 1
    message = read(cursor)
    if cursor.at != len(data):
        raise DecodeError(f"a replication message has {len(data) - cursor.at} bytes too many")
    return message


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DecodeError("a text in a replication message is not utf-8") from None


def _begin(cursor: _Cursor) -> Begin:
    return Begin(cursor.lsn(), cursor.number(_I64), cursor.number(_U32))


def _commit(cursor: _Cursor) -> Commit:
    cursor.number(_U8)  # flags, unused so far
    return Commit(cursor.lsn(), cursor.lsn(), cursor.number(_I64))


def _origin(cursor: _Cursor) -> Origin:
    return Origin(cursor.lsn(), cursor.name())


def _relation(cursor: _Cursor) -> Relation:
    oid, namespace, name = cursor.number(_U32), cursor.name(), cursor.name()
    letter = chr(cursor.number(_U8))
    try:
        identity = IdentityKind(letter)
    except ValueError:
        raise DecodeError(f"relation {namespace}.{name} has the unknown identity {letter!r}") from None
    columns = tuple(_relation_column(cursor) for _ in range(cursor.number(_U16)))
    return Relation(oid, namespace or "pg_catalog", name, identity, columns)


def _relation_column(cursor: _Cursor) -> RelationColumn:
    flags = cursor.number(_U8)
    name = cursor.name()
    return RelationColumn(name, cursor.number(_U32), cursor.number(_I32), bool(flags & 1))


def _type(cursor: _Cursor) -> Type:
    return Type(cursor.number(_U32), cursor.name() or "pg_catalog", cursor.name())


def _insert(cursor: _Cursor) -> Insert:
    oid = cursor.number(_U32)
    _expect_new(cursor.number(_U8))
    return Insert(oid, cursor.values())


def _update(cursor: _Cursor) -> Update:
    oid = cursor.number(_U32)
    kind = chr(cursor.number(_U8))
    if kind == "N":
        return Update(oid, None, None, cursor.values())
    old = _old_values(cursor, kind)
    _expect_new(cursor.number(_U8))
    return Update(oid, kind, old, cursor.values())


def _delete(cursor: _Cursor) -> Delete:
    oid = cursor.number(_U32)
    kind = chr(cursor.number(_U8))
    return Delete(oid, kind, _old_values(cursor, kind))


def _old_values(cursor: _Cursor, kind: str) -> Values:
    if kind not in ("K", "O"):
        raise DecodeError(f"a row change has a tuple of unknown kind {kind!r}")
    return cursor.values()


def _expect_new(kind: int) -> None:
    if kind != 0x4E:
        raise DecodeError(f"a row change has the tuple kind 0x{kind:02x} where a new row belongs")


def _truncate(cursor: _Cursor) -> Truncate:
    count, flags = cursor.number(_I32), cursor.number(_U8)
    if count < 0 or count * _U32.size > len(cursor.data) - cursor.at:
        raise DecodeError(f"a truncate of {count} tables does not fit its message")
    return Truncate(tuple(cursor.number(_U32) for _ in range(count)), bool(flags & 1), bool(flags & 2))


def _logical_message(cursor: _Cursor) -> LogicalMessage:
    flags, lsn, prefix = cursor.number(_U8), cursor.lsn(), cursor.name()
    return LogicalMessage(bool(flags & 1), lsn, prefix, cursor.raw(cursor.number(_I32)))


_NOT_ASKED_FOR = {
    ord("S"): "stream start",
    ord("E"): "stream stop",
    ord("c"): "stream commit",
    ord("A"): "stream abort",
    ord("p"): "stream prepare",
    ord("b"): "begin prepare",
    ord("P"): "prepare",
    ord("K"): "commit prepared",
    ord("r"): "rollback prepared",
}
"""Of transactions that are sent before they commit or in two phases: later protocol versions have them."""

_READERS: dict[int, Callable[[_Cursor], Message]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
}
