"""From a schema to an index mapping with its analysis settings. Pure: same schema, same mapping.

Used by the search sinks when they make an index. `text_field_names` serves sinks without a mapping. The
mapping is strict: the schema says every field, so a key that is not in it is a fault, not a new field.

`text_analysis` chooses the analyzers: `builtin` needs the server's analysis-common module (every full
distribution has it), `icu` the ICU plugin, `plain` nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from flusso.schema.model import (
    Aggregate,
    AggregateKind,
    Field,
    Group,
    IndexSchema,
    Join,
    Json,
    Scalar,
    ScalarKind,
    walk,
)

_IGNORE_ABOVE_SUBFIELD = 256
_IGNORE_ABOVE_KEYWORD = 8191
"""Lucene refuses a term over 32,766 bytes, and with it the document; a character takes at most four."""
_DEFAULT_FIELD_LIMIT = 1000
_DEFAULT_NESTED_LIMIT = 50

_TEXT_KINDS = (ScalarKind.TEXT, ScalarKind.IDENTIFIER, ScalarKind.KEYWORD, ScalarKind.ENUM)
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


class TextAnalysis(StrEnum):
    """Which analyzers the server has."""

    BUILTIN = "builtin"
    ICU = "icu"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class _Choices:
    """What holds for the whole mapping; `ranks` collects the orders of enums met on the way."""

    analysis: TextAnalysis
    auto_subfields: bool
    ranks: dict[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def lowercase(self) -> str:
        return "lowercase" if self.analysis is TextAnalysis.PLAIN else "flusso_lowercase"


def index_mapping(
    schema: IndexSchema, *, text_analysis: TextAnalysis | str, auto_subfields: bool
) -> dict[str, Json]:
    """Give the body that creates the index: `settings` that the mapping needs, and `mappings`."""
    choices = _Choices(TextAnalysis(text_analysis), auto_subfields)
    properties = _properties(schema.fields, choices)
    settings: dict[str, Json] = {}
    analysis = _analysis(choices)
    if analysis:
        settings["analysis"] = analysis
    settings |= _limits(properties)
    return {"settings": settings, "mappings": {"dynamic": "strict", "properties": properties}}


def text_field_names(schema: IndexSchema) -> tuple[str, ...]:
    """Name the fields that hold words, at any depth, each once, in the order of the schema."""
    names = [
        each.name for each in walk(schema.fields) if isinstance(each, Scalar) and each.kind in _TEXT_KINDS
    ]
    return tuple(dict.fromkeys(names))


def _properties(fields: tuple[Field, ...], choices: _Choices) -> dict[str, Json]:
    return {each.name: _field(each, choices) for each in fields}


def _field(item: Field, choices: _Choices) -> dict[str, Json]:
    match item:
        case Scalar():
            return _merged(_scalar(item, choices), item.options)
        case Group():
            return {"type": "object", "properties": _properties(item.fields, choices)}
        case Join():
            # Rows of a to-many join stay apart: a query on two columns must match within one row.
            kind = "nested" if item.kind.is_to_many else "object"
            return {"type": kind, "properties": _properties(item.fields, choices)}
        case Aggregate():
            return {"type": _aggregate_type(item)}
        case _:
            assert_never(item)


def _aggregate_type(item: Aggregate) -> str:
    if item.kind is AggregateKind.COUNT:
        return "long"
    return _PLAIN_TYPES[item.value_type or ScalarKind.DOUBLE]


def _scalar(item: Scalar, choices: _Choices) -> dict[str, Json]:
    match item.kind:
        case ScalarKind.TEXT:
            return _text("flusso_text", choices)
        case ScalarKind.IDENTIFIER:
            return _text("flusso_code", choices)
        case ScalarKind.KEYWORD:
            return _keyword(choices)
        case ScalarKind.ENUM:
            return _enum(item, choices)
        case ScalarKind.UUID:
            return {"type": "keyword"}
        case ScalarKind.JSON:
            # Any JSON value at all, kept and not indexed. A dynamic object would refuse the first document
            # whose value has another type than the one before, and a flat_object a scalar or a long string.
            return {"type": "object", "enabled": False}
        case _:
            return {"type": _PLAIN_TYPES[item.kind]}


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
    keyword: dict[str, Json] = {"type": "keyword", "ignore_above": _IGNORE_ABOVE_KEYWORD}
    if not item.variants or choices.analysis is TextAnalysis.PLAIN:
        return keyword
    name = choices.ranks.setdefault(item.variants, f"flusso_rank_{len(choices.ranks) + 1}")
    return keyword | {"fields": {"sort": {"type": "keyword", "normalizer": name}}}


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


def _analysis(choices: _Choices) -> dict[str, Json]:
    if choices.analysis is TextAnalysis.PLAIN:
        return {}
    is_icu = choices.analysis is TextAnalysis.ICU
    folding: list[Json] = ["icu_folding"] if is_icu else ["lowercase", "asciifolding"]
    normalizers: dict[str, Json] = {
        "flusso_lowercase": {"type": "custom", "filter": ["icu_normalizer"] if is_icu else ["lowercase"]}
    }
    normalizers |= {
        name: {"type": "custom", "char_filter": [name], "filter": []} for name in choices.ranks.values()
    }
    analysis: dict[str, Json] = {
        "analyzer": {
            "flusso_text": {
                "type": "custom",
                "tokenizer": "icu_tokenizer" if is_icu else "standard",
                "filter": folding,
            },
            "flusso_code": {
                "type": "custom",
                "tokenizer": "whitespace",
                "filter": ["flusso_parts", "flatten_graph", *folding],
            },
        },
        "filter": {
            "flusso_parts": {"type": "word_delimiter_graph", "preserve_original": True, "catenate_all": True}
        },
        "normalizer": normalizers,
    }
    if choices.ranks:
        analysis["char_filter"] = {name: _rank(variants) for variants, name in choices.ranks.items()}
    return analysis


def _rank(variants: tuple[str, ...]) -> dict[str, Json]:
    """Map each variant to its rank, padded so that ranks sort as text.

    The filter replaces the longest match at each place. A value that is a variant is its own longest match,
    so it becomes its rank and nothing else. Escapes keep the rule's own signs out of the variant.
    """
    width = len(str(len(variants) - 1))
    rules: list[Json] = [
        f"{_escaped(variant)} => {rank:0{width}d}" for rank, variant in enumerate(variants) if variant
    ]
    return {"type": "mapping", "mappings": rules}


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)


def _limits(properties: Mapping[str, Json]) -> dict[str, Json]:
    """Raise the server's guards against runaway mappings where the schema itself asks for more."""
    total, nested = _size(properties)
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
