"""Arrays as Postgres prints them: `{1,NULL,"a b"}`, with as many dimensions as they have.

Pure. Postgres does not declare dimensions, so a value says how many it has by its braces; lower bounds other
than one stand before it and say nothing of the elements.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Nested: TypeAlias = "list[str | Nested | None]"

_TOKEN = re.compile(r'([{},])|"((?:[^"\\]|\\.)*)"|((?:[^{},"\\]|\\.)+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse_array(text: str) -> Nested:
    """Read an array, dimension within dimension; anything else is a `ValueError`."""
    at = text.index("{") if text.startswith("[") else 0
    if text[at : at + 1] != "{" or text[-1] != "}":
        raise ValueError("an array is between braces")
    top: Nested = []
    trail = [top]
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or not trail:
            raise ValueError("an array is not as Postgres prints one")
        mark, quoted, bare = found.groups()
        if mark == "{":
            inner: Nested = []
            trail[-1].append(inner)
            trail.append(inner)
        elif mark == "}":
            trail.pop()
        elif quoted is not None:
            trail[-1].append(_ESCAPE.sub(r"\1", quoted))
        elif bare is not None:
            trail[-1].append(None if bare == "NULL" else _ESCAPE.sub(r"\1", bare))
        at = found.end()
    if len(trail) != 1 or len(top) != 1 or not isinstance(top[0], list):
        raise ValueError("an array does not end")
    return top[0]


def flatten(nested: Nested) -> list[str | None]:
    """Give the elements of all dimensions in storage order."""
    flat: list[str | None] = []
    for element in nested:
        if isinstance(element, list):
            flat.extend(flatten(element))
        else:
            flat.append(element)
    return flat
