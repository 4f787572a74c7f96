"""Which rows count: random filters and soft deletion, and what they mean, told by Python.

Python's answer has three values as SQL's does: true, false, and None for unknown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oracle.tables import Column, Table, quote
from oracle.values import Value, parse, print_text, random_value

Row = Mapping[str, Value]
Node = dict[str, Any]
_COMPARED = ("eq", "neq", "lt", "lte", "gt", "gte")
_OFTEN = ("neq", "lt", "gt", "gte", "not_in", "is_not_null")
"""What lets about half of the rows pass; others leave hardly any."""
_PATTERNS = ("%", "a%", "%x", "_", "%B%")
_RAW = re.compile(r'^coalesce\("((?:[^"]|"")*)", 0\) % 2 = 0 -- even$')


def random_filters(rng: random.Random, table: Table) -> list[Node]:
    """Make one or two conditions on the rows of a table."""
    return [_random_filter(rng, table) for _ in range(rng.choice((1, 1, 2)))]


def _random_filter(rng: random.Random, table: Table) -> Node:
    column = rng.choice(table.columns)
    if column.type == "int" and rng.random() < 0.3:
        return {"raw": f"coalesce({quote(column.name)}, 0) % 2 = 0 -- even"}
    op = rng.choice(_OFTEN) if rng.random() < 0.8 else rng.choice(tuple(_OPERATORS))
    if column.type == "text" and rng.random() < 0.3:
        return {"column": column.name, "op": rng.choice(("like", "ilike")), "value": rng.choice(_PATTERNS)}
    node: Node = {"column": column.name, "op": op}
    if op in ("in", "not_in"):
        node["value"] = [_operand(rng, column) for _ in range(rng.randint(1, 4))]
    elif op == "between":
        node["value"] = [_operand(rng, column), _operand(rng, column)]
    elif op in _COMPARED:
        node["value"] = _operand(rng, column)
    return node


def _operand(rng: random.Random, column: Column) -> str | int | bool:
    value = random_value(rng, column.type)
    return value if isinstance(value, bool | int) else print_text(value)


def random_soft_delete(rng: random.Random, table: Table, fields: Sequence[Node]) -> Node:
    """Make a mark of deletion: a column, or a field of this level that shows one."""
    shown = [field[tag] for field in fields for tag in ("boolean", "date", "timestamp") if tag in field]
    columns = [column.name for column in table.plain if column.type in ("bool", "date", "timestamptz")]
    node: Node = (
        {"field": rng.choice(shown)} if shown and rng.random() < 0.4 else {"column": rng.choice(columns)}
    )
    if rng.random() < 0.3:
        node["when"] = random_filters(rng, table)
    return node


def counts(node: Mapping[str, Any], row: Row, types: Mapping[str, str]) -> bool:
    """Say whether a row passes the filters and the soft deletion of a place in a schema."""
    if any(_holds(each, row, types) is not True for each in node.get("filters", ())):
        return False
    mark = node.get("soft_delete")
    return mark is None or not _is_deleted(mark, node.get("fields", ()), row, types)


def _is_deleted(mark: Mapping[str, Any], fields: Sequence[Node], row: Row, types: Mapping[str, str]) -> bool:
    value = row[mark["column"] if "column" in mark else _column_of(mark["field"], fields)]
    is_marked = value if isinstance(value, bool) else value is not None
    return is_marked and all(_holds(each, row, types) is True for each in mark.get("when", ()))


def _column_of(name: str, fields: Sequence[Node]) -> str:
    """Find the column that a field of this level shows, in its groups as well."""
    for field in fields:
        if "object" in field:
            found = _column_of(name, field["fields"])
            if found:
                return found
        elif name in field.values() and "fields" not in field and "table" not in field:
            return str(field["column"])
    return ""


def _holds(item: Mapping[str, Any], row: Row, types: Mapping[str, str]) -> bool | None:
    if "raw" in item:
        found = _RAW.match(item["raw"])
        assert found, item
        number = row[found[1].replace('""', '"')]
        return (int(str(number or 0))) % 2 == 0
    value, op = row[item["column"]], item["op"]
    if op in ("is_null", "is_not_null"):
        return (value is None) == (op == "is_null")
    if value is None:
        return None
    given = item["value"]
    if op in ("like", "ilike"):
        return _is_like(print_text(value), given, ignores_case=op == "ilike")
    operands = [
        parse(types[item["column"]], each) for each in (given if isinstance(given, list) else [given])
    ]
    return _OPERATORS[op](value, *operands)


_OPERATORS: Mapping[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "neq": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "in": lambda a, *many: a in many,
    "not_in": lambda a, *many: a not in many,
    "between": lambda a, low, high: low <= a <= high,
}


def _is_like(text: str, pattern: str, *, ignores_case: bool) -> bool:
    parts = {"%": ".*", "_": "."}
    expression = "".join(parts.get(char) or re.escape(char) for char in pattern)
    flags = re.DOTALL | (re.IGNORECASE | re.ASCII if ignores_case else re.NOFLAG)
    return re.fullmatch(expression, text, flags) is not None
