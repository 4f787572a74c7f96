"""Which columns an index reads: all that its documents, filters, orders and links are made from."""

from __future__ import annotations

import pytest

from fix_postgres import Database
from flusso.builder.complete import complete
from flusso.builder.reads import columns_read
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema

pytestmark = pytest.mark.postgres

TABLES = """
create table users (id int primary key, name text, lat float, lon float, gone bool, boss int, unread text);
create table orders (id int primary key, user_id int, total numeric, state text, day date, unread text);
create table tags (id int primary key, label text, unread text);
create table user_tags (id int primary key, user_id int, tag_id int, kind text, unread text);
create table raw (id int primary key, user_id int, any_column text);
"""
SCHEMA = """
version: 1
table: users
soft_delete: { column: gone }
fields:
  - text: name
  - geo: place
    lat: lat
    lon: lon
  - belongs_to: boss
    table: users
    column: boss
    fields: [{ text: name }]
  - has_many: orders
    table: orders
    foreign_key: user_id
    order_by: [{ column: day }]
    filters: [{ column: state, op: eq, value: paid }]
    fields: [{ decimal: total }]
  - many_to_many: tags
    table: tags
    through:
      { table: user_tags, left_key: user_id, right_key: tag_id, filters: [{ column: kind, op: is_not_null }] }
    fields: [{ keyword: label }]
  - count: raws
    table: raw
    foreign_key: user_id
    filters: [{ raw: any_column is null }]
"""


def test_every_column_that_a_document_depends_on_is_named_and_no_other(database18: Database) -> None:
    database18.execute(TABLES)
    schema = parse_schema(SCHEMA, file="users")
    with database18.connect() as conn:
        catalog = read_catalog(conn, tables_of(schema))
    found = columns_read(complete(schema, catalog), catalog)
    assert {table.name: sorted(columns) for table, columns in found.items()} == {
        "users": ["boss", "gone", "id", "lat", "lon", "name"],
        "orders": ["day", "id", "state", "total", "user_id"],
        "tags": ["id", "label"],
        "user_tags": ["kind", "tag_id", "user_id"],
        "raw": ["any_column", "id", "user_id"],
    }
