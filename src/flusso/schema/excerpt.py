"""The line of a file that a problem is about, fit to be shown: no secret, no control character, not endless.

The readers of a format know what to hide of a line; here it is cut out, and what is pointed at is found
again in what remains. `YamlSource` is the text of a schema file; the one of flusso.toml is in `config`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from flusso.diagnostic import Excerpt
from flusso.schema.node import Place

Span = tuple[int, int]

_MASK = "***"
_WIDEST = 120
_BEFORE = 60
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_USER = re.compile(r"://(\S*)@")
_PAIR = re.compile(r"([^\s\"'@/]*:[^\s\"'@]+)@")
_NAMED = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token|api_?key|connection_url|credentials?)\w*[\"']?\s*[=:]\s*(.+)$"
)


@dataclass(frozen=True, slots=True)
class YamlSource:
    """A schema file. It has no place for secrets, but someone may have put one, or named the wrong file."""

    text: str = field(repr=False)

    def excerpt(self, place: Place) -> Excerpt | None:
        """Give the line of a place."""
        lines = _BREAK.split(self.text)
        if not 0 < place.line <= len(lines):
            return None
        line = lines[place.line - 1]
        return cut_line(line, place, credentials_in(line))


def credentials_in(line: str) -> list[Span]:
    """Find what looks like a password, by the word before it or by its place in a URL."""
    return [found.span(1) for pattern in (_USER, _PAIR, _NAMED) for found in pattern.finditer(line)]


def show_word(text: str) -> str:
    """Quote a word that was found where another was expected, unless it looks like a password."""
    return f'"{_MASK if credentials_in(text) else text[:60]}"'


def cut_line(line: str, place: Place, hidden: Sequence[Span]) -> Excerpt:
    """Show a line without its hidden spans, around the place."""
    start = min(max(place.column - 1, 0), len(line))
    end = min(start + max(place.length, 1), len(line))
    pieces: list[str] = []
    moved = {start: start, end: end}
    at = width = 0
    for low, high in [*_joined(hidden), (len(line), len(line))]:
        for known in moved:
            if at <= known <= low:
                moved[known] = width + known - at
            elif low < known < high:
                moved[known] = width + low - at + (0 if known == start else len(_MASK))
        pieces.append(line[at:low])
        width += low - at
        if high > low:
            pieces.append(_MASK)
            width += len(_MASK)
        at = high
    shown = "".join(char if char.isprintable() else " " for char in "".join(pieces))
    return _window(shown, moved[start], max(1, moved[end] - moved[start]))


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Put spans in order and merge those that meet."""
    found: list[Span] = []
    for low, high in sorted(span for span in spans if span[0] < span[1]):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _window(text: str, start: int, length: int) -> Excerpt:
    low = max(0, start - _BEFORE) if len(text) > _WIDEST else 0
    high = min(len(text), low + _WIDEST)
    before, after = "…" if low else "", "…" if high < len(text) else ""
    shown = f"{before}{text[low:high]}{after}".rstrip()
    first = min(start - low + len(before), len(shown))
    return Excerpt(shown, first, max(1, min(length, len(shown) - first)))
