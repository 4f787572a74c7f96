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
_CUT_SHORT = "an answer of the search server is cut short"
_SPACE = re.compile(r"[ \t\n\r]*")


def members(text: str, start: int = 0) -> dict[str, tuple[int, int]]:
    """Give the place of each member's value in the object that begins at `start`."""
    try:
        return _members(text, start)[0]
    except (ValueError, IndexError) as error:
        raise SinkUnavailable(_CUT_SHORT) from error


def objects(text: str, name: str) -> Iterator[dict[str, tuple[int, int]]]:
    """Give `members` of each object in the array that the outermost object has by this name.

    Each value is gone over once, however large; what follows the array is not looked at.
    """
    try:
        at = _find(text, name)
        if text[at] != "[":
            raise ValueError("not an array")
        at = _skip(text, at + 1)
        while text[at] != "]":
            found, end = _members(text, at)
            yield found
            at = _after_comma(text, end)
    except (ValueError, IndexError) as error:
        raise SinkUnavailable(_CUT_SHORT) from error


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
        raise SinkUnavailable(_CUT_SHORT) from error


def _members(text: str, start: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Give the places of the values, and where the object ends."""
    found: dict[str, tuple[int, int]] = {}
    at = _begin(text, start)
    while text[at] != "}":
        key, begin = _name(text, at)
        end = _end(text, begin)
        found[key] = (begin, end)
        at = _after_comma(text, end)
    return found, at + 1


def _find(text: str, name: str) -> int:
    """Give where the value of a member of the outermost object begins."""
    at = _begin(text, 0)
    while text[at] != "}":
        key, begin = _name(text, at)
        if key == name:
            return begin
        at = _after_comma(text, _end(text, begin))
    raise ValueError("there is no such member")


def _begin(text: str, start: int) -> int:
    at = _skip(text, start)
    if text[at] != "{":
        raise ValueError("not an object")
    return _skip(text, at + 1)


def _name(text: str, at: int) -> tuple[str, int]:
    """Give the name of a member, and where its value begins."""
    key, at = _DECODER.raw_decode(text, at)
    return key, _skip(text, _skip(text, at) + 1)


def _end(text: str, start: int) -> int:
    try:
        return _DECODER.raw_decode(text, start)[1]
    except RecursionError:  # a stored document may be nested deeper than the decoder goes
        return end_of_value(text, start)


def _after_comma(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    if text[at : at + 1] > " ":  # nearly always: servers leave no space
        return at
    found = _SPACE.match(text, at)
    return found.end() if found else at
