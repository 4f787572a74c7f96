"""JSON text as tokens, for what must neither recurse nor print a value anew. Pure.

The standard decoder is faster, but a document may hold JSON that is nested deeper than Python may go, and a
number with more digits than Python converts; whoever cannot do without meets such text here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Go through strings, signs and other values in turn; the text is JSON."""
    return _TOKEN.finditer(text, start)


def end_of_value(text: str, start: int) -> int:
    """Find where the value that begins at `start` ends. Raises ValueError when the text ends before it."""
    depth = 0
    for token in tokens(text, start):
        sign = token[0]
        if sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
        if depth <= 0:
            return token.end()
    raise ValueError("the text ends within a value")
