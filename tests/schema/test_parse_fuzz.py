"""Whatever stands in a schema file, it gives a model or a `SchemaError`."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from flusso.errors import SchemaError
from flusso.schema.digest import digest
from flusso.schema.parse import parse_schema

SHOP = (Path(__file__).parents[2] / "src/flusso/demo/shop/customers.schema.yml").read_text()
GOOD = (
    SHOP.rstrip()
    + """
  - custom: price
    postgres: [numeric, money]
    opensearch: scaled_float
    default: 1.5
    options: {scaling_factor: 100}
  - geo: place
    lat: latitude
    lon: longitude
  - geo: spot
    column: point
  - map: titles
    values: text
  - constant: origin
    value: {a: [1, null, x], b: 2.5}
  - avg: mean
    table: orders
    foreign_key: customer_id
    column: total
  - max: last
    table: orders
    foreign_key: customer_id
    column: placed_at
    value_type: timestamp
  - ids: tag_ids
    table: tags
    distinct: true
    element_type: long
    through:
      table: customer_tags
      left_key: customer_id
      right_key: tag_id
      filters: [{column: removed, op: eq, value: false}]
"""
)
LINES = GOOD.splitlines()

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


def _survives(text: str) -> None:
    with contextlib.suppress(SchemaError):
        digest(parse_schema(text, file="f"), {})


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_damaged_schema_file_gives_a_model_or_a_schema_error(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(st.sampled_from(PIECES)) + text[end:]
    _survives(text)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_schema_file_with_values_exchanged_gives_a_model_or_a_schema_error(data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        key, colon, _ = lines[at].partition(":")
        lines[at] = key + colon + " " + data.draw(st.sampled_from(PIECES))
    _survives("\n".join(lines))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_schema_file_with_lines_moved_gives_a_model_or_a_schema_error(data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        line = lines.pop(data.draw(st.integers(0, len(lines) - 1)))
        lines.insert(data.draw(st.integers(0, len(lines))), line)
    _survives("\n".join(lines))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_model_or_a_schema_error(text: str) -> None:
    _survives(text)
