"""Short forms for declaring schemas in tests, and for building documents from them."""

from __future__ import annotations

import json
from typing import Any

from fix_postgres import Database
from flusso.builder.plan import IndexPlan, compile_index
from flusso.builder.ranges import plan_ranges, read_range
from flusso.builder.read import Built, read_documents
from flusso.catalog import TableName
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import (
    Aggregate,
    AggregateKind,
    Columns,
    Field,
    IndexSchema,
    Join,
    JoinKind,
    Scalar,
    ScalarKind,
    tables_of,
)


def table(name: str, schema: str = "public") -> TableName:
    return TableName(schema, name)


def scalar(name: str, kind: str = "text", column: str = "", **extra: Any) -> Scalar:
    return Scalar(name, ScalarKind(kind), column or name, **extra)


def belongs_to(name: str, target: str, column: Columns, *fields: Field, **extra: Any) -> Join:
    extra = {"primary_key": (), **extra}
    return Join(name, JoinKind.BELONGS_TO, table(target), fields=fields, column=column, **extra)


def has_one(name: str, target: str, foreign_key: Columns, *fields: Field, **extra: Any) -> Join:
    extra = {"primary_key": (), **extra}
    return Join(name, JoinKind.HAS_ONE, table(target), fields=fields, foreign_key=foreign_key, **extra)


def has_many(name: str, target: str, foreign_key: Columns, *fields: Field, **extra: Any) -> Join:
    extra = {"primary_key": (), **extra}
    return Join(name, JoinKind.HAS_MANY, table(target), fields=fields, foreign_key=foreign_key, **extra)


def many_to_many(name: str, target: str, *fields: Field, **extra: Any) -> Join:
    extra = {"primary_key": (), **extra}
    return Join(name, JoinKind.MANY_TO_MANY, table(target), fields=fields, **extra)


def count(name: str, target: str, foreign_key: Columns = (), **extra: Any) -> Aggregate:
    return Aggregate(name, AggregateKind.COUNT, table(target), foreign_key=foreign_key, **extra)


def total(name: str, target: str, column: str, foreign_key: Columns = (), **extra: Any) -> Aggregate:
    return Aggregate(name, AggregateKind.SUM, table(target), foreign_key=foreign_key, column=column, **extra)


def aggregate(name: str, kind: str, target: str, foreign_key: Columns = (), **extra: Any) -> Aggregate:
    return Aggregate(name, AggregateKind(kind), table(target), foreign_key=foreign_key, **extra)


def root(name: str, *fields: Field, **extra: Any) -> IndexSchema:
    return IndexSchema(table(name), fields, **extra)


def compiled(database: Database, schema: IndexSchema, index: str = "things") -> IndexPlan:
    with database.connect() as conn:
        return compile_index(index, schema, read_catalog(conn, tables_of(schema)))


def seeded(database: Database, plan: IndexPlan) -> list[Built]:
    """Every document, as seeding reads them."""
    with database.connect() as conn:
        ranges = plan_ranges(conn, plan, 1)
        return [built for part in ranges for batch in read_range(conn, plan, part) for built in batch]


def followed(database: Database, plan: IndexPlan, *keys: tuple[str, ...]) -> list[Built]:
    """The documents of the keys, as following reads them."""
    with database.connect() as conn:
        return read_documents(conn, plan, keys)


def document(database: Database, schema: IndexSchema, *key: str) -> Any:
    """One document, parsed; None when it is a removal."""
    (built,) = followed(database, compiled(database, schema), key or ("1",))
    return None if built.body is None else json.loads(built.body)


def documents(database: Database, schema: IndexSchema) -> dict[str, Any]:
    """All documents by id, parsed."""
    found = seeded(database, compiled(database, schema))
    return {built.id: json.loads(built.body or b"null") for built in found}
