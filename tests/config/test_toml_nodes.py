"""TOML as such: where every key stands, and what is not TOML."""

from __future__ import annotations

import tomllib

import pytest

from flusso.config.toml_nodes import read_toml
from flusso.schema.node import Node, Problems
from flusso.schema.section import to_json

TEXT = '''# a comment with [brackets] = "and more"
prefix = "a"   # "b"
"quoted key" = 1
dotted.inner.key = true

[source]
url = "with \\" and # inside"
other = 'single # [x]'
long = """
[not.a.header]
key = 1 \\""" still
"""
literal = \'\'\'
x = 1
\'\'\'
parts = { host = "h", "port" = 1, deep = { er = [1, 2] } }
list = [
    "one", # ]
    { env = "X" },
    [3],
]
last = 5

[sinks.a]
type = "x"
[sinks."b.c"]
type = "y"

[[index]]
name = "one"
[index.extra]
key = 1
[[index]]
name = "two"
  [[index.part]]
  key = 2
  [[index.part]]
  key = 3
'''


def places(text: str) -> dict[str, tuple[int, int]]:
    """Give line and column of everything in a document, by path."""
    root = read_toml(text, Problems("f"))
    assert root is not None
    found: dict[str, tuple[int, int]] = {}

    def visit(node: Node) -> None:
        place = node.key_place or node.place
        found[node.path] = (place.line, place.column)
        if isinstance(node.value, dict):
            for item in node.value.values():
                visit(item)
        if isinstance(node.value, list):
            for item in node.value:
                visit(item)

    visit(root)
    return found


def problems(text: str) -> list[str]:
    found = Problems("f")
    read_toml(text, found)
    return [str(problem).removeprefix("f:") for problem in found.found]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("prefix", (2, 1)),
        ("quoted key", (3, 1)),
        ("dotted.inner.key", (4, 1)),
        ("source", (6, 1)),
        ("source.url", (7, 1)),
        ("source.other", (8, 1)),
        ("source.long", (9, 1)),
        ("source.literal", (13, 1)),
        ("source.parts", (16, 1)),
        ("source.parts.host", (16, 11)),
        ("source.parts.port", (16, 23)),
        ("source.parts.deep.er", (16, 44)),
        ("source.parts.deep.er[1]", (16, 53)),
        ("source.list[0]", (18, 5)),
        ("source.list[1].env", (19, 7)),
        ("source.list[2]", (20, 5)),
        ("source.last", (22, 1)),
        ("sinks.a.type", (25, 1)),
        ("sinks.b.c.type", (27, 1)),
        ("index[0].name", (30, 1)),
        ("index[0].extra.key", (32, 1)),
        ("index[1]", (33, 1)),
        ("index[1].name", (34, 1)),
        ("index[1].part[0].key", (36, 3)),
        ("index[1].part[1].key", (38, 3)),
    ],
)
def test_every_key_has_its_place(path: str, place: tuple[int, int]) -> None:
    assert places(TEXT)[path] == place


def test_a_value_has_a_place_of_its_own_and_a_length() -> None:
    root = read_toml('a = "one"  # two\nb = [1, 22]\n', Problems("f"))
    assert root is not None
    assert isinstance(root.value, dict)
    found = [(node.place.line, node.place.column, node.place.length) for node in root.value.values()]
    assert found == [(1, 5, 5), (2, 5, 7)]


def test_windows_line_ends_change_no_place() -> None:
    assert places(TEXT.replace("\n", "\r\n")) == places(TEXT)


def test_the_values_are_those_of_the_standard_library() -> None:
    root = read_toml(TEXT, Problems("f"))
    assert root is not None
    assert to_json(root) == tomllib.loads(TEXT)


def test_a_syntax_error_has_its_place() -> None:
    assert problems("a = 1\nb = \n") == ["2:5: not valid TOML: invalid value"]


def test_a_syntax_error_at_the_end_has_the_last_line() -> None:
    (found,) = problems('a = 1\nb = """x')
    assert found.startswith("2:1: not valid TOML: ")


def test_a_duplicate_key_is_refused() -> None:
    (found,) = problems("a = 1\na = 2\n")
    assert found.startswith("2:")


def test_a_date_has_no_place_in_a_deployment() -> None:
    assert problems("a = 1\nb = 2024-01-01\n") == [
        "2:5: b: a date, infinity or not-a-number has no place here"
    ]


def test_a_file_that_nests_without_end_is_refused() -> None:
    assert problems("a = " + "[" * 3000 + "]" * 3000) != []
