"""Whether a document has a value under a path, for sinks without a query language. Pure.

A path names fields from the root down, `orders.status`; the rows of a relation and the elements of an array
are looked at one by one. A value is given as text: a string as it is, a number by what it is worth, and
`true`, `false` and `null` by their names.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation

from flusso.sinks.rawjson import elements, members
from flusso.sinks.tokens import tokens


def has_value(body: str, path: str, value: str) -> bool:
    """Whether a document has this value under the path, or an element that is equal to it."""
    return _has(body, 0, path.split("."), value)


def _has(text: str, at: int, path: list[str], value: str) -> bool:
    if text[at] == "[":
        return any(_has(text, element, path, value) for element in elements(text, at))
    if not path:
        return text[at] != "{" and _is(next(tokens(text, at))[0], value)
    if text[at] != "{":
        return False
    place = members(text, at).get(path[0])
    return place is not None and _has(text, place[0], path[1:], value)


def _is(token: str, value: str) -> bool:
    if token[0] == '"':
        return bool(json.loads(token) == value)
    if token in ("true", "false", "null"):
        return token == value
    try:
        return Decimal(token) == Decimal(value)
    except InvalidOperation:
        return False
