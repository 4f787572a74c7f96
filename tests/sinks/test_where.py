"""Values under a path."""

from __future__ import annotations

import pytest

from flusso.sinks.where import has_value

BODY = (
    '{"name": "a \\u00e9","n":10.50,"is":true,"none":null,'
    '"rows":[{"tags":["x","y"],"deep":{"k":1}},{"tags":[]},5],"o":{"p":{"q":"v"}}}'
)
DEEP = "[" * 5000 + "7" + "]" * 5000


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "a é"),
        ("n", "10.5"),
        ("n", "1.05e1"),
        ("is", "true"),
        ("none", "null"),
        ("rows.tags", "y"),
        ("rows.deep.k", "1"),
        ("rows", "5"),
        ("o.p.q", "v"),
    ],
)
def test_a_value_is_found(path: str, value: str) -> None:
    assert has_value(BODY, path, value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "a"),
        ("n", "10"),
        ("n", "ten"),
        ("is", "1"),
        ("rows.tags", "z"),
        ("rows.deep", "1"),
        ("o", "v"),
        ("o.q", "v"),
        ("absent", ""),
        ("", ""),
    ],
)
def test_another_value_is_not(path: str, value: str) -> None:
    assert not has_value(BODY, path, value)


def test_json_beside_may_be_nested_as_deep_as_it_likes() -> None:
    assert has_value('{"deep":' + DEEP + ',"n":7}', "n", "7")
