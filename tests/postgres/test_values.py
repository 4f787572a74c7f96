from __future__ import annotations

import pytest

from flusso.catalog import Column
from flusso.postgres.values import operator, print_text, render
from flusso.schema.model import ScalarKind

KEYWORD, LONG, DOUBLE = ScalarKind.KEYWORD, ScalarKind.LONG, ScalarKind.DOUBLE


def _column(base: str, **facts: bool) -> Column:
    return Column("c", base, base, **facts)


@pytest.mark.parametrize(
    ("kind", "base"),
    [("short", "int2"), ("long", "int2"), ("integer", "int4"), ("decimal", "int8"), ("boolean", "bool"),
     ("uuid", "uuid"), ("json", "jsonb"), ("timestamp", "time")],
)  # fmt: skip
def test_a_plain_value_has_no_wrapper(kind: str, base: str) -> None:
    assert render(_column(base), "t.c", ScalarKind(kind)) == "t.c"


@pytest.mark.parametrize("base", ["text", "varchar", "uuid", "inet"])
def test_a_string_that_json_has_right_already_has_no_wrapper(base: str) -> None:
    assert render(_column(base), "t.c", KEYWORD) == "t.c"


@pytest.mark.parametrize("base", ["int4", "bool", "float8", "jsonb", "bytea", "timestamptz", "bpchar"])
def test_any_other_type_as_text_is_cast(base: str) -> None:
    assert render(_column(base), "t.c", KEYWORD) == "t.c::text"


def test_a_type_of_an_extension_as_text_is_cast() -> None:
    assert render(Column("c", "ext.hstore", "hstore"), "t.c", KEYWORD) == "t.c::text"


def test_a_number_is_kept_within_what_its_kind_holds() -> None:
    assert render(_column("int8"), "t.c", ScalarKind.SHORT) == (
        "case when t.c between '-32768' and '32767' then t.c end"
    )


def test_a_short_numeric_is_only_kept_from_being_no_number() -> None:
    column = Column("c", "numeric", "numeric", is_short=True)
    assert render(column, "x", ScalarKind.DECIMAL) == "nullif(x, 'NaN')"
    assert "between" in render(column, "x", ScalarKind.FLOAT)


def test_a_float_declared_as_long_is_printed_as_an_integer_within_the_doubles_that_are_longs() -> None:
    assert render(_column("float8"), "t.c", LONG) == (
        "case when t.c between '-9223372036854775808' and '9223372036854774784' then t.c::int8 end"
    )


def test_a_float4_is_never_compared_with_what_is_not_one() -> None:
    assert "e308" not in render(_column("float4"), "t.c", DOUBLE)


def test_an_array_of_plain_values_is_rebuilt_only_when_it_has_more_dimensions() -> None:
    assert render(_column("int4", is_array=True), "t.c", LONG) == (
        "case when array_ndims(t.c) > 1 then "
        "array(select u.e from (select unnest(t.c) as e) as u) else t.c end"
    )


def test_functions_wrap_in_the_order_given() -> None:
    rendered = render(_column("text"), "t.c", ScalarKind.TEXT, functions=["btrim", "lower"])
    assert rendered == "lower(btrim(t.c::text))"


def test_a_default_is_json() -> None:
    assert render(_column("int4"), "t.c", LONG, default="0") == "coalesce(to_json(t.c), '0'::json)"


def test_a_key_of_a_type_whose_cast_differs_from_its_output_is_printed_by_concat() -> None:
    assert print_text(_column("bool"), "t.c") == "concat(t.c)"
    assert print_text(_column("int8"), "t.c") == "t.c::text"


def test_an_operator_of_an_extension_names_the_schema_it_lies_in() -> None:
    assert operator(Column("c", "ext.citext", "citext", operators="ext"), "=") == "operator(ext.=)"
    assert operator(_column("text"), "=") == "="
