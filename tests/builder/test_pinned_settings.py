"""What a role or a database sets changes no byte: of documents, and of changes read from a slot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from declared import compiled, followed, root, scalar, seeded

from fix_postgres import Database
from flusso.builder.read import Built
from flusso.capture import wire
from flusso.capture.slot import ensure_slot
from flusso.capture.stream import CaptureSpec, CaptureStream
from flusso.catalog import TableName
from flusso.change import Values, WatchedTable
from flusso.postgres.connect import Dsn
from waiting import wait_until

pytestmark = pytest.mark.postgres

COLUMNS = {
    "id": ("timestamptz", "keyword", "'2024-03-04 05:06:07.891+02'"),
    "day": ("date", "date", "'2024-03-04'"),
    "moment": ("timestamp", "timestamp", "'2024-03-04 05:06:07.5'"),
    "at": ("timestamptz", "timestamp", "'2024-03-04 05:06:07+02'"),
    "clock": ("timetz", "keyword", "'05:06:07+02'"),
    "span": ("interval", "keyword", "'1 year 2 mons -3 days 04:05:06.7'"),
    "raw": ("bytea", "binary", r"'\xdeadbeef0a'"),
    "bytes": ("bytea", "keyword", r"'\xdeadbeef0a'"),
    "small": ("float4", "float", "'0.1'"),
    "large": ("float8", "double", "'0.30000000000000004'"),
    "price": ("money", "decimal", "'-1234.56'"),
    "cash": ("money", "keyword", "'1234567.89'"),
    "spans": ("interval[]", "keyword", "'{1 day,-00:00:01}'"),
    "times": ("timestamptz[]", "timestamp", "'{2024-03-04 05:06:07+02,null}'"),
    "word": ("text", "text", "'größe \\ ''quoted'' €'"),
    "area": ("box", "keyword", "'(0.1,0.2),(0.3,0.4)'"),
    "window": ("tstzrange", "keyword", "'[2024-01-01 00:00+02,2024-02-01 00:00+02)'"),
}
HOSTILE = {
    "datestyle": "'german, dmy'",
    "timezone": "'Asia/Kathmandu'",
    "bytea_output": "escape",
    "extra_float_digits": "-10",
    "intervalstyle": "iso_8601",
    "lc_monetary": "'POSIX'",
    "search_path": "evil, pg_catalog",
    "row_security": "on",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "client_encoding": "latin1",
    "xmlbinary": "hex",
    "xmloption": "document",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "default_transaction_isolation": "serializable",
    "jit": "on",
    "enable_tidscan": "off",
    "statement_timeout": "'10min'",
}


def _create(database: Database) -> None:
    types = ", ".join(f'"{name}" {kind}' for name, (kind, _, _) in COLUMNS.items())
    values = ", ".join(f"{value}::{kind}" for kind, _, value in COLUMNS.values())
    database.execute(
        f"create table things ({types}, primary key (id)); alter table things replica identity full;"
        "create publication flusso for table things; create schema evil;"
        "create function evil.to_json(anyelement) returns json language sql as $$select '1'::json$$;"
        f"insert into things values ({values})"
    )


@contextmanager
def hostile(database: Database, where: str) -> Iterator[Database]:
    """The same database as someone sees it whose every setting is odd, by the role or by the database."""
    role = f"odd_{database.name}"
    database.execute(f"create role {role} superuser login")
    owner = f"role {role}" if where == "role" else f"database {database.name}"
    seen = Database(database.server, database.name)
    seen.dsn = Dsn(database.dsn.text.replace("user=flusso", f"user={role}"))
    try:
        for name, value in HOSTILE.items():
            database.execute(f"alter {owner} set {name} = {value}")
        yield seen
    finally:
        database.execute(f"alter {owner} reset all")
        database.execute(f"drop role {role}")


SCHEMA = root("things", *(scalar(name, kind) for name, (_, kind, _) in COLUMNS.items()))


def _built(database: Database) -> list[Built]:
    plan = compiled(database, SCHEMA)
    found = seeded(database, plan)
    return [*found, *followed(database, plan, (found[0].id,))]


@pytest.mark.parametrize("where", ["role", "database"])
def test_documents_are_the_same_bytes_whatever_a_role_or_database_sets(
    database: Database, where: str
) -> None:
    _create(database)
    expected = _built(database)
    assert len(expected) == 2
    assert all(built.body for built in expected)
    with hostile(database, where) as seen:
        assert seen.execute("show timezone") == [("Asia/Kathmandu",)]
        assert _built(seen) == expected


@pytest.mark.parametrize("where", ["role", "database"])
def test_changes_are_the_same_text_whatever_a_role_or_database_sets(database18: Database, where: str) -> None:
    _create(database18)
    names = [f"{side}_{database18.name}" for side in ("plain", "odd")]
    with database18.connect() as conn:
        for name in names:
            ensure_slot(conn, name)
    database18.execute("update things set word = 'other'")
    database18.execute("delete from things")
    expected = _changes(database18, names[0])
    assert len(expected) == 2
    with hostile(database18, where) as seen:
        assert _changes(seen, names[1]) == expected


def _changes(database: Database, slot: str) -> list[tuple[Values | None, Values | None]]:
    watched = WatchedTable(TableName("public", "things"), tuple(COLUMNS))
    stream = CaptureStream(CaptureSpec(database.dsn, slot, "flusso", (watched,)))
    start = stream.start()
    try:

        def read() -> list[tuple[Values | None, Values | None]]:
            stream.wait(start, 0.2)
            end = stream.available(start, max_changes=100, max_bytes=1 << 20)
            found = [change for piece in stream.pieces(start, end) for change in wire.decode(piece.payload)]
            return [(change.old, change.new) for change in found] if len(found) == 2 else []

        return wait_until(read, what="both changes")
    finally:
        stream.stop()
