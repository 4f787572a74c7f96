"""What keeps custom fields, points, maps and aggregates from fitting their columns. Used by `fit`; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flusso.builder.check.kinds import SUMMABLE, fits
from flusso.builder.check.spot import Spot
from flusso.builder.maps import MAP_TYPES
from flusso.builder.points import COORDINATE_TYPES, POINT_TYPES
from flusso.catalog import Column, Table
from flusso.diagnostic import Code, Diagnostic
from flusso.schema.model import (
    NUMBER_KINDS,
    TEXT_KINDS,
    WHOLE_KINDS,
    Aggregate,
    AggregateKind,
    Columns,
    Constant,
    Custom,
    Geo,
    Map,
    ScalarKind,
)
from flusso.schema.node import did_you_mean

_SPELLINGS = {
    "smallint": "int2",
    "int": "int4",
    "integer": "int4",
    "bigint": "int8",
    "smallserial": "int2",
    "serial": "int4",
    "bigserial": "int8",
    "decimal": "numeric",
    "dec": "numeric",
    "real": "float4",
    "float": "float8",
    "double precision": "float8",
    "double": "float8",
    "boolean": "bool",
    "character varying": "varchar",
    "character": "bpchar",
    "char": "bpchar",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
    "time with time zone": "timetz",
    "bit varying": "varbit",
}
"""The ways of SQL to name a type, and the catalog's."""
_NO_ORDER = frozenset({"json", "point", "line", "lseg", "box", "path", "polygon", "circle", "xml"})


def find_in_leaf(item: Custom | Geo | Map | Constant, table: Table, spot: Spot) -> Iterator[Diagnostic]:
    """Check the columns of a field that is no plain scalar."""
    match item:
        case Custom():
            accepted = {_spelled(name) for name in item.postgres}
            reason = f"not one of {', '.join(item.postgres)}"
            yield from _column(table, item.column, "column", spot, lambda c: _name(c) in accepted, reason)
        case Geo() if item.lat:
            for key, name in (("lat", item.lat), ("lon", item.lon)):
                reason = "which is no number"
                yield from _column(table, name, key, spot, lambda c: _is_of(c, COORDINATE_TYPES), reason)
        case Geo():
            reason = "not fit for geo: it takes json, text, point, or a point of PostGIS"
            yield from _column(table, item.column, "column", spot, lambda c: _is_of(c, POINT_TYPES), reason)
        case Map():
            reason = "not fit for map: it takes json, jsonb or hstore"
            yield from _column(table, item.column, "column", spot, lambda c: _is_of(c, MAP_TYPES), reason)
        case Constant():
            return


def find_in_aggregate(item: Aggregate, table: Table, key: Columns, spot: Spot) -> Iterator[Diagnostic]:
    """Check the column that an aggregate reduces, or the keys that it collects."""
    kind = item.value_type
    match item.kind:
        case AggregateKind.COUNT:
            return
        case AggregateKind.IDS:
            yield from _find_in_ids(item, table, key, spot)
        case AggregateKind.SUM | AggregateKind.AVG:
            reason = f"it has no {item.kind}"
            yield from _column(
                table, item.column or "", "column", spot, lambda c: _is_of(c, SUMMABLE), reason, ":"
            )
        case _:
            reason = f"it has no {item.kind}"
            yield from _column(table, item.column or "", "column", spot, _has_order, reason, ":")
            column = table.columns.get(item.column or "")
            if column is not None and kind is not None and not _can_be(column, kind):
                message = f'column "{item.column}" of {table.name} is {column.type}, not fit for {kind}'
                yield spot.says(Code.UNFIT_TYPE, message, key="value_type")
    if item.kind is AggregateKind.SUM and kind is not None and kind not in NUMBER_KINDS:
        yield spot.says(Code.UNFIT_TYPE, f"a sum is a number, not {kind}", key="value_type")


def _find_in_ids(item: Aggregate, table: Table, key: Columns, spot: Spot) -> Iterator[Diagnostic]:
    kind = item.element_type or ScalarKind.KEYWORD
    columns = [table.columns[name] for name in key if name in table.columns]
    if len(columns) > 1 and kind not in TEXT_KINDS:
        message = f"the key of {table.name} has {len(key)} columns: its ids are texts, not {kind}"
        yield spot.says(Code.UNFIT_TYPE, message, key="element_type", hint="declare element_type: keyword")
    elif len(columns) == 1 and not fits(columns[0], kind):
        message = f'the key "{key[0]}" of {table.name} is {columns[0].type}, not fit for {kind}'
        yield spot.says(Code.UNFIT_TYPE, message, key="element_type")


def _column(
    table: Table,
    name: str,
    key: str,
    spot: Spot,
    is_fit: Callable[[Column], bool],
    reason: str,
    sign: str = ",",
) -> Iterator[Diagnostic]:
    """Note a column that is not there, or one that does not fit."""
    column = table.columns.get(name)
    if column is None:
        message = f'table {table.name} has no column "{name}"'
        yield spot.says(Code.MISSING_COLUMN, message, key=key, hint=did_you_mean(name, table.columns))
    elif not is_fit(column):
        message = f'column "{name}" of {table.name} is {column.type}{sign} {reason}'
        yield spot.says(Code.UNFIT_TYPE, message, key=key)


def _can_be(column: Column, kind: ScalarKind) -> bool:
    """A numeric that is always whole may be declared so; it is rounded."""
    return fits(column, kind) or (kind in WHOLE_KINDS and _is_of(column, SUMMABLE))


def _has_order(column: Column) -> bool:
    return not column.is_array and column.base not in _NO_ORDER


def _is_of(column: Column, types: frozenset[str] | tuple[str, ...]) -> bool:
    return not column.is_array and column.base in types


def _name(column: Column) -> str:
    return f"{column.base}[]" if column.is_array else column.base


def _spelled(name: str) -> str:
    """Give a type as the catalog names it: no length, no schema, no second name."""
    plain, dimension, _ = name.strip().lower().partition("[")
    plain = plain.partition("(")[0].strip().rpartition(".")[2].strip('"')
    return _SPELLINGS.get(plain, plain) + ("[]" if dimension else "")
