"""The JSON Schema of a schema file says what the parser says, as far as a JSON Schema can."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import refused_fields as fields
import refused_relations as relations
from hypothesis import given, settings
from hypothesis import strategies as st

import test_guides
from flusso.errors import SchemaError
from flusso.schema.json_schema import index_schema
from flusso.schema.node import Problems
from flusso.schema.parse import parse_schema
from flusso.schema.rules import TAGS, carried
from flusso.schema.section import to_json
from flusso.schema.yaml_nodes import read_yaml
from market import SCHEMA as MARKET

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft7Validator(index_schema())
BRANCHES = {
    name.removeprefix("field_"): branch
    for name, branch in VALIDATOR.schema["definitions"].items()
    if name.startswith("field_")
}
EXAMPLES = {path.name: path.read_text() for path in ROOT.glob("src/flusso/demo/shop/*.yml")} | {
    "market": MARKET,
    "filters": """
version: 1
table: t
schema: s
primary_key: [a, b]
soft_delete: { field: gone, when: [{ column: x, op: is_null }] }
filters:
  - { raw: "a > 1" }
  - { column: a, op: between, value: [1, 2] }
  - { column: a, op: in, value: [a, 1, true] }
  - { column: a, op: ilike, value: "%x" }
fields:
  - boolean: gone
    default: false
  - enum: size
    column: Size
    variants: [s, m, l]
    options: { boost: 2 }
  - long: counts
    default: [1, 2]
  - object: place
    fields:
      - { json: here, column: at }
      - { has_one: p, table: u, foreign_key: [a, b], fields: [{ uuid: id }] }
""",
    **{f"guide: {name}": example[0] for name, example in test_guides.EXAMPLES.items()},
}
LARGE = {"customers.schema.yml", "market"}

INEXPRESSIBLE = {
    *("a soft delete by a field that is not there", "a name that the server keeps"),
    *("a name given twice on a level", "a soft delete by field of what has no fields"),
    *("a foreign key longer than the parent's key", "a foreign key inside a group that does not fit"),
    *("a foreign key that does not fit the join above", "a column that does not fit the other key"),
    *("a junction whose keys do not fit", "an empty file", "infinity as a default"),
    "a constant that no index holds",
}
"""What compares two places of a file, or what is not YAML with JSON's values in the first place."""
LENIENT = {
    *("a default of the wrong kind", "a default that is no uuid", "a default that is no moment"),
    *("a default that is no date", "a default out of the range of its kind"),
    *("distinct without a junction", "the greatest json"),
}
"""What the JSON Schema lets pass although it could be refused."""


def _tree(text: str) -> Any:
    problems = Problems("f")
    node = read_yaml(text, problems)
    assert node is not None
    assert not problems.found
    return to_json(node)


def _invalid() -> dict[str, str]:
    head = "version: 1\ntable: customers\nprimary_key: id\nfields:\n"
    found = {name: case[0] for name, case in fields.ROOT.items()}
    for group in (fields.FIELDS, relations.JOINS, fields.TAGS, relations.AGGREGATES):
        found |= {name: head + case[0] for name, case in group.items()}
    for name, case in relations.FILTERS.items():
        found[name] = f"version: 1\ntable: t\nfields: [{{text: a}}]\nfilters:\n- {case[0]}"
    return {name: text for name, text in found.items() if name not in INEXPRESSIBLE | LENIENT}


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft7Validator.check_schema(index_schema())


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_good_file_is_valid(name: str) -> None:
    parse_schema(EXAMPLES[name], file=name)
    VALIDATOR.validate(_tree(EXAMPLES[name]))


@pytest.mark.parametrize("case", _invalid())
def test_what_the_parser_refuses_is_not_valid(case: str) -> None:
    assert not VALIDATOR.is_valid(_tree(_invalid()[case]))


def test_every_tag_has_exactly_the_keys_that_the_parser_takes() -> None:
    assert {tag: set(branch["properties"]) for tag, branch in BRANCHES.items()} == {
        tag: carried(tag) for tag in TAGS
    }


def test_every_key_says_what_its_value_may_be() -> None:
    free = {("json", "default"), ("custom", "default"), ("constant", "value")}
    for tag, branch in BRANCHES.items():
        for key, value in branch["properties"].items():
            assert value or (tag, key) in free, (tag, key)


VALUES: list[Any] = [None, True, 0, 1, -1, 1.5, "", " ", "a", "id", "asc", "is_null", [], ["a"], [1, 2], {}]
VALUES += [
    "geo",
    "keyword",
    {"table": "t", "left_key": "a", "right_key": "b"},
    {"column": "a"},
    [{"text": "a"}],
    [{"raw": "a"}],
    "t" * 64,
    "_id",
    ["a", "a"],
]
KEYS = sorted(set().union(*map(carried, TAGS)) | {"version", "direction", "op", "raw", "when", "field"})


def _places(value: Any) -> list[Any]:
    """Every mapping and list within a tree."""
    found = [value] if isinstance(value, dict | list) else []
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _places(item)
    return found


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_it_never_refuses_what_the_parser_takes(data: st.DataObject) -> None:
    tree = copy.deepcopy(
        _tree(EXAMPLES[data.draw(st.sampled_from([name for name in EXAMPLES if name not in LARGE]))])
    )
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(_places(tree)))
        value = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
        if isinstance(place, list):
            place.append(value)
        else:
            key = data.draw(st.sampled_from([*KEYS, *place]))
            place.pop(key, None) if value == {} else place.__setitem__(key, value)
    try:
        parse_schema(json.dumps(tree), file="f")
    except SchemaError:
        return
    VALIDATOR.validate(tree)
