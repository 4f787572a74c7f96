"""Which Postgres types fit which declared kinds, and which can be compared with each other. Pure tables."""

from __future__ import annotations

from flusso.catalog import Column
from flusso.schema.model import TEXT_KINDS, ScalarKind

_INTEGERS = ("int2", "int4", "int8")
NUMBERS = (*_INTEGERS, "numeric", "float4", "float8")
SUMMABLE = (*NUMBERS, "money")
_FITTING: dict[ScalarKind, tuple[str, ...]] = {
    ScalarKind.UUID: ("uuid",),
    ScalarKind.BOOLEAN: ("bool",),
    ScalarKind.SHORT: ("int2",),
    ScalarKind.INTEGER: ("int2", "int4"),
    ScalarKind.LONG: _INTEGERS,
    ScalarKind.FLOAT: NUMBERS,
    ScalarKind.DOUBLE: NUMBERS,
    ScalarKind.DECIMAL: (*_INTEGERS, "numeric", "money"),
    ScalarKind.DATE: ("date",),
    ScalarKind.TIMESTAMP: ("timestamp", "timestamptz", "time", "timetz"),
    ScalarKind.BINARY: ("bytea",),
    ScalarKind.JSON: ("json", "jsonb"),
}
_FAMILIES = (
    NUMBERS,
    ("text", "varchar", "bpchar", "name"),
    ("timestamp", "timestamptz", "date"),
)


def fits(column: Column, kind: ScalarKind) -> bool:
    """Say whether a column can fill a field of this kind: an array by its element, a text by any type."""
    return kind in TEXT_KINDS or column.base in _FITTING[kind]


def fitting_kinds(column: Column) -> list[ScalarKind]:
    """Name the kinds that a column could fill; those of texts last, which take anything."""
    return sorted((kind for kind in ScalarKind if fits(column, kind)), key=TEXT_KINDS.__contains__)


def are_comparable(one: Column, two: Column) -> bool:
    """Say whether a reference can be compared with the key it refers to, and found from it.

    What an extension compares in its own way, as citext does, has to be that type on both sides: with a text
    beside it Postgres compares texts, and no index on it would serve.
    """
    if one.type == two.type:
        return True
    return one.is_array == two.is_array and any(one.base in f and two.base in f for f in _FAMILIES)
