"""Read YAML 1.2 into nodes with places.

Works on ruamel's composed graph, one step before Python objects are made: every key and value still has
its mark there, and no tag can construct anything. Called by `parse`; gives None when there is no tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from ruamel.yaml import YAML, nodes
from ruamel.yaml.error import MarkedYAMLError, StringMark
from ruamel.yaml.reader import ReaderError

from flusso.diagnostic import Code
from flusso.schema.excerpt import YamlSource
from flusso.schema.node import Node, Place, Plain, Problems, join_path, unfit_text

_TAG = "tag:yaml.org,2002:"
_CORE = ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
_MAX_NODES = 50_000
"""Aliases may be repeated, but not until a small file fills the memory."""

_MAX_DEPTH = 100
_MAX_BITS = 10_000


def read_yaml(text: str, problems: Problems) -> Node | None:
    """Read one document; what is wrong with it as YAML is added to the problems."""
    problems.source = YamlSource(text)
    reader = YAML(typ="rt", pure=True)
    # YAML allows to use an anchor's name again; the warning would print lines that may hold a secret.
    reader.composer.warn_double_anchors = False
    try:
        graph = reader.compose(text)
    except MarkedYAMLError as error:
        said = str(error.problem or error.context)
        problems.add(
            _place(error.problem_mark),
            "",
            f"not valid YAML: {said}",
            Code.INVALID_YAML,
            hint="indent with spaces, not with tabs" if "\\t" in said else None,
        )
        return None
    except ReaderError as error:
        before = text[: error.position]
        place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        problems.add(place, "", "not valid YAML: a character that YAML does not allow", Code.INVALID_YAML)
        return None
    except Exception as error:
        # Odd escapes, versions and depths trip the parser over whatever comes first: OverflowError,
        # AssertionError, RecursionError and more. None of that is ours to tell apart.
        problems.add(Place(1, 1), "", f"not valid YAML ({type(error).__name__})", Code.INVALID_YAML)
        return None
    if graph is None:
        problems.add(Place(1, 1), "", "the file is empty", Code.EMPTY_FILE)
        return None
    return _Converter(problems).convert(graph, "", 0)


def _place(mark: StringMark | None) -> Place:
    return Place(mark.line + 1, mark.column + 1) if mark is not None else Place(1, 1)


def _span(source: nodes.Node) -> Place:
    """Give where a node begins, and how long it is when it ends on the same line."""
    start, end = source.start_mark, source.end_mark
    if start is None or end is None:
        return _place(start)
    is_short = isinstance(source, nodes.ScalarNode) or bool(getattr(source, "flow_style", False))
    length = end.column - start.column if is_short and end.line == start.line else 1
    return Place(start.line + 1, start.column + 1, max(1, length))


@dataclass(slots=True)
class _Converter:
    problems: Problems
    count: int = 0
    open: set[int] = field(default_factory=set)

    def convert(self, source: nodes.Node, path: str, depth: int) -> Node:
        place = _span(source)
        self.count += 1
        if id(source) in self.open:
            self.problems.add(place, path, "an alias refers to what it is part of", Code.INVALID_YAML)
            return Node(path, place, None)
        if depth > _MAX_DEPTH or self.count > _MAX_NODES:
            if self.count <= _MAX_NODES + 1:
                message = "the file is too deep or repeats too much by aliases"
                self.problems.add(place, path, message, Code.INVALID_YAML)
            return Node(path, place, None)
        if not str(source.tag).startswith(_TAG) or str(source.tag).removeprefix(_TAG) not in _CORE:
            self.problems.add(place, path, "a tag of its own kind is not understood here", Code.INVALID_YAML)
        self.open.add(id(source))
        try:
            return Node(path, place, self._value(source, path, place, depth))
        finally:
            self.open.discard(id(source))

    def _value(
        self, source: nodes.Node, path: str, place: Place, depth: int
    ) -> Plain | list[Node] | dict[str, Node]:
        match source:
            case nodes.MappingNode():
                return self._mapping(source, path, depth)
            case nodes.SequenceNode():
                return [
                    self.convert(item, join_path(path, index), depth + 1)
                    for index, item in enumerate(source.value)
                ]
            case _:
                return self._scalar(source, path, place)

    def _mapping(self, source: nodes.MappingNode, path: str, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key_source, value_source in source.value:
            key_place = _span(key_source)
            if not isinstance(key_source, nodes.ScalarNode):
                self.problems.add(key_place, path, "a key must be a text", Code.WRONG_TYPE)
                continue
            if str(key_source.tag) == f"{_TAG}merge":
                message = "merge keys (<<) are not understood here: write the keys out"
                self.problems.add(key_place, path, message, Code.UNSUPPORTED)
                continue
            key = str(key_source.value)
            own_path = join_path(path, key)
            if (flaw := unfit_text(key)) is not None:
                self.problems.add(key_place, path, f"a key {flaw}")
                continue
            if (first := found.get(key)) is not None:
                line = (first.key_place or first.place).line
                message = f"duplicate key, already given on line {line}"
                self.problems.add(key_place, own_path, message, Code.DUPLICATE_KEY)
                continue
            found[key] = replace(self.convert(value_source, own_path, depth + 1), key_place=key_place)
        return found

    def _scalar(self, source: nodes.Node, path: str, place: Place) -> Plain:
        text = str(source.value)
        tag = str(source.tag or "")
        if (flaw := unfit_text(text)) is not None:
            self.problems.add(place, path, flaw)
            return None
        value = _resolve(text, tag)
        if isinstance(value, float) and not math.isfinite(value):
            self.problems.add(place, path, "infinity and not-a-number have no place in JSON")
            return None
        return value


def _resolve(text: str, tag: str) -> Plain:
    """Give a scalar its type by YAML's core tags; a date stays the text that it is written as."""
    try:
        match tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() in ("true", "yes", "on")
            case "int":
                return _integer(text)
            case "float":
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
            case _:
                return text
    except ValueError:
        return text


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    for prefix, base in (("0x", 16), ("0o", 8), ("0b", 2)):
        if digits.startswith(prefix):
            return sign * _bounded(int(digits[2:], base))
    return sign * _bounded(int(digits))


def _bounded(number: int) -> int:
    """Refuse what could not be written as decimal digits again; it stays the text it is."""
    if number.bit_length() > _MAX_BITS:
        raise ValueError("too large")
    return number
