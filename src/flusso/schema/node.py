"""A value that knows where it stands in its file, and the list of what is wrong with the file.

Readers of a format (YAML here, TOML in `config`) give trees of `Node`; `section` takes them apart. So a
problem found at any depth can name its line, and all problems of a file are found in one go: nobody
raises, everybody adds to `Problems`, and the caller raises once at the end.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from flusso.diagnostic import Code, Diagnostic, Excerpt

Plain: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, both counted from 1, and how far it goes; line 0 is the file as a whole."""

    line: int
    column: int
    length: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, a list or a mapping of a file. Its repr shows no value: it may be a secret."""

    path: str
    place: Place
    value: Plain | list[Node] | dict[str, Node] = field(repr=False)
    key_place: Place | None = None
    """Where the key stands that this is the value of."""

    @property
    def kind(self) -> str:
        """Name the kind of value, for messages."""
        match self.value:
            case None:
                return "nothing"
            case bool():
                return "true or false"
            case int() | float():
                return "a number"
            case str():
                return "a text"
            case list():
                return "a list"
            case _:
                return "a mapping"


class Source(Protocol):
    """The text of a file, for showing."""

    def excerpt(self, place: Place) -> Excerpt | None:
        """Give the line of a place with nothing secret in it, or None when there is no such line."""
        ...


@dataclass(slots=True)
class Problems:
    """What is wrong with one file so far."""

    file: str
    source: Source | None = None
    found: list[Diagnostic] = field(default_factory=list)

    def add(
        self,
        place: Place,
        path: str,
        message: str,
        code: Code = Code.INVALID_VALUE,
        *,
        hint: str | None = None,
    ) -> None:
        """Note a problem."""
        self.found.append(
            Diagnostic(
                code,
                message,
                hint,
                self.file,
                place.line,
                place.column,
                place.length if place.line else 0,
                path,
                excerpt=self.source.excerpt(place) if self.source is not None and place.line else None,
            )
        )

    def at(
        self, node: Node, message: str, code: Code = Code.INVALID_VALUE, *, hint: str | None = None
    ) -> None:
        """Note a problem with a value."""
        self.add(node.place, node.path, message, code, hint=hint)

    def at_key(
        self, node: Node, message: str, code: Code = Code.INVALID_VALUE, *, hint: str | None = None
    ) -> None:
        """Note a problem with the key that a value has."""
        self.add(node.key_place or node.place, node.path, message, code, hint=hint)

    def in_order(self) -> list[Diagnostic]:
        """List the problems from the top of the file to its end, each once."""
        return sorted(dict.fromkeys(self.found), key=lambda problem: (problem.line, problem.column))


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Give the hint about an unknown word that names the known one that was probably meant, if any."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"?' if close else None


def join_path(path: str, key: str | int) -> str:
    """Extend a path by a key or an index."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def unfit_text(text: str) -> str | None:
    """Say why a text can go neither to Postgres nor into JSON, or None."""
    if "\x00" in text:
        return "contains a zero byte"
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "contains half a surrogate pair"
    return None
