"""Values cut out of JSON text as they were written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flusso.errors import SinkUnavailable
from flusso.sinks.rawjson import elements, members, objects

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.sampled_from([None, 2]))
def test_members_are_found_where_they_are(value: dict[str, object], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert {key: json.loads(text[start:end]) for key, (start, end) in members(text).items()} == value


@given(st.lists(VALUES, max_size=4))
def test_elements_are_found_where_they_are(value: list[object]) -> None:
    text = json.dumps(value)
    assert [json.JSONDecoder().raw_decode(text, start)[0] for start in elements(text, 0)] == value


@given(st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=4), st.booleans())
def test_objects_of_an_array_are_found_where_they_are(
    value: list[dict[str, object]], is_indented: bool
) -> None:
    text = json.dumps({"took": {"docs": []}, "docs": value, "more": 1}, indent=2 if is_indented else None)
    found = [
        {key: json.loads(text[slice(*place)]) for key, place in places.items()}
        for places in objects(text, "docs")
    ]
    assert found == value


@pytest.mark.parametrize(
    "text", ["", "{}", '{"docs":{}}', '{"docs":[', '{"docs":[{"a":1}', '{"docs":[{"a":1']
)
def test_an_array_that_is_cut_short_is_a_sink_error(text: str) -> None:
    with pytest.raises(SinkUnavailable):
        list(objects(text, "docs"))


def test_digits_stay_as_they_were_written() -> None:
    text = '{"a":1,"_source": {"n" : 1.00} }'
    start, end = members(text)["_source"]
    assert text[start:end] == '{"n" : 1.00}'


def test_a_value_is_cut_out_however_deep_it_is_and_whatever_its_digits() -> None:
    deep = '{"a":' * 5000 + "9" * 5000 + "}" * 5000
    text = f'{{"x":[{deep},"]"],"y":1}}'
    places = members(text)
    assert text[slice(*places["y"])] == "1"
    assert [text[start] for start in elements(text, places["x"][0])] == ["{", '"']


@pytest.mark.parametrize("text", ["", "[]", '{"a":', '{"a":1', '{"a"', "{"])
def test_text_that_is_cut_short_is_a_sink_error(text: str) -> None:
    with pytest.raises(SinkUnavailable):
        members(text)
