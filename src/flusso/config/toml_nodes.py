"""Read TOML into nodes with places.

The standard library reads the values and says what is not TOML, but forgets where things stood. So a
second walk over the same text, now known to be valid, notes the place of every key and value: it only has
to tell keys from strings, comments and brackets.
"""

from __future__ import annotations

import math
import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field

from flusso.config.toml_source import TomlSource, is_harmless
from flusso.diagnostic import Code
from flusso.schema.excerpt import Span
from flusso.schema.node import Node, Place, Plain, Problems, join_path, unfit_text

Keys = tuple[str | int, ...]

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_COMMENT = re.compile(r"#[^\n]+")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_VALUE = re.compile(r"[^,\]}#\n]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'",
    re.DOTALL,
)
_MAX_DEPTH = 60


def read_toml(text: str, problems: Problems) -> Node | None:
    """Read a document; None, and a problem with its place, when it is not TOML."""
    problems.source = TomlSource(text)
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        _note_syntax(text, str(error) if isinstance(error, tomllib.TOMLDecodeError) else "", problems)
        return None
    try:
        walk = _Walk(text.replace("\r\n", "\n"))
        walk.run()
    except RecursionError:
        problems.add(Place(1, 1), "", "the file nests too deep", Code.INVALID_TOML)
        return None
    problems.source = TomlSource(walk.text, tuple(walk.hidden))
    return _Build(walk, problems).node(values, (), "", Place(1, 1))


def _note_syntax(text: str, message: str, problems: Problems) -> None:
    found = _PLACE.search(message)
    if found is not None and found[1]:
        place = Place(int(found[1]), int(found[2]))
    else:
        place = Place(text.count("\n") + 1, 1)
    said = _PLACE.sub("", message)
    message = f"not valid TOML: {said[:1].lower()}{said[1:]}" if said else "not valid TOML"
    problems.add(place, "", message, Code.INVALID_TOML)


@dataclass(slots=True)
class _Walk:
    """One pass over valid TOML that notes where each key and value stands, and what not to show."""

    text: str
    at: int = 0
    places: dict[Keys, Place] = field(default_factory=dict)
    key_places: dict[Keys, Place] = field(default_factory=dict)
    hidden: list[Span] = field(default_factory=list)
    counts: dict[Keys, int] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)

    def run(self) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        table: Keys = ()
        while self._skip(_BLANK) and self.at < len(self.text):
            table = self._header() if self.text[self.at] == "[" else self._pair(table)

    def _header(self) -> Keys:
        start = self.at
        is_list = self.text.startswith("[[", self.at)
        self.at += 2 if is_list else 1
        keys = self._resolve(self._key())
        self._skip(_SPACE)
        self.at += 2 if is_list else 1
        if is_list:
            self._note(self.places, keys, start)
            index = self.counts.get(keys, -1) + 1
            self.counts[keys] = index
            keys = (*keys, index)
        self._note(self.places, keys, start)
        return keys

    def _resolve(self, keys: Keys) -> Keys:
        """Step into the last item of each list of tables that a header passes through."""
        found: Keys = ()
        for place, key in enumerate(keys):
            found = (*found, key)
            if found in self.counts and place < len(keys) - 1:
                found = (*found, self.counts[found])
        return found

    def _pair(self, table: Keys) -> Keys:
        start = self.at
        key = self._key()
        for length in range(1, len(key)):
            self._note(self.places, (*table, *key[:length]), start)
        self._note(self.key_places, (*table, *key), start)
        self._skip(_SPACE)
        self.at += 1
        self._skip(_SPACE)
        self._value((*table, *key))
        return table

    def _key(self) -> Keys:
        parts: list[str | int] = []
        while True:
            self._skip(_SPACE)
            string = _STRING.match(self.text, self.at)
            bare = string or _BARE_KEY.match(self.text, self.at)
            assert bare is not None
            self.at = bare.end()
            parts.append(_unquote(bare[0]) if string else bare[0])
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1

    def _value(self, keys: Keys) -> None:
        start = self.at
        if self.text.startswith("[", self.at):
            self._items(keys, "]")
        elif self.text.startswith("{", self.at):
            self._items(keys, "}")
        else:
            found = _STRING.match(self.text, self.at) or _PLAIN_VALUE.match(self.text, self.at)
            assert found is not None
            self.at = found.end()
            if not is_harmless(keys):
                self.hidden.append((start, start + len(found[0].rstrip())))
        self._note(self.places, keys, start)

    def _items(self, keys: Keys, end: str) -> None:
        self.at += 1
        index = 0
        while self._skip(_BLANK) and not self.text.startswith(end, self.at):
            if end == "}":
                self._pair(keys)
            else:
                self._value((*keys, index))
            index += 1
            self._skip(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1
        self.at += 1

    def _skip(self, what: re.Pattern[str]) -> bool:
        found = what.match(self.text, self.at)
        assert found is not None
        if what is _BLANK:
            self.hidden += [comment.span() for comment in _COMMENT.finditer(self.text, *found.span())]
        self.at = found.end()
        return True

    def _note(self, places: dict[Keys, Place], keys: Keys, start: int) -> None:
        line = bisect_right(self.starts, start)
        length = len(self.text[start : self.at].partition("\n")[0].rstrip())
        places.setdefault(keys, Place(line, start - self.starts[line - 1] + 1, max(1, length)))


def _unquote(text: str) -> str:
    return str(tomllib.loads(f"key = {text}")["key"])


@dataclass(frozen=True, slots=True)
class _Build:
    walk: _Walk
    problems: Problems

    def node(self, value: object, keys: Keys, path: str, outer: Place) -> Node:
        place = self.walk.places.get(keys, outer)
        key_place = self.walk.key_places.get(keys)
        if len(keys) > _MAX_DEPTH:
            self.problems.add(place, path, "nests too deep", Code.INVALID_TOML)
            return Node(path, place, None)
        match value:
            case dict():
                inner = {
                    key: self.node(item, (*keys, key), join_path(path, key), place)
                    for key, item in value.items()
                }
                return Node(path, place, inner, key_place)
            case list():
                items = [
                    self.node(item, (*keys, index), join_path(path, index), place)
                    for index, item in enumerate(value)
                ]
                return Node(path, place, items, key_place)
            case _:
                return Node(path, place, self._plain(value, path, place), key_place)

    def _plain(self, value: object, path: str, place: Place) -> Plain:
        if isinstance(value, str):
            if (flaw := unfit_text(value)) is not None:
                self.problems.add(place, path, flaw)
                return None
            return value
        if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        self.problems.add(place, path, "a date, infinity or not-a-number has no place here")
        return None
