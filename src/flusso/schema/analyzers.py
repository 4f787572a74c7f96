"""The analyzers and normalizers that `options` may name: flusso's own, and those a search server can have.

flusso makes the analysis settings of an index, so a name beyond these is one that no index of ours has: the
server would refuse the whole mapping when the first generation is made.
"""

from __future__ import annotations

from flusso.diagnostic import Code
from flusso.schema.node import Node, Problems, did_you_mean

ANALYZERS = frozenset(
    {
        *("flusso_text", "flusso_code"),
        *("standard", "simple", "whitespace", "stop", "keyword", "pattern", "fingerprint", "snowball"),
        *("arabic", "armenian", "basque", "bengali", "brazilian", "bulgarian", "catalan", "chinese", "cjk"),
        *("czech", "danish", "dutch", "english", "estonian", "finnish", "french", "galician", "german"),
        *("greek", "hindi", "hungarian", "indonesian", "irish", "italian", "latvian", "lithuanian"),
        *("norwegian", "persian", "portuguese", "romanian", "russian", "serbian", "sorani", "spanish"),
        *("swedish", "thai", "turkish"),
        # From the plugins that the servers' makers offer.
        *("icu_analyzer", "kuromoji", "kuromoji_completion", "nori", "polish", "smartcn", "ukrainian"),
    }
)
NORMALIZERS = frozenset({"flusso_lowercase", "lowercase"})
_KNOWN = {
    "analyzer": ANALYZERS,
    "search_analyzer": ANALYZERS,
    "search_quote_analyzer": ANALYZERS,
    "normalizer": NORMALIZERS,
}


def check_options(options: Node | None, problems: Problems) -> None:
    """Note every analyzer or normalizer that is not known, subfields included."""
    if options is None or not isinstance(options.value, dict):
        return
    for key, known in _KNOWN.items():
        item = options.value.get(key)
        if item is not None and item.value not in known:
            name = item.value if isinstance(item.value, str) else item.kind
            problems.at(
                item,
                f'there is no {"normalizer" if key == "normalizer" else "analyzer"} "{name[:60]}"',
                Code.UNKNOWN_ANALYZER,
                hint=did_you_mean(name, known),
            )
    for key in ("fields", "properties"):
        inner = options.value.get(key)
        if inner is not None and isinstance(inner.value, dict):
            for item in inner.value.values():
                check_options(item, problems)
