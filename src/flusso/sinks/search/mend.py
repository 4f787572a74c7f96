"""Makes a refused document fit: JSON that no server takes becomes a string that holds its text. Pure.

A `json` field is mapped as an object that is kept and not indexed, yet the server reads all of it, and
refuses the document for a key that an object has twice, a number of over 1,000 digits, and what is nested
too deep. Postgres stores all of that. To look for it in every document would cost more than to write it, so
a document is looked at once it was refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flusso.sinks.rawjson import elements, members
from flusso.sinks.tokens import tokens

MAX_DEPTH = 1000
MAX_ARRAYS = 20
"""Arrays around arrays, with those of relations that the field is in; what is in an object does not count."""
MAX_DIGITS = 1000
MAX_NAME = 50_000

Fields = dict[str, Any]
"""By name what is below a field, and None for a field that is kept and not indexed."""


def opaque_fields(mapping: Mapping[str, Any]) -> Fields:
    """Find the fields that are kept and not indexed in a mapping, and the way there."""
    found: Fields = {}
    for name, field in mapping.get("properties", {}).items():
        if field.get("enabled") is False:
            found[name] = None
        elif below := opaque_fields(field):
            found[name] = below
    return found


def mend(body: bytes, fields: Fields) -> bytes | None:
    """Give the document with its unfit JSON values as strings; None when it has none."""
    text = body.decode()
    parts: list[str] = []
    at = 0
    for start, end, place in _values(text, 0, fields, _Place(1, 0)):
        if _is_unfit(text[start:end], place):
            parts += (text[at:start], json.dumps(text[start:end], ensure_ascii=False))
            at = end
    return "".join([*parts, text[at:]]).encode() if parts else None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands in its document: how many objects and arrays it is in, how many of them arrays."""

    depth: int
    arrays: int


def _values(text: str, start: int, fields: Fields, place: _Place) -> Iterator[tuple[int, int, _Place]]:
    """Give where the values of the fields are in the object at `start`, in order."""
    for name, (begin, end) in members(text, start).items():
        below = fields.get(name, {})
        if below is None:
            yield begin, end, place
        elif below and text[begin] == "{":
            yield from _values(text, begin, below, _Place(place.depth + 1, place.arrays))
        elif below and text[begin] == "[":
            for element in elements(text, begin):
                if text[element] == "{":
                    inner = _Place(place.depth + 2, place.arrays + 1)
                    yield from _values(text, element, below, inner)


def _is_unfit(text: str, place: _Place) -> bool:
    """Tell whether a server refuses the value."""
    opened: list[set[str] | None] = []
    """The names of each object that is open, None for an array."""
    last = ""
    for token in tokens(text):
        sign = token[0]
        if sign in "{[":
            opened.append(set() if sign == "{" else None)
            is_deep_array = place.arrays + len(opened) > MAX_ARRAYS and not any(map(_is_object, opened))
            if is_deep_array or place.depth + len(opened) > MAX_DEPTH:
                return True
        elif sign in "}]":
            opened.pop()
        elif sign == ":":
            name = json.loads(last)
            names = opened[-1]
            assert names is not None
            if name in names or len(name) > MAX_NAME:
                return True
            names.add(name)
        elif len(sign) > MAX_DIGITS and sign[0] != '"' and sum(map(str.isdigit, sign)) > MAX_DIGITS:
            return True
        last = sign
    return False


def _is_object(names: set[str] | None) -> bool:
    return names is not None
