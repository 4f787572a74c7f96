"""A schema as text that a sink keeps."""

from __future__ import annotations

import json

import pytest
from test_digest import LARGE, SMALL

from flusso.schema.parse import parse_schema
from flusso.schema.stored import schema_from_text, schema_name, schema_to_text, stored_name
from market import market_schema

SCHEMAS = {
    "small": parse_schema(SMALL, file="x"),
    "large": parse_schema(LARGE, file="x"),
    "market": market_schema(),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_reads_back_as_it_was_written(name: str) -> None:
    schema = SCHEMAS[name]
    text = schema_to_text(schema)
    assert schema_from_text(text) == schema
    assert stored_name(text) == schema_name(schema)


def test_json_of_the_users_that_looks_like_ours_stays_json() -> None:
    text = SMALL + "  - constant: what\n    value: {is: Scalar, kind: [text]}\n"
    schema = parse_schema(text, file="x")
    assert schema_from_text(schema_to_text(schema)) == schema


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        json.dumps({"digest": "x", "schema": {"is": "Novelty"}}),
        schema_to_text(SCHEMAS["small"]).replace('"text"', '"novel"'),
        schema_to_text(SCHEMAS["small"]).replace('"customers"', '"orders"'),
    ],
)
def test_what_this_release_does_not_understand_is_no_schema(text: str) -> None:
    assert schema_from_text(text) is None
