"""The JSON Schema of a `*.schema.yml`, for editors. Pure.

Which keys a tag carries comes from `rules`, which words are known from the enums of the model: the tables
that the parser reads by. It never refuses a file that the parser takes; what one look at a value cannot
tell (names given twice, keys of different lengths) it leaves to `flusso check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from flusso.schema.leaves import MAP_KINDS
from flusso.schema.model import (
    NUMBER_KINDS,
    TEXT_KINDS,
    WHOLE_KINDS,
    Direction,
    FilterOp,
    JoinKind,
    Json,
    ScalarKind,
    Transform,
)
from flusso.schema.parse import KEYS, VERSION
from flusso.schema.rules import AGGREGATE_NEEDS, TAGS, carried
from flusso.schema.section import MAX_NAME_BYTES

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The newest that both the usual YAML and the usual TOML plugins of editors read."""

_ROOT_NEEDED = ("version", "table", "fields")
_TEXT: dict[str, Json] = {"type": "string", "pattern": r"\S"}
_NAME: dict[str, Json] = {"$ref": "#/definitions/name"}
_COLUMNS: dict[str, Json] = {"$ref": "#/definitions/columns"}
_FILTERS: dict[str, Json] = {"type": "array", "items": {"$ref": "#/definitions/filter"}}
_FLAG: dict[str, Json] = {"type": "boolean", "default": False}
_SCALAR_VALUE: Json = {"type": ["string", "number", "boolean"]}


def closed(properties: Mapping[str, Json], required: Iterable[str] = ()) -> dict[str, Json]:
    """Describe an object that has these keys and no others."""
    found: dict[str, Json] = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    needed: list[Json] = list(required)
    return found | ({"required": needed} if needed else {})


def index_schema() -> dict[str, Json]:
    """Give the JSON Schema of a schema file."""
    values = _VALUES | {"version": {"const": VERSION}}
    return {
        "$schema": DIALECT,
        "title": "*.schema.yml",
        "description": "What a document of an index is made of: a root table, its columns and relations.",
        "definitions": _definitions(),
        **closed({key: _root_value(values[key], key) for key in KEYS}, _ROOT_NEEDED),
    }


def _root_value(value: Json, key: str) -> Json:
    return value if key in _ROOT_NEEDED else {"anyOf": [value, {"type": "null"}]}


def _definitions() -> dict[str, Json]:
    name: dict[str, Json] = {"type": "string", "pattern": r"\S", "maxLength": MAX_NAME_BYTES}
    several: dict[str, Json] = {"type": "array", "minItems": 1, "uniqueItems": True, "items": _NAME}
    return {
        "name": name,
        "columns": {"anyOf": [_NAME, several]},
        "filter": {"oneOf": _filters()},
        "field": _any_field(),
        **{f"field_{tag}": _field(tag) for tag in sorted(TAGS)},
    }


def _any_field() -> dict[str, Json]:
    """Lead from the tag to what goes with it.

    One of many closed objects would say the same, but whoever validates would try them all, again at each
    depth: a second for a file of ordinary size, and an editor validates at every key.
    """
    tags: list[str] = sorted(TAGS)
    return {
        "type": "object",
        "properties": dict.fromkeys(tags, _FIELD_NAME),
        "oneOf": [{"required": [tag]} for tag in tags],
        "allOf": [
            {"if": {"required": [tag]}, "then": {"$ref": f"#/definitions/field_{tag}"}} for tag in tags
        ],
    }


def _field(tag: str) -> dict[str, Json]:
    needed = (tag, *_NEEDED.get(tag, ()))
    keys = sorted(carried(tag), key=lambda key: (key != tag, key))
    made = closed({key: _value(tag, key, key in needed) for key in keys}, needed)
    if tag in AGGREGATE_NEEDS:
        made["oneOf"] = [_given("foreign_key"), _given("through")]
    if tag == "geo":
        made["oneOf"] = [
            {"allOf": [_given("lat"), _given("lon"), {"not": _given("column")}]},
            {"not": {"anyOf": [_given("lat"), _given("lon")]}},
        ]
    return {"title": tag, **made}


def _given(key: str) -> dict[str, Json]:
    """Ask for a key with a value: an optional key without one is an absent one."""
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def _value(tag: str, key: str, is_needed: bool) -> Json:
    if key == tag:
        return _FIELD_NAME
    if key == "default":
        return _default(tag)
    value = _OWN.get((tag, key), _VALUES.get(key, {}))
    return value if is_needed or not value else {"anyOf": [value, {"type": "null"}]}


def _default(tag: str) -> Json:
    """What stands in for a null; for an array column it may be a list. A text may spell any value."""
    kinds: list[Json] = ["string", "null"]
    match tag:
        case ScalarKind.JSON | "custom":
            return {}
        case ScalarKind.BOOLEAN:
            kinds.append("boolean")
        case _ if tag in WHOLE_KINDS:
            kinds.append("integer")
        case _ if tag in NUMBER_KINDS:
            kinds.append("number")
        case _ if tag in TEXT_KINDS:
            kinds += ["boolean", "number"]
    return {"anyOf": [{"type": kinds}, {"type": "array", "items": {"type": kinds}}]}


def _filters() -> list[Json]:
    def compared(ops: Iterable[FilterOp], value: Json = None) -> Json:
        keys: dict[str, Json] = {"column": _NAME, "op": {"enum": [op.value for op in ops]}}
        if value is not None:
            keys["value"] = value
        return closed(keys, keys)

    nulls = (FilterOp.IS_NULL, FilterOp.IS_NOT_NULL)
    lists = (FilterOp.IN, FilterOp.NOT_IN)
    patterns = (FilterOp.LIKE, FilterOp.ILIKE)
    rest = [op for op in FilterOp if op not in (*nulls, *lists, *patterns, FilterOp.BETWEEN)]
    pair: Json = {"type": "array", "minItems": 2, "maxItems": 2, "items": _SCALAR_VALUE}
    return [
        closed({"raw": _TEXT}, ["raw"]),
        compared(nulls),
        compared(rest, _SCALAR_VALUE),
        compared(patterns, {"type": "string"}),
        compared(lists, {"type": "array", "minItems": 1, "items": _SCALAR_VALUE}),
        compared([FilterOp.BETWEEN], pair),
    ]


def _words(kind: Iterable[StrEnum]) -> dict[str, Json]:
    return {"enum": [member.value for member in kind]}


_FIELD_NAME: Json = {
    "description": "the key in the document",
    "type": "string",
    "pattern": r"^[^\s.]([^.]*[^\s.])?$",
    "maxLength": 255,
}
_VALUES: dict[str, dict[str, Json]] = {
    "table": {"description": "the table, exactly as the catalog writes it", **_NAME},
    "schema": {"description": "its schema in Postgres; the root's if absent, there public", **_NAME},
    "primary_key": {"description": "the catalog's key if absent", **_COLUMNS},
    "fields": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/field"}},
    "filters": {"description": "conditions that all must hold for a row to count", **_FILTERS},
    "soft_delete": {
        "description": "a row counts as deleted when this is true, or not null, and all of `when` hold",
        **closed({"column": _NAME, "field": _TEXT, "when": _FILTERS}),
        "oneOf": [{"required": ["column"]}, {"required": ["field"]}],
    },
    "column": {"description": "the column; the field's name if absent", **_NAME},
    "required": {"description": "whether the value is never null", **_FLAG},
    "options": {"description": "merged into the mapping of the field", "type": "object"},
    "transforms": {
        "description": "done to the text, in this order",
        "type": "array",
        "items": _words(Transform),
    },
    "variants": {
        "description": "the values in order; gives a .sort subfield",
        "type": "array",
        "uniqueItems": True,
        "items": _TEXT,
    },
    "foreign_key": {"description": "the related row's reference to this row's key", **_COLUMNS},
    "through": {
        "description": "a junction table: left_key points at this row, right_key at the related one",
        **closed(
            {
                "table": _NAME,
                "schema": _NAME,
                "left_key": _COLUMNS,
                "right_key": _COLUMNS,
                "filters": _FILTERS,
            },
            ["table", "left_key", "right_key"],
        ),
    },
    "order_by": {
        "description": "the order of the rows; by key if absent",
        "type": "array",
        "items": closed({"column": _NAME, "direction": _words(Direction)}, ["column"]),
    },
    "limit": {"description": "at most so many rows", "type": "integer", "minimum": 1},
    "distinct": {"description": "each related row once, however many junction rows lead to it", **_FLAG},
    "value_type": {"description": "the type of the result", **_words(ScalarKind)},
    "element_type": {"description": "the type of each key", **_words(ScalarKind)},
    "postgres": {
        "description": "the types that the column may have",
        "anyOf": [_TEXT, {"type": "array", "minItems": 1, "items": _TEXT}],
    },
    "opensearch": {
        "description": "the type in the mapping",
        "type": "string",
        "pattern": "^[a-z][a-z0-9_]*$",
    },
    "lat": {"description": "the column with the latitude, beside lon", **_NAME},
    "lon": {"description": "the column with the longitude, beside lat", **_NAME},
    "values": {
        "description": "the type of all values",
        **_words(kind for kind in ScalarKind if kind in MAP_KINDS),
    },
    "value": {},
}
_OWN: dict[tuple[str, str], dict[str, Json]] = {
    (JoinKind.BELONGS_TO, "column"): {"description": "this row's reference to the other table", **_COLUMNS},
    ("sum", "value_type"): _words(kind for kind in ScalarKind if kind in NUMBER_KINDS),
}
_NEEDED: dict[str, tuple[str, ...]] = {
    "object": ("fields",),
    JoinKind.BELONGS_TO: ("table", "fields"),
    JoinKind.HAS_ONE: ("table", "foreign_key", "fields"),
    JoinKind.HAS_MANY: ("table", "foreign_key", "fields"),
    JoinKind.MANY_TO_MANY: ("table", "through", "fields"),
    **{kind: ("table", *needs) for kind, needs in AGGREGATE_NEEDS.items()},
    "custom": ("postgres", "opensearch"),
    "map": ("values",),
}
