from __future__ import annotations

import pytest

from flusso.catalog import Column
from flusso.postgres.values import operator, print_text, render


def _column(base: str, **facts: bool) -> Column:
    return Column("c", base, base, **facts)


@pytest.mark.parametrize("base", ["int2", "int4", "int8", "bool", "uuid", "jsonb", "time"])
def test_a_plain_value_has_no_wrapper(base: str) -> None:
    assert render(_column(base), "t.c") == "t.c"


@pytest.mark.parametrize("base", ["text", "varchar", "uuid", "inet"])
def test_a_string_that_json_has_right_already_has_no_wrapper(base: str) -> None:
    assert render(_column(base), "t.c", as_text=True) == "t.c"


def test_a_number_as_text_is_cast() -> None:
    assert render(_column("int4"), "t.c", as_text=True) == "t.c::text"


def test_a_type_of_an_extension_as_text_is_cast() -> None:
    assert render(Column("c", "ext.hstore", "hstore"), "t.c", as_text=True) == "t.c::text"


def test_an_array_of_plain_values_has_no_wrapper() -> None:
    assert render(_column("int4", is_array=True), "t.c") == "t.c"


def test_functions_wrap_in_the_order_given() -> None:
    rendered = render(_column("text"), "t.c", as_text=True, functions=["btrim", "lower"])
    assert rendered == "lower(btrim(t.c::text))"


def test_a_default_is_json() -> None:
    assert render(_column("int4"), "t.c", default="0") == "coalesce(to_json(t.c), '0'::json)"


def test_a_key_of_a_type_whose_cast_differs_from_its_output_is_printed_by_concat() -> None:
    assert print_text(_column("bool"), "t.c") == "concat(t.c)"
    assert print_text(_column("int8"), "t.c") == "t.c::text"


def test_an_operator_of_citext_names_the_schema_it_lies_in() -> None:
    assert operator(Column("c", "ext.citext", "citext"), "=") == "operator(ext.=)"
    assert operator(_column("text"), "=") == "="
