"""Whatever stands in a schema file, it gives a model or a `SchemaError`."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from damage import misspelt, rearranged, revalued, spliced
from flusso.cli.report import print_findings
from flusso.errors import SchemaError
from flusso.schema.digest import digest
from flusso.schema.parse import parse_schema

GOOD = """version: 1
table: customers
primary_key: [id]
soft_delete: {field: gone}
filters:
  - {raw: "id > 0"}
  - {column: name, op: between, value: [a, b]}
fields:
  - text: name
    transforms: [trim, lowercase]
    options: {analyzer: italian}
  - boolean: gone
    required: true
  - enum: tier
    variants: [new, old]
    default: new
  - custom: price
    postgres: [numeric, money]
    opensearch: scaled_float
    options: {scaling_factor: 100}
  - geo: place
    lat: latitude
    lon: longitude
  - map: titles
    values: text
  - constant: origin
    value: {a: [1, null, x], b: 2.5}
  - object: more
    fields:
      - belongs_to: country
        table: countries
        fields: [{keyword: code}]
  - has_many: orders
    table: orders
    foreign_key: customer_id
    order_by: [{column: at, direction: desc}]
    limit: 10
    fields:
      - decimal: total
  - max: last
    table: orders
    foreign_key: customer_id
    column: placed_at
    value_type: timestamp
  - ids: tag_ids
    table: tags
    element_type: long
    through:
      table: customer_tags
      left_key: customer_id
      right_key: tag_id
      filters: [{column: removed, op: eq, value: false}]
"""

PIECES = [
    *("", " ", "\t", "\n", ":", "-", "- ", "{", "}", "[", "]", "#", "&a", "*a", "!!int", "!x", "<<:", "? "),
    *("null", "~", "true", "0", "-1", "1.5", ".nan", ".inf", "1e999", "0x", "0b2", "2024-13-45", "9" * 5000),
    *(
        "'",
        '"',
        '"\\ud800"',
        '"\\0"',
        "|",
        ">",
        "%YAML 1.1",
        "%YAML 9.9",
        "%TAG",
        "---",
        "...",
        "\x00",
        "\ufeff",
    ),
    *("fields", "fields: []", "text: a", "geo: x", "limit: 0", "filters: 1", "soft_delete: {field: x}"),
    *("value_type: date", "element_type: json", "values: binary", "distinct: true", "default: {a: 1}"),
    *("through: {table: a}", "primary_key: [a, b]", "op: in", "value: []", "é", "😀"),
]


SECRETS = [
    *("password: hunter2", "my_url: http://me:hunter2@h/"),
    *("connection_url: 'hunter2'", "api_key = 'hunter2'"),
]


def test_the_file_that_is_damaged_is_a_good_one() -> None:
    parse_schema(GOOD, file="f")


def _survives(text: str) -> None:
    try:
        digest(parse_schema(text, file="f"), {})
    except SchemaError as error:
        _print(error)


def _print(error: SchemaError) -> None:
    out = StringIO()
    print_findings(Console(file=out, soft_wrap=True), error.problems)
    assert "error[" in out.getvalue()


@settings(max_examples=120, deadline=None)
@given(spliced(GOOD, PIECES))
def test_a_damaged_schema_file_gives_a_model_or_a_schema_error(text: str) -> None:
    _survives(text)


@settings(max_examples=50, deadline=None)
@given(revalued(GOOD, PIECES, ":"))
def test_a_schema_file_with_values_exchanged_gives_a_model_or_a_schema_error(text: str) -> None:
    _survives(text)


@settings(max_examples=50, deadline=None)
@given(rearranged(GOOD))
def test_a_schema_file_with_lines_moved_gives_a_model_or_a_schema_error(text: str) -> None:
    _survives(text)


@settings(max_examples=60, deadline=None)
@given(misspelt(GOOD))
def test_a_misspelt_schema_file_gives_a_model_or_a_schema_error(text: str) -> None:
    _survives(text)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_model_or_a_schema_error(text: str) -> None:
    _survives(text)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_a_schema_file_is_not_shown(secret: str) -> None:
    for line in ("table: customers", "  - text: name", "      left_key: customer_id"):
        indent = line[: len(line) - len(line.lstrip(" -"))].replace("-", " ")
        with pytest.raises(SchemaError) as caught:
            parse_schema(GOOD.replace(line, f"{line}\n{indent}{secret}", 1), file="f")
        assert "hunter2" not in repr([problem.excerpt for problem in caught.value.problems])
