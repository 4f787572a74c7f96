"""Documents that a search server refuses for the JSON in them."""

from __future__ import annotations

import json

import pytest

from flusso.sinks.search.mend import mend, opaque_fields

MAPPING = {
    "properties": {
        "name": {"type": "text"},
        "j": {"type": "object", "enabled": False},
        "one": {"properties": {"j": {"type": "object", "enabled": False}, "n": {"type": "long"}}},
        "many": {"type": "nested", "properties": {"j": {"type": "object", "enabled": False}}},
    }
}
FIELDS = opaque_fields(MAPPING)


def test_the_fields_that_are_not_indexed_are_found_at_any_depth() -> None:
    assert FIELDS == {"j": None, "one": {"j": None}, "many": {"j": None}}


@pytest.mark.parametrize(
    "value",
    [
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        '[{"b": {"a":1, "a" : [2]}}]',
        "9" * 1001,
        '{"a":[-0.' + "9" * 1000 + "]}",
        "[" * 21 + "]" * 21,
        '{"a":' * 1000 + "1" + "}" * 1000,
        '{"' + "k" * 50_001 + '":1}',
    ],
    ids=lambda value: value[:12],
)
def test_a_value_that_no_server_takes_becomes_a_string_with_its_text(value: str) -> None:
    mended = mend(f'{{"name":"x","j":{value},"one":null}}'.encode(), FIELDS)
    assert mended is not None
    assert json.loads(mended) == {"name": "x", "j": value, "one": None}


@pytest.mark.parametrize(
    "value",
    [
        '{"a":{"a":1},"b":{"a":2}}',
        '"' + "9" * 2000 + '"',
        "9" * 1000,
        "1e999999",
        "[" * 20 + "]" * 20,
        '{"a":' + "[" * 30 + "]" * 30 + "}",
        '{"a":' * 999 + "1" + "}" * 999,
        '{"":1,"a.b":2,"\\ud800":3}',
        "null",
    ],
    ids=lambda value: value[:12],
)
def test_a_value_that_servers_take_stays(value: str) -> None:
    assert mend(f'{{"name":"x","j":{value}}}'.encode(), FIELDS) is None


def test_the_array_of_a_relation_counts_among_arrays_around_arrays() -> None:
    body = b'{"many":[{"j":%s}]}'
    assert mend(body % (b"[" * 19 + b"]" * 19), FIELDS) is None
    assert mend(body % (b"[" * 20 + b"]" * 20), FIELDS) is not None


def test_every_row_of_a_relation_is_looked_at_and_nothing_else_changes() -> None:
    body = b'{"n":1.00,"many":[{"j":[1]},{"j":{"a":1,"a":2}},{"j":null}],"one":{"j":{"b":1,"b":1},"n": 2}}'
    assert mend(body, FIELDS) == (
        b'{"n":1.00,"many":[{"j":[1]},{"j":"{\\"a\\":1,\\"a\\":2}"},{"j":null}],'
        b'"one":{"j":"{\\"b\\":1,\\"b\\":1}","n": 2}}'
    )
