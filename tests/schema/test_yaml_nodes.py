"""YAML as such: what is not YAML, what YAML can do that we refuse, and where things stand."""

from __future__ import annotations

import pytest

from flusso.schema.node import Node, Problems
from flusso.schema.section import to_json
from flusso.schema.yaml_nodes import read_yaml


def problems(text: str) -> list[str]:
    found = Problems("f")
    read_yaml(text, found)
    return [str(problem).removeprefix("f:") for problem in found.in_order()]


def read(text: str) -> Node:
    found = Problems("f")
    node = read_yaml(text, found)
    assert found.found == []
    assert node is not None
    return node


def test_a_duplicate_key_is_refused_with_the_line_of_the_first() -> None:
    assert problems("a: 1\nb: 2\na: 3") == ["3:1: a: duplicate key, already given on line 1"]


def test_a_syntax_error_has_its_place() -> None:
    assert problems("a: 1\nb: [1, 2\n") == [
        "3:1: not valid YAML: expected ',' or ']', but got '<stream end>'"
    ]


def test_a_tab_as_indentation_has_its_place() -> None:
    (found,) = problems("a:\n\t- b")
    assert found.startswith("2:1: not valid YAML: ")


def test_an_unknown_alias_has_its_place() -> None:
    assert problems("a: 1\nb: *c") == ["2:4: not valid YAML: found undefined alias 'c'"]


def test_a_second_document_is_refused() -> None:
    assert problems("a: 1\n---\nb: 2") == ["2:1: not valid YAML: but found another document"]


@pytest.mark.parametrize("value", ["!!python/object/apply:os.getcwd []", "!own x", "!own {}"])
def test_a_tag_constructs_nothing_and_is_refused(value: str) -> None:
    assert problems(f"a: {value}") == ["1:4: a: a tag of its own kind is not understood here"]


def test_a_character_that_yaml_does_not_allow_has_its_place() -> None:
    assert problems("a: 1\nb: \x01") == ["2:4: not valid YAML: a character that YAML does not allow"]


@pytest.mark.parametrize("text", ['a: "\\UFFFFFFFF"', 'a: "\\U00110000"', "%YAML 1.3\n---\na: 1"])
def test_what_trips_the_parser_is_refused_as_yaml(text: str) -> None:
    (found,) = problems(text)
    assert found.startswith("1:1: not valid YAML (")


def test_an_alias_stands_for_what_it_names() -> None:
    assert to_json(read("a: &x [1]\nb: *x")) == {"a": [1], "b": [1]}


def test_an_alias_to_what_it_is_part_of_is_refused() -> None:
    assert problems("a: &x [*x]") == ["1:4: a[0]: an alias refers to what it is part of"]


def test_aliases_that_multiply_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join(['*a' + str(n - 1)] * 9)}]" for n in range(1, 9)]
    (found,) = problems("\n".join(lines))
    assert found.endswith("the file is too deep or repeats too much by aliases")


def test_a_file_that_nests_without_end_is_refused() -> None:
    assert problems("[" * 700) != []


def test_a_key_that_is_a_list_is_refused() -> None:
    assert problems("? [a]\n: 1") == ["1:3: a key must be a text"]


def test_a_zero_byte_is_refused() -> None:
    assert problems('a: "x\\0"') == ["1:4: a: contains a zero byte"]


def test_half_a_surrogate_pair_is_refused() -> None:
    assert problems('a: "\\ud800"') == ["1:4: a: contains half a surrogate pair"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-12", -12),
        ("0x1f", 31),
        ("0o17", 15),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("no", "no"),
        ("~", None),
        ("null", None),
        ("", None),
        ('"1"', "1"),
        ("'true'", "true"),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31 10:00:00", "2024-01-31 10:00:00"),
        ("1.2.3", "1.2.3"),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)
def test_a_scalar_has_the_type_of_yaml_1_2(text: str, value: object) -> None:
    found = to_json(read(f"a: {text}"))
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_values_keys_and_items_know_their_place() -> None:
    node = read("a:\n  - b: 1\n    c: [x, y]\n")
    assert isinstance(node.value, dict)
    items = node.value["a"].value
    assert isinstance(items, list)
    inner = items[0].value
    assert isinstance(inner, dict)
    names = inner["c"].value
    assert isinstance(names, list)
    assert inner["c"].key_place is not None
    assert (inner["c"].key_place.line, inner["c"].key_place.column) == (3, 5)
    assert (names[1].place.line, names[1].place.column, names[1].path) == (3, 12, "a[0].c[1]")


def test_a_merge_key_is_refused_with_what_to_do() -> None:
    assert problems("a: &x {b: 1}\nc:\n  <<: *x\n") == [
        "3:3: c: merge keys (<<) are not understood here: write the keys out"
    ]


def test_an_anchor_may_be_used_again() -> None:
    assert problems("a: &x [1, 2]\nb: *x\n") == []


def test_a_tab_has_a_hint_of_its_own() -> None:
    (found,) = problems("a:\n\tb: 1")
    assert found.endswith("indent with spaces, not with tabs")


def test_the_name_of_an_anchor_may_be_used_again() -> None:
    assert problems("a: &x 1\nb: &x 2\nc: *x\n") == []
