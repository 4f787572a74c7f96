"""Take a mapping of a file apart, key by key, with a typed question for each.

A `Section` knows which keys may be there. Every question returns a usable value even when the file is
wrong, and notes the problem, so that the reader goes on and finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar, cast

from flusso.diagnostic import Code
from flusso.schema.excerpt import show_word
from flusso.schema.model import Columns, Json
from flusso.schema.node import Node, Place, Problems, did_you_mean, join_path

Choice = TypeVar("Choice", bound=StrEnum)

MAX_NAME_BYTES = 63
"""What Postgres keeps of a name."""


class Section:
    """One mapping of a file, and the keys that it may have.

    `refused` maps a key that is known but has no place here to the reason, which is also how a key that
    a later version brings says so.
    """

    def __init__(
        self,
        node: Node,
        problems: Problems,
        known: Collection[str],
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self.node = node
        self.problems = problems
        self._items: dict[str, Node] = {}
        if not isinstance(node.value, dict):
            problems.at(node, f"must be a mapping, is {node.kind}", Code.WRONG_TYPE)
            return
        refused = refused or {}
        for key, item in node.value.items():
            if key in known:
                self._items[key] = item
            elif key in refused:
                problems.at_key(item, refused[key], _refusal(refused[key]))
            else:
                hint = did_you_mean(key, known)
                problems.at_key(item, f'unknown key "{key}"', Code.UNKNOWN_KEY, hint=hint)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def get(self, key: str) -> Node | None:
        """Give the value as it stands, or None when the key is absent."""
        return self._items.get(key)

    def need(self, *keys: str) -> None:
        """Note each key that is missing."""
        if isinstance(self.node.value, dict):
            for key in keys:
                if key not in self._items and key not in self.node.value:
                    self.wrong(f'"{key}" is missing', code=Code.MISSING_KEY)

    def wrong(
        self,
        message: str,
        key: str | None = None,
        *,
        code: Code = Code.INVALID_VALUE,
        hint: str | None = None,
    ) -> None:
        """Note a problem with a key, or with the section as a whole."""
        item = self._items.get(key) if key is not None else None
        self.problems.at(item if item is not None else self.node, message, code, hint=hint)

    def text(self, key: str, default: str = "") -> str:
        """Read a text that is not empty."""
        item = self._items.get(key)
        return default if item is None else read_text(item, self.problems) or default

    def name(self, key: str, default: str = "") -> str:
        """Read the name of something in Postgres."""
        item = self._items.get(key)
        return default if item is None else read_name(item, self.problems) or default

    def columns(self, key: str, default: Columns = ()) -> Columns:
        """Read one column or a list of them."""
        item = self._items.get(key)
        if item is None:
            return default
        if not isinstance(item.value, list):
            name = read_name(item, self.problems)
            return (name,) if name else default
        if not item.value:
            self.problems.at(item, "names no column", Code.EMPTY_LIST)
        names = [read_name(one, self.problems) for one in item.value]
        if len(set(names)) < len(names):
            self.problems.at(item, "names a column twice", Code.DUPLICATE_ITEM)
        return tuple(name or "" for name in names)

    def boolean(self, key: str, default: bool) -> bool:
        """Read true or false."""
        item = self._items.get(key)
        if item is None:
            return default
        if isinstance(item.value, bool):
            return item.value
        self.problems.at(item, f"must be true or false, is {item.kind}", Code.WRONG_TYPE)
        return default

    def integer(self, key: str, default: int, *, low: int, high: int) -> int:
        """Read a whole number within bounds."""
        item = self._items.get(key)
        if item is None:
            return default
        value = item.value
        if isinstance(value, bool) or not isinstance(value, int):
            self.problems.at(item, f"must be a whole number, is {item.kind}", Code.WRONG_TYPE)
        elif value < low:
            self.problems.at(item, f"must be at least {low}", Code.OUT_OF_RANGE)
        elif value > high:
            self.problems.at(item, f"must be at most {high}", Code.OUT_OF_RANGE)
        else:
            return value
        return default

    def number(self, key: str, default: float, *, low: float, high: float) -> float:
        """Read a number within bounds."""
        item = self._items.get(key)
        if item is None:
            return default
        value = item.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.problems.at(item, f"must be a number, is {item.kind}", Code.WRONG_TYPE)
        elif not low <= value <= high:
            self.problems.at(item, f"must be between {low:g} and {high:g}", Code.OUT_OF_RANGE)
        else:
            return float(value)
        return default

    def choice(self, key: str, kind: type[Choice], default: Choice) -> Choice:
        """Read one of a closed set of words."""
        item = self._items.get(key)
        return default if item is None else read_choice(item, kind, self.problems) or default

    def items(self, key: str) -> list[Node]:
        """Read a list; an absent one is empty."""
        item = self._items.get(key)
        if item is None:
            return []
        if isinstance(item.value, list):
            return item.value
        self.problems.at(item, f"must be a list, is {item.kind}", Code.WRONG_TYPE)
        return []

    def words(self, key: str) -> tuple[str, ...]:
        """Read a list of texts."""
        return tuple(read_text(item, self.problems) or "" for item in self.items(key))

    def mapping(self, key: str) -> Mapping[str, Json]:
        """Read a mapping of anything."""
        item = self._items.get(key)
        if item is None:
            return {}
        if isinstance(item.value, dict):
            return cast(dict[str, Json], to_json(item))
        self.problems.at(item, f"must be a mapping, is {item.kind}", Code.WRONG_TYPE)
        return {}

    def inner(self, key: str, known: Collection[str], refused: Mapping[str, str] | None = None) -> Section:
        """Open a section within this one; an absent one has no keys."""
        item = self._items.get(key) or Node(key, self.node.place, {})
        return Section(item, self.problems, known, refused)


def _refusal(reason: str) -> Code:
    """Tell what will come from what belongs elsewhere."""
    return Code.UNSUPPORTED if "not supported" in reason else Code.MISPLACED_KEY


def without_nulls(node: Node, keys: Collection[str]) -> Node:
    """Leave out the keys among these that are null: they count as absent."""
    if not isinstance(node.value, dict):
        return node
    kept = {key: item for key, item in node.value.items() if item.value is not None or key not in keys}
    return replace(node, value=kept)


def read_text(item: Node, problems: Problems) -> str | None:
    """Read a text that is not empty, or note what it is instead."""
    if not isinstance(item.value, str):
        problems.at(item, f"must be a text, is {item.kind}", Code.WRONG_TYPE)
    elif not item.value.strip():
        problems.at(item, "is empty")
    else:
        return item.value
    return None


def read_name(item: Node, problems: Problems) -> str | None:
    """Read a name that Postgres can have, exactly as the catalog writes it."""
    text = read_text(item, problems)
    if text is not None and len(text.encode()) > MAX_NAME_BYTES:
        problems.at(
            item, f"is longer than {MAX_NAME_BYTES} bytes, which no name in Postgres is", Code.INVALID_NAME
        )
        return None
    return text


def read_choice(item: Node, kind: type[Choice], problems: Problems) -> Choice | None:
    """Read one of the words of an enum."""
    text = read_text(item, problems)
    if text is None:
        return None
    words = [member.value for member in kind]
    if text in words:
        return kind(text)
    problems.at(
        item,
        f"{show_word(text)} is not one of {', '.join(words)}",
        Code.UNKNOWN_WORD,
        hint=did_you_mean(text, words),
    )
    return None


def read_each(nodes: list[Node], read: Callable[[Node], Choice | None]) -> tuple[Choice, ...]:
    """Read a list of choices, leaving out the wrong ones."""
    return tuple(found for node in nodes if (found := read(node)) is not None)


def to_json(node: Node) -> Json:
    """Give a tree of nodes as the plain value it is."""
    match node.value:
        case list():
            return [to_json(item) for item in node.value]
        case dict():
            return {key: to_json(item) for key, item in node.value.items()}
        case _:
            return node.value


def to_node(value: Json, path: str = "") -> Node:
    """Give a plain value as a tree of nodes that stands in no file: the inverse of `to_json`."""
    place = Place(0, 0)
    match value:
        case list():
            return Node(path, place, [to_node(item, join_path(path, n)) for n, item in enumerate(value)])
        case dict():
            return Node(
                path, place, {key: to_node(item, join_path(path, key)) for key, item in value.items()}
            )
        case _:
            return Node(path, place, value)
