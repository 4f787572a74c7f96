from __future__ import annotations

import pytest

from flusso.postgres.array_text import flatten, parse_array


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{}", []),
        ("{1,2,NULL}", ["1", "2", None]),
        ('{"NULL",""}', ["NULL", ""]),
        (r'{"a\"b","c\\d","e,f","{g}"," h "}', ['a"b', "c\\d", "e,f", "{g}", " h "]),
        ("{{1,2},{3,NULL}}", [["1", "2"], ["3", None]]),
        ("[0:1]={1,2}", ["1", "2"]),
        ("[0:0][2:3]={{1,2}}", [["1", "2"]]),
        ('{"line\nbreak"}', ["line\nbreak"]),
    ],
)
def test_an_array_is_read_as_postgres_prints_it(text: str, elements: list[object]) -> None:
    assert parse_array(text) == elements


@pytest.mark.parametrize("text", ["", "1", "{", "}", "{1", "{1}}", "{1}{2}", '{"a', "[0:1]", "{1},", "{\\"])
def test_what_is_no_array_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_array(text)


def test_dimensions_are_flattened_in_storage_order() -> None:
    assert flatten(parse_array("{{1,2},{3,4}}")) == ["1", "2", "3", "4"]
