"""Ids that are hashes: every row with a long key is looked at to find theirs, once for many of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from fix_postgres import Database
from flusso.builder.plan import IndexPlan, compile_index
from flusso.builder.read import read_documents
from flusso.document import DocumentId, Key, id_text, key_of
from flusso.engine import tasks, work
from flusso.engine.work import Destination, WorkSpec
from flusso.postgres.connect import Connection
from flusso.postgres.introspect import read_catalog
from flusso.schema.parse import parse_schema
from flusso.sinks.base import IndexTarget
from flusso.sinks.sqlite import SqliteSpec

pytestmark = pytest.mark.postgres

SCHEMA = parse_schema("version: 1\ntable: things\nfields: [{ integer: n }]\n", file="things")
TARGET = IndexTarget("things", "a" * 64, 1)
LONG: list[Key] = [(letter * 600,) for letter in "abcd"]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    work.forget()


@pytest.fixture
def plan(database18: Database) -> IndexPlan:
    """A table in which an index leads to the rows of keys; all long ones but the last are there."""
    database18.execute(
        "create table things (id text primary key, n int);"
        "insert into things select repeat('short', 20) || n, n from generate_series(1, 3000) as n;"
    )
    for key in LONG[:-1]:
        database18.execute("insert into things values (%s, 1)", key[0])
    database18.execute("analyze things")
    with database18.connect() as conn:
        return compile_index("things", SCHEMA, read_catalog(conn, [SCHEMA.table]))


@contextmanager
def passes(conn: Connection, expected: int) -> Iterator[None]:
    """See how often the whole table is read by this connection."""

    def count() -> int:
        sql = "select seq_scan from pg_stat_xact_user_tables where relname = 'things'"
        return sum(row[0] for row in conn.execute(sql))

    with conn.transaction():  # within one nothing that is counted goes elsewhere
        before = count()
        yield
        assert count() - before == expected


def test_a_share_is_found_by_one_pass_and_what_no_row_has_is_removed(
    database18: Database, plan: IndexPlan, tmp_path: Path
) -> None:
    sink = SqliteSpec("local", tmp_path / "index.db")
    work.sink(sink).ensure(TARGET, SCHEMA)
    spec = WorkSpec(database18.dsn, {"things": plan}, (), {"things": (Destination(sink, TARGET),)}, chunk=1)
    share = [DocumentId("things", key_of(id_text(key), 1)) for key in LONG]
    number = pa.record_batch([[0]], names=["id"])
    with passes(work.connection(database18.dsn), 1):
        (batch,) = tasks.write_held(spec, [share], only_gone=False)(iter([number]))
    (report,) = map(pickle.loads, batch.column(0).to_pylist())
    assert (report.failure, report.written, report.removed) == (None, 3, 1)
    assert set(work.sink(sink).ids(TARGET)) == set(map(id_text, LONG[:-1]))


def test_a_hash_whose_key_is_among_those_asked_for_needs_no_pass(
    database18: Database, plan: IndexPlan
) -> None:
    with database18.connect() as conn, passes(conn, 0):
        built = read_documents(conn, plan, [key_of(id_text(LONG[0]), 1), LONG[0]])
    assert [(each.id, each.body) for each in built] == [(id_text(LONG[0]), b'{"n":1}')]
