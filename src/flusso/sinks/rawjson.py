"""Cuts values out of JSON text as they were written, without decoding and encoding them again. Pure.

A stored document must come back byte for byte: parsed and printed again, `1.00` would be `1.0`. The
standard decoder says where a value ends, which is all that is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from flusso.errors import SinkUnavailable
from flusso.sinks.tokens import end_of_value

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
_SPACE = re.compile(r"[ \t\n\r]*")


def members(text: str, start: int = 0) -> dict[str, tuple[int, int]]:
    """Give the place of each member's value in the object that begins at `start`."""
    found: dict[str, tuple[int, int]] = {}
    try:
        at = _skip(text, start)
        if text[at] != "{":
            raise ValueError("not an object")
        at = _skip(text, at + 1)
        while text[at] != "}":
            key, at = _DECODER.raw_decode(text, at)
            begin = _skip(text, _skip(text, at) + 1)
            end = _end(text, begin)
            found[key] = (begin, end)
            at = _after_comma(text, end)
    except (ValueError, IndexError) as error:
        raise SinkUnavailable("an answer of the search server is cut short") from error
    return found


def elements(text: str, start: int) -> Iterator[int]:
    """Give where each element begins in the array that begins at `start`."""
    try:
        at = _skip(text, start)
        if text[at] != "[":
            raise ValueError("not an array")
        at = _skip(text, at + 1)
        while text[at] != "]":
            yield at
            end = _end(text, at)
            at = _after_comma(text, end)
    except (ValueError, IndexError) as error:
        raise SinkUnavailable("an answer of the search server is cut short") from error


def _end(text: str, start: int) -> int:
    try:
        return _DECODER.raw_decode(text, start)[1]
    except RecursionError:  # a stored document may be nested deeper than the decoder goes
        return end_of_value(text, start)


def _after_comma(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
