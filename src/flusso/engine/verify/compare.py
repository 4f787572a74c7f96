"""Two documents: whether they say the same, and where they do not. Pure.

A sink gives back the bytes that were written, so nearly always the bytes decide. Where they differ the
content does: the order of members and the space between tokens mean nothing, but a number is its text: 1.10
and 1.1 are not the same document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

WHOLE = "$"
"""The path of the document itself."""
MORE = "…"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Number(NamedTuple):
    """A number as it is written; a tuple equals neither a string nor an array."""

    text: str


class _Pairs(NamedTuple):
    """An object that has a name twice."""

    pairs: tuple[tuple[str, Any], ...]


def is_same(one: bytes, other: bytes) -> bool:
    """Tell whether two documents have the same content."""
    if one == other:
        return True
    try:
        return bool(_parse(one) == _parse(other))
    except (ValueError, RecursionError):
        return False


def differing_paths(expected: bytes, held: bytes, most: int = 20) -> tuple[str, ...]:
    """Name the places where two documents differ, in order; `…` stands for the rest when there are more.

    An array of another length is one place: after what was put in or left out every later element differs.
    """
    try:
        found = list(islice(_walk(_parse(expected), _parse(held), WHOLE), most + 1))
    except (ValueError, RecursionError):
        return (WHOLE,)
    return (*found[:most], MORE) if len(found) > most else tuple(found)


def _walk(expected: Any, held: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(held, dict):
        for name in dict.fromkeys((*expected, *held)):
            if name in expected and name in held:
                yield from _walk(expected[name], held[name], _member(path, name))
            else:
                yield _member(path, name)
    elif isinstance(expected, list) and isinstance(held, list) and len(expected) == len(held):
        for place, (one, other) in enumerate(zip(expected, held, strict=True)):
            yield from _walk(one, other, f"{path}[{place}]")
    elif type(expected) is not type(held) or expected != held:
        yield path


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{path}[{json.dumps(name)}]"


def _parse(body: bytes) -> Any:
    return json.loads(
        body.decode(),
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
        object_pairs_hook=_object,
    )


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Pairs(tuple(pairs))
