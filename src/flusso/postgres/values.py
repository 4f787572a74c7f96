"""How a column's value is written in SQL so that its JSON is what the schema promises.

Pure: names a column and its type, gives an expression. The builder puts it where `row_to_json` meets
it, so a plain column stays plain wherever Postgres's own JSON is right already: integers, booleans,
strings, uuids. What JSON or an index cannot hold (NaN, infinity, years outside 1 to 9999) becomes null.

Relies on the session that `connect` pins: ISO dates, UTC, hex bytea.
"""

from __future__ import annotations

from collections.abc import Sequence

from flusso.catalog import Column
from flusso.postgres.identifiers import literal

_NO_STRINGS = frozenset({"bool", "int2", "int4", "int8", "numeric", "bpchar"})
"""Types whose own JSON is not the string wanted: numbers, and text padded with blanks."""
_FINITE = frozenset({"float4", "float8", "numeric"})
_SAME_AS_OUTPUT = frozenset(
    {"int2", "int4", "int8", "text", "varchar", "uuid", "numeric", "date", "timestamp", "timestamptz"}
)


def render(
    column: Column,
    expression: str,
    *,
    as_text: bool = False,
    functions: Sequence[str] = (),
    default: str | None = None,
) -> str:
    """Give the expression whose JSON is the documented one.

    `as_text` makes a string of any type; `functions` are applied to that string in order; `default`
    is JSON text for a null.
    """
    rendered = _render_value(column, expression, as_text, functions)
    if default is None:
        return rendered
    return f"coalesce(to_json({rendered}), {literal(default).strip()}::json)"


def print_text(column: Column, expression: str) -> str:
    """Give the text that the WAL has for the value.

    The WAL carries what the type's output function prints. A cast to text differs from it for some
    types (`true` for `t`, `10.0.0.1/32` for `10.0.0.1`, `char(n)` without its blanks), `concat` does not.
    """
    if not column.is_array and column.base in _SAME_AS_OUTPUT:
        return f"{expression}::text"
    return f"concat({expression})"


def operator(column: Column, symbol: str) -> str:
    """Name an operator of the column's type, which for citext lies outside the pinned search path."""
    schema, dot, _ = column.type.rpartition(".")
    if column.base == "citext" and dot:
        return f"operator({schema}.{symbol})"
    return symbol


def _render_value(column: Column, expression: str, as_text: bool, functions: Sequence[str]) -> str:
    if not column.is_array:
        return _render_single(column, expression, as_text, functions)
    element = _render_single(column, "u.e", as_text, functions)
    if element == "u.e":
        return expression
    return (
        f"case when {expression} is not null then array("
        f"select {element} from unnest({expression}) with ordinality as u(e, n) order by u.n) end"
    )


def _render_single(column: Column, expression: str, as_text: bool, functions: Sequence[str]) -> str:
    if not as_text:
        return _render_plain(column.base, expression)
    rendered = expression
    # A type from outside pg_catalog may bring a cast to json of its own, which row_to_json would use.
    is_foreign = "." in column.type and not column.is_enum
    if functions or is_foreign or column.base in _NO_STRINGS:
        rendered = f"{expression}::text"
    for function in functions:
        rendered = f"{function}({rendered})"
    return rendered


def _render_plain(base: str, x: str) -> str:
    # NaN sorts above infinity, so the two comparisons leave out all three.
    if base in _FINITE:
        return f"case when {x} > '-Infinity' and {x} < 'Infinity' then {x} end"
    match base:
        case "money":
            return f"{x}::numeric"
        case "date" | "timestamp":
            return f"case when {x} >= '0001-01-01' and {x} < '10000-01-01' then {x} end"
        case "timestamptz":
            return (
                f"case when {x} >= '0001-01-01 00:00:00+00' and {x} < '10000-01-01 00:00:00+00' "
                f"then replace(left({x}::text, -3), ' ', 'T') || 'Z' end"
            )
        case "timetz":
            return f"({x} at time zone 'UTC')::time"
        case "bytea":
            return f"replace(encode({x}, 'base64'), chr(10), '')"
        case "json":
            # A line break between tokens is legal JSON, but would end a line of a bulk request.
            return (
                f"case when strpos({x}::text, chr(10)) > 0 "
                f"then translate({x}::text, chr(10) || chr(13), '  ')::json else {x} end"
            )
        case _:
            return x
