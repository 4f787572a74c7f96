"""The SQL of fields that need no other table.

Pure. Each gives an expression over one row, whose JSON is what the document has there; points and maps
have modules of their own.
"""

from __future__ import annotations

import json
from typing import assert_never

from flusso.builder.level import Level
from flusso.builder.maps import map_value
from flusso.builder.points import point_value
from flusso.catalog import Column
from flusso.postgres.identifiers import literal
from flusso.postgres.values import render
from flusso.schema.model import (
    NUMBER_KINDS,
    Constant,
    Custom,
    Geo,
    Json,
    Leaf,
    Map,
    Scalar,
    ScalarKind,
    Transform,
)

_KINDS = {
    "bool": ScalarKind.BOOLEAN,
    "int2": ScalarKind.SHORT,
    "int4": ScalarKind.INTEGER,
    "int8": ScalarKind.LONG,
    "float4": ScalarKind.FLOAT,
    "float8": ScalarKind.DOUBLE,
    "numeric": ScalarKind.DECIMAL,
    "money": ScalarKind.DECIMAL,
    "date": ScalarKind.DATE,
    "timestamp": ScalarKind.TIMESTAMP,
    "timestamptz": ScalarKind.TIMESTAMP,
    "time": ScalarKind.TIMESTAMP,
    "timetz": ScalarKind.TIMESTAMP,
    "bytea": ScalarKind.BINARY,
    "json": ScalarKind.JSON,
    "jsonb": ScalarKind.JSON,
}
"""The kind that the values of a type have by themselves; of others it is text."""
_FUNCTIONS = {Transform.LOWERCASE: "lower", Transform.TRIM: "btrim"}


def leaf_value(item: Leaf, level: Level) -> str:
    """Give the expression of a field."""
    match item:
        case Scalar():
            column, name = level.column(item.column)
            functions = [_FUNCTIONS[transform] for transform in item.transforms]
            return render(column, name, item.kind, functions=functions, default=_default(item.default))
        case Custom():
            column, name = level.column(item.column)
            return render(column, name, _kind_of(item, column), default=_default(item.default))
        case Constant():
            return f"{_literal(item.value)}::json"
        case Geo():
            return point_value(item, level)
        case Map():
            return map_value(item, level)
        case _:
            assert_never(item)


def _kind_of(item: Custom, column: Column) -> ScalarKind:
    """Find the kind that a custom field comes nearest to: by its mapping for numbers, else by its column."""
    kind = _KINDS.get(column.base, ScalarKind.KEYWORD)
    if kind in NUMBER_KINDS and item.opensearch in NUMBER_KINDS:
        return ScalarKind(item.opensearch)
    return kind


def json_text(value: Json) -> str:
    """Write a value of the schema file as JSON, the same for the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _default(value: Json) -> str | None:
    return None if value is None else json_text(value)


def _literal(value: Json) -> str:
    return literal(json_text(value)).strip()
