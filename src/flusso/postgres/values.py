"""How a column's value is written in SQL so that its JSON is what the schema promises.

Pure: takes a column, its type and the kind it is declared as, gives an expression. The builder puts it where
`row_to_json` meets it, so a plain column stays plain wherever Postgres's own JSON is right already. What
neither JSON nor an index can hold becomes null or a string, never a refused document; `docs/guides/types.md`
is the table of it.

Relies on the session that `connect` pins: ISO dates, UTC, hex bytea.
"""

from __future__ import annotations

from collections.abc import Sequence

from flusso.catalog import Column
from flusso.postgres.identifiers import literal
from flusso.schema.model import TEXT_KINDS, WHOLE_KINDS, ScalarKind

_INTEGERS = ("int2", "int4", "int8")
_NUMBERS = (*_INTEGERS, "numeric", "float4", "float8")

_STRINGS = frozenset({"text", "varchar", "name", "uuid", "inet"})
"""Types whose own JSON is the string wanted. For `inet` a cast would add the length of the mask."""
_SAME_AS_OUTPUT = frozenset(
    {"int2", "int4", "int8", "text", "varchar", "uuid", "numeric", "date", "timestamp", "timestamptz"}
)

_DOUBLE = "1.7976931348623157e308"
_FLOAT = "3.4028234663852886e38"
_LIMITS = {
    ScalarKind.SHORT: ("-32768", "32767"),
    ScalarKind.INTEGER: ("-2147483648", "2147483647"),
    ScalarKind.LONG: ("-9223372036854775808", "9223372036854775807"),
    ScalarKind.FLOAT: (f"-{_FLOAT}", _FLOAT),
}
"""The least and the greatest number that an index takes for a kind; a double's for those not named."""
_LONG_AS_FLOAT = "9223372036854774784"
"""The greatest double that is a long: the greatest long itself would be rounded up and out."""
_WIDTHS = {"int2": 2, "int4": 4, "int8": 8}
_KIND_WIDTHS = {ScalarKind.SHORT: 2, ScalarKind.INTEGER: 4}
_MAX_SCALE = 680
"""A search server reads no number of more than 1,000 characters; 309 of them may stand before the point."""


def render(
    column: Column,
    expression: str,
    kind: ScalarKind,
    *,
    functions: Sequence[str] = (),
    default: str | None = None,
) -> str:
    """Give the expression whose JSON is the documented one for a column of this type, declared so.

    `functions` are applied to a text in order; `default` is JSON text for a null.
    """
    rendered = _render_value(column, expression, kind, functions)
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


def count_bytes(text: str) -> str:
    """Give the number of bytes that a text has outside the database, whose own encoding may be another."""
    return f"octet_length(convert_to({text}, 'UTF8'))"


def operator(column: Column, symbol: str) -> str:
    """Name an operator of the column's type, which for an extension's lies outside the pinned search path."""
    return f"operator({column.operators}.{symbol})" if column.operators else symbol


def _render_value(column: Column, expression: str, kind: ScalarKind, functions: Sequence[str]) -> str:
    if not column.is_array:
        return _render_single(column, expression, kind, functions)
    element = _render_single(column, "u.e", kind, functions)
    # An index sees all dimensions as one, and only one can be taken apart and put together again. Elements
    # come in their order; `from unnest(…)` would make columns of a composite one.
    flat = f"array(select {element} from (select unnest({expression}) as e) as u)"
    if element == "u.e":
        return f"case when array_ndims({expression}) > 1 then {flat} else {expression} end"
    return f"case when {expression} is not null then {flat} end"


def _render_single(column: Column, x: str, kind: ScalarKind, functions: Sequence[str]) -> str:
    if kind in TEXT_KINDS:
        rendered = x if not functions and (column.base in _STRINGS or column.is_enum) else f"{x}::text"
        for function in functions:
            rendered = f"{function}({rendered})"
        return rendered
    if column.base == "money":
        return f"{x}::numeric"
    if column.base in _NUMBERS:
        return _render_number(column, x, kind)
    return _render_other(column.base, x)


def _render_number(column: Column, x: str, kind: ScalarKind) -> str:
    base = column.base
    if _WIDTHS.get(base, 9) <= _KIND_WIDTHS.get(kind, 8):
        return x
    if column.is_short and kind not in _LIMITS:
        return f"nullif({x}, 'NaN')"  # whatever its precision, a numeric may be that
    least, greatest = _LIMITS.get(kind, (f"-{_DOUBLE}", _DOUBLE))
    rendered = x
    if kind in WHOLE_KINDS:
        if base in ("float4", "float8") and kind is ScalarKind.LONG:
            greatest = _LONG_AS_FLOAT
        rendered = x if base in _INTEGERS else f"{x}::int8"
    elif base == "float4":
        least, greatest = f"-{_FLOAT}", _FLOAT  # a greater literal would not be a float4
    elif base == "numeric":
        rendered = f"case when scale({x}) > {_MAX_SCALE} then to_json({x}::text) else to_json({x}) end"
    # Infinity lies beyond the greatest, and NaN sorts above infinity.
    return f"case when {x} between '{least}' and '{greatest}' then {rendered} end"


def _render_other(base: str, x: str) -> str:
    match base:
        case "date" | "timestamp":
            return f"case when {x} >= '0001-01-01' and {x} < '10000-01-01' then {x} end"
        case "timestamptz":
            return (
                f"case when {x} >= '0001-01-01 00:00:00+00' and {x} < '10000-01-01 00:00:00+00' "
                f"then replace(({x} at time zone 'UTC')::text, ' ', 'T') || 'Z' end"
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
