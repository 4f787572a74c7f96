"""The other side of the decoder: writes pgoutput messages, for tests."""

from __future__ import annotations

from struct import pack

from flusso.capture import pgoutput as m
from flusso.change import UNCHANGED, Values


def encode(message: m.Message) -> bytes:
    match message:
        case m.Begin():
            return b"B" + pack(">QqI", message.final_lsn, message.commit_time_us, message.xid)
        case m.Commit():
            return b"C\0" + pack(">QQq", message.commit_lsn, message.end_lsn, message.commit_time_us)
        case m.Origin():
            return b"O" + pack(">Q", message.lsn) + name(message.name)
        case m.Relation():
            head = b"R" + pack(">I", message.oid) + _namespace(message.namespace) + name(message.name)
            return head + message.identity.encode() + pack(">H", len(message.columns)) + _columns(message)
        case m.Type():
            return b"Y" + pack(">I", message.oid) + _namespace(message.namespace) + name(message.name)
        case m.Insert():
            return b"I" + pack(">I", message.oid) + b"N" + values(message.new)
        case m.Update():
            old = b"" if message.old is None else (message.old_kind or "").encode() + values(message.old)
            return b"U" + pack(">I", message.oid) + old + b"N" + values(message.new)
        case m.Delete():
            return b"D" + pack(">I", message.oid) + message.old_kind.encode() + values(message.old)
        case m.Truncate():
            flags = message.cascade | message.restart_identity << 1
            oids = b"".join(pack(">I", oid) for oid in message.oids)
            return b"T" + pack(">iB", len(message.oids), flags) + oids
        case m.LogicalMessage():
            head = b"M" + pack(">BQ", message.is_transactional, message.lsn) + name(message.prefix)
            return head + pack(">i", len(message.content)) + message.content


def values(row: Values) -> bytes:
    return pack(">H", len(row)) + b"".join(_value(value) for value in row)


def name(text: str) -> bytes:
    return text.encode() + b"\0"


def _namespace(text: str) -> bytes:
    """Postgres leaves its own namespace empty."""
    return name("" if text == "pg_catalog" else text)


def _value(value: str | None) -> bytes:
    if value is None:
        return b"n"
    if value == UNCHANGED:
        return b"u"
    raw = value.encode()
    return b"t" + pack(">i", len(raw)) + raw


def _columns(relation: m.Relation) -> bytes:
    return b"".join(
        pack(">B", column.is_key) + name(column.name) + pack(">Ii", column.type_oid, column.modifier)
        for column in relation.columns
    )
