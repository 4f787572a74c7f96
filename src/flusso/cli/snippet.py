"""The words around a match, for the eye: cut out of the document, so that every sink has them. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

from flusso.sinks.tokens import tokens

MARK = "**"
_AROUND = 40
_WORD = re.compile(r"\w+")


def snippet(body: str, query: str) -> str:
    """Give a piece of the text in which most of the query's words are, those between marks; else nothing."""
    wanted = {_folded(word) for word in _WORD.findall(query)}
    best, most = "", 0
    for text in _strings(body):
        found = [match for match in _WORD.finditer(text) if _folded(match[0]) in wanted]
        count = len({_folded(match[0]) for match in found})
        if count > most:
            best, most = _cut(text, found), count
    return best


def _cut(text: str, found: list[re.Match[str]]) -> str:
    start = max(0, found[0].start() - _AROUND)
    end = min(len(text), found[0].end() + 2 * _AROUND)
    parts = ["…" if start else ""]
    at = start
    for match in found:
        if match.end() <= end:
            parts += (text[at : match.start()], MARK, match[0], MARK)
            at = match.end()
    parts += (text[at:end], "…" if end < len(text) else "")
    return " ".join("".join(parts).split())


def _strings(body: str) -> Iterator[str]:
    """Go through the texts of a document, the names of its fields left out."""
    last = ""
    for token in tokens(body):
        if last and token[0] != ":":
            yield json.loads(last)
        last = token[0] if token[0][0] == '"' else ""


def _folded(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))
