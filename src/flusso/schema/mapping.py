"""From a schema to an index mapping with its analysis settings. Pure: same schema, same mapping.

Used by the search sinks when they make an index. `text_field_names` serves sinks without a mapping. The
mapping is strict: the schema says every field, so a key that is not in it is a fault, not a new field. Only
inside a map are keys data: there each new one gets the mapping of the declared kind, by a template for
that place. The analyzers that the mapping names are in `analysis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from flusso.schema.analysis import TextAnalysis, analysis_settings
from flusso.schema.model import (
    TEXT_KINDS,
    Aggregate,
    AggregateKind,
    Constant,
    Custom,
    Field,
    Geo,
    Group,
    IndexSchema,
    Join,
    Json,
    Map,
    Scalar,
    ScalarKind,
    walk,
)

_IGNORE_ABOVE_SUBFIELD = 256
_IGNORE_ABOVE_KEYWORD = 8191
"""Lucene refuses a term over 32,766 bytes, and with it the document; a character takes at most four."""
_DEFAULT_FIELD_LIMIT = 1000
_DEFAULT_NESTED_LIMIT = 50
_FIELDS_OF_A_SINK = 1
"""What a sink may add to those of the schema: the mark of a removal."""
_ROOM_OF_A_MAP = 10_000
"""Fields, subfields included, that the keys of one map may become before the server refuses more."""
_MAX_LONG = 2**63
_WORD_TYPES = ("text", "match_only_text", "search_as_you_type", "keyword", "wildcard")

_PLAIN_TYPES = {
    ScalarKind.BOOLEAN: "boolean",
    ScalarKind.SHORT: "short",
    ScalarKind.INTEGER: "integer",
    ScalarKind.LONG: "long",
    ScalarKind.FLOAT: "float",
    ScalarKind.DOUBLE: "double",
    ScalarKind.DECIMAL: "double",
    ScalarKind.DATE: "date",
    ScalarKind.TIMESTAMP: "date",
    ScalarKind.BINARY: "binary",
}


@dataclass(frozen=True, slots=True)
class _Choices:
    """What holds for the whole mapping; orders of enums and templates for maps are collected on the way."""

    analysis: TextAnalysis
    auto_subfields: bool
    ranks: dict[tuple[str, ...], str] = field(default_factory=dict)
    templates: list[Json] = field(default_factory=list)

    @property
    def lowercase(self) -> str:
        return "lowercase" if self.analysis is TextAnalysis.PLAIN else "flusso_lowercase"


def index_mapping(
    schema: IndexSchema, *, text_analysis: TextAnalysis | str, auto_subfields: bool
) -> dict[str, Json]:
    """Give the body that creates the index: `settings` that the mapping needs, and `mappings`."""
    choices = _Choices(TextAnalysis(text_analysis), auto_subfields)
    properties = _properties(schema.fields, choices, "")
    settings: dict[str, Json] = {}
    analysis = analysis_settings(choices.analysis, choices.ranks)
    if analysis:
        settings["analysis"] = analysis
    settings |= _limits(properties, len(choices.templates))
    mappings: dict[str, Json] = {"dynamic": "strict"}
    if choices.templates:
        mappings["dynamic_templates"] = choices.templates
    return {"settings": settings, "mappings": mappings | {"properties": properties}}


def text_field_names(schema: IndexSchema) -> tuple[str, ...]:
    """Name the fields that hold words, at any depth, each once, in the order of the schema."""
    names = [each.name for each in walk(schema.fields) if _has_words(each)]
    return tuple(dict.fromkeys(names))


def _has_words(item: Field) -> bool:
    match item:
        case Scalar():
            return item.kind in TEXT_KINDS
        case Map():
            return item.values in TEXT_KINDS
        case Custom():
            return item.opensearch in _WORD_TYPES
        case Aggregate():
            return item.value_type in TEXT_KINDS
        case _:
            return False


def _properties(fields: tuple[Field, ...], choices: _Choices, path: str) -> dict[str, Json]:
    return {each.name: _merged(_field(each, choices, path), each.options) for each in fields}


def _field(item: Field, choices: _Choices, path: str) -> dict[str, Json]:
    inner = f"{path}{item.name}."
    match item:
        case Scalar():
            return _scalar(item, choices)
        case Custom():
            return {"type": item.opensearch}
        case Geo():
            return {"type": "geo_point"}
        case Map():
            return _map(item, choices, inner)
        case Constant():
            return _constant(item.value, choices)
        case Group():
            return {"type": "object", "properties": _properties(item.fields, choices, inner)}
        case Join():
            # Rows of a to-many join stay apart: a query on two columns must match within one row.
            kind = "nested" if item.kind.is_to_many else "object"
            return {"type": kind, "properties": _properties(item.fields, choices, inner)}
        case Aggregate():
            return _aggregate(item, choices)
        case _:
            assert_never(item)


def _aggregate(item: Aggregate, choices: _Choices) -> dict[str, Json]:
    match item.kind:
        case AggregateKind.COUNT:
            kind = ScalarKind.LONG
        case AggregateKind.AVG:
            kind = ScalarKind.DOUBLE
        case AggregateKind.IDS:
            kind = item.element_type or ScalarKind.KEYWORD
        case _:
            kind = item.value_type or ScalarKind.DOUBLE
    return _kind(kind, choices)


def _map(item: Map, choices: _Choices, path: str) -> dict[str, Json]:
    """An object that takes new keys, and a template that gives each the mapping of the declared kind."""
    values = _kind(item.values, choices)
    if values["type"] in _CAN_BE_MALFORMED:
        # A word where a number is declared must not cost the document: it is kept and not indexed.
        values["ignore_malformed"] = True
    name = f"flusso_map_{len(choices.templates) + 1}"
    choices.templates.append({name: {"path_match": f"{path}*", "mapping": values}})
    return {"type": "object", "dynamic": True}


_CAN_BE_MALFORMED = ("short", "integer", "long", "float", "double", "date")


def _constant(value: Json, choices: _Choices) -> dict[str, Json]:
    """Map by the type that the value has; what is no scalar is kept and not indexed."""
    items = value if isinstance(value, list) and value else [value]
    kinds = {_kind_of(item) for item in items}
    kind = kinds.pop() if len(kinds) == 1 else None
    return dict(_ANYTHING) if kind is None else _kind(kind, choices)


def _kind_of(value: Json) -> ScalarKind | None:
    match value:
        case bool():
            return ScalarKind.BOOLEAN
        case int() if -_MAX_LONG <= value < _MAX_LONG:
            return ScalarKind.LONG
        case int() | float():
            return ScalarKind.DOUBLE
        case str():
            return ScalarKind.KEYWORD
        case _:
            return None


def _scalar(item: Scalar, choices: _Choices) -> dict[str, Json]:
    return _enum(item, choices) if item.variants else _kind(item.kind, choices)


def _kind(kind: ScalarKind, choices: _Choices) -> dict[str, Json]:
    match kind:
        case ScalarKind.TEXT:
            return _text("flusso_text", choices)
        case ScalarKind.IDENTIFIER:
            return _text("flusso_code", choices)
        case ScalarKind.KEYWORD:
            return _keyword(choices)
        case ScalarKind.ENUM:
            return {"type": "keyword", "ignore_above": _IGNORE_ABOVE_KEYWORD}
        case ScalarKind.UUID:
            return {"type": "keyword"}
        case ScalarKind.JSON:
            return dict(_ANYTHING)
        case _:
            return {"type": _PLAIN_TYPES[kind]}


# Any JSON value at all, kept and not indexed. A dynamic object would refuse the first document whose value
# has another type than the one before, and a flat_object a scalar or a long string.
_ANYTHING: dict[str, Json] = {"type": "object", "enabled": False}


def _text(analyzer: str, choices: _Choices) -> dict[str, Json]:
    subfields: dict[str, Json] = {
        "keyword": {"type": "keyword", "ignore_above": _IGNORE_ABOVE_SUBFIELD},
        "keyword_lowercase": _lowercase(choices),
    }
    return _analyzed(analyzer, choices) | ({"fields": subfields} if choices.auto_subfields else {})


def _keyword(choices: _Choices) -> dict[str, Json]:
    subfields: dict[str, Json] = {
        "text": _analyzed("flusso_text", choices),
        "keyword_lowercase": _lowercase(choices),
    }
    keyword: dict[str, Json] = {"type": "keyword", "ignore_above": _IGNORE_ABOVE_KEYWORD}
    return keyword | ({"fields": subfields} if choices.auto_subfields else {})


def _enum(item: Scalar, choices: _Choices) -> dict[str, Json]:
    """A keyword, with a subfield that holds the variant's rank where the server can compute it."""
    keyword = _kind(ScalarKind.ENUM, choices)
    if choices.analysis is TextAnalysis.PLAIN:
        return keyword
    name = choices.ranks.setdefault(item.variants, f"flusso_rank_{len(choices.ranks) + 1}")
    rank: dict[str, Json] = {"type": "keyword", "normalizer": name, "ignore_above": _IGNORE_ABOVE_KEYWORD}
    return keyword | {"fields": {"sort": rank}}


def _analyzed(analyzer: str, choices: _Choices) -> dict[str, Json]:
    if choices.analysis is TextAnalysis.PLAIN:
        return {"type": "text"}
    return {"type": "text", "analyzer": analyzer}


def _lowercase(choices: _Choices) -> dict[str, Json]:
    return {"type": "keyword", "normalizer": choices.lowercase, "ignore_above": _IGNORE_ABOVE_SUBFIELD}


def _merged(mapping: dict[str, Json], options: Mapping[str, Json]) -> dict[str, Json]:
    """Lay the user's options over a mapping, objects within objects."""
    merged = dict(mapping)
    for key, value in options.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _limits(properties: Mapping[str, Json], maps: int) -> dict[str, Json]:
    """Raise the server's guards against runaway mappings where the schema itself asks for more."""
    total, nested = _size(properties)
    total += maps * _ROOM_OF_A_MAP + _FIELDS_OF_A_SINK
    limits: dict[str, Json] = {}
    if total > _DEFAULT_FIELD_LIMIT:
        limits["index.mapping.total_fields.limit"] = total
    if nested > _DEFAULT_NESTED_LIMIT:
        limits["index.mapping.nested_fields.limit"] = nested
    return limits


def _size(properties: Mapping[str, Json]) -> tuple[int, int]:
    total = nested = 0
    for mapping in properties.values():
        if not isinstance(mapping, dict):
            continue
        total += 1
        nested += mapping.get("type") == "nested"
        for key in ("properties", "fields"):
            below = mapping.get(key)
            if isinstance(below, dict):
                more, deeper = _size(below)
                total, nested = total + more, nested + deeper
    return total, nested
