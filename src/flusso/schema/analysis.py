"""The analysis settings of an index: analyzers, normalizers, and the ranks of ordered enums.

Used by `mapping`, which refers to them by name. `builtin` needs the server's analysis-common module (every
full distribution has it), `icu` the ICU plugin, `plain` nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from flusso.schema.model import Json

_AROUND = "\ue000"
"""Put around a value before its rank is looked up: only a whole value is a variant, and what is none sorts
after all ranks, because this sign sorts after the digits."""


class TextAnalysis(StrEnum):
    """Which analyzers the server has."""

    BUILTIN = "builtin"
    ICU = "icu"
    PLAIN = "plain"


def analysis_settings(analysis: TextAnalysis, ranks: Mapping[tuple[str, ...], str]) -> dict[str, Json]:
    """Give the analysis block; `ranks` names the order of each list of variants in use."""
    if analysis is TextAnalysis.PLAIN:
        return {}
    is_icu = analysis is TextAnalysis.ICU
    folding: list[Json] = ["icu_folding"] if is_icu else ["lowercase", "asciifolding"]
    normalizers: dict[str, Json] = {
        "flusso_lowercase": {"type": "custom", "filter": ["icu_normalizer"] if is_icu else ["lowercase"]}
    }
    normalizers |= {
        name: {"type": "custom", "char_filter": ["flusso_whole", name], "filter": []}
        for name in ranks.values()
    }
    settings: dict[str, Json] = {
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
    if ranks:
        filters: dict[str, Json] = {
            "flusso_whole": {
                "type": "pattern_replace",
                "pattern": "(?s)^(.*)$",
                "replacement": f"{_AROUND}$1{_AROUND}",
            }
        }
        settings["char_filter"] = filters | {name: _rank(variants) for variants, name in ranks.items()}
    return settings


def _rank(variants: tuple[str, ...]) -> dict[str, Json]:
    """Map each variant to its rank, padded so that ranks sort as text. Escapes keep the rule's signs out."""
    width = len(str(len(variants) - 1))
    rules: list[Json] = [
        f"{_escaped(_AROUND + variant + _AROUND)} => {rank:0{width}d}"
        for rank, variant in enumerate(variants)
    ]
    return {"type": "mapping", "mappings": rules}


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
