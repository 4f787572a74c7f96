"""Read which rows count and in what order: filters, soft_delete, order_by.

Used by `fields` at every level. Operands stay values: they are bound by the builder, never pasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flusso.diagnostic import Code
from flusso.schema.model import (
    ColumnFilter,
    Custom,
    Direction,
    Field,
    Filter,
    FilterOp,
    Group,
    OrderBy,
    RawFilter,
    Scalar,
    SoftDelete,
)
from flusso.schema.node import Node, Problems, did_you_mean
from flusso.schema.section import Section, read_choice

_NULL_CHECKS = (FilterOp.IS_NULL, FilterOp.IS_NOT_NULL)
_LISTS = (FilterOp.IN, FilterOp.NOT_IN)
_PATTERNS = (FilterOp.LIKE, FilterOp.ILIKE)

Operand = str | int | float | bool


def read_filters(section: Section, key: str = "filters") -> tuple[Filter, ...]:
    """Read a list of conditions, all of which must hold."""
    found = (_filter(node, section.problems) for node in section.items(key))
    return tuple(one for one in found if one is not None)


def _filter(node: Node, problems: Problems) -> Filter | None:
    section = Section(node, problems, ("raw", "column", "op", "value"))
    if "raw" in section:
        if len(list(section)) > 1:
            section.wrong('"raw" stands alone: it takes no column, op or value', code=Code.CONFLICTING_KEYS)
        return RawFilter(section.text("raw"))
    section.need("column", "op")
    column = section.name("column")
    op_node = section.get("op")
    op = read_choice(op_node, FilterOp, problems) if op_node is not None else None
    return None if op is None else ColumnFilter(column, op, _operands(section, op))


def _operands(section: Section, op: FilterOp) -> tuple[Operand, ...]:
    node = section.get("value")
    if op in _NULL_CHECKS:
        if node is not None:
            section.wrong(f"{op} takes no value", "value", code=Code.MISPLACED_KEY)
        return ()
    if node is None:
        section.wrong(f'{op} needs a "value"', code=Code.MISSING_KEY)
        return ()
    if op not in _LISTS and op is not FilterOp.BETWEEN:
        return _scalars([node], op, section.problems)
    if not isinstance(node.value, list):
        section.wrong(f"{op} takes a list, this is {node.kind}", "value", code=Code.WRONG_TYPE)
        return ()
    if op is FilterOp.BETWEEN and len(node.value) != 2:
        section.wrong("between takes a list of two: the lowest and the highest", "value")
    if op in _LISTS and not node.value:
        section.wrong(f"{op} takes a list that is not empty", "value", code=Code.EMPTY_LIST)
    return _scalars(node.value, op, section.problems)


def _scalars(nodes: Sequence[Node], op: FilterOp, problems: Problems) -> tuple[Operand, ...]:
    found: list[Operand] = []
    for node in nodes:
        value = node.value
        if value is None:
            problems.at(node, f"{op} never holds for null: use is_null or is_not_null")
        elif isinstance(value, list | dict):
            problems.at(node, f"{op} compares with one value, this is {node.kind}", Code.WRONG_TYPE)
        elif op in _PATTERNS and not isinstance(value, str):
            problems.at(node, f"{op} takes a pattern, this is {node.kind}", Code.WRONG_TYPE)
        else:
            found.append(value)
    return tuple(found)


def read_order_by(section: Section) -> tuple[OrderBy, ...]:
    """Read the order of an array."""
    found: list[OrderBy] = []
    for node in section.items("order_by"):
        item = Section(node, section.problems, ("column", "direction"))
        item.need("column")
        found.append(OrderBy(item.name("column"), item.choice("direction", Direction, Direction.ASC)))
    return tuple(found)


def read_soft_delete(section: Section, fields: Sequence[Field]) -> SoftDelete | None:
    """Read what marks a row as deleted; a `field` stands for the column of that scalar."""
    if "soft_delete" not in section:
        return None
    inner = section.inner("soft_delete", ("column", "field", "when"))
    if ("column" in inner) == ("field" in inner):
        inner.wrong('soft_delete takes either "column" or "field"', code=Code.CONFLICTING_KEYS)
    column = inner.name("column") or _column_of(inner, fields)
    return SoftDelete(column, read_filters(inner, "when"))


def _column_of(section: Section, fields: Sequence[Field]) -> str:
    name = section.text("field")
    columns = dict(_columns(fields))
    if name and name not in columns:
        section.wrong(
            f'there is no scalar field "{name}" at this level',
            "field",
            code=Code.UNKNOWN_FIELD,
            hint=did_you_mean(name, columns),
        )
    return columns.get(name, "")


def _columns(fields: Sequence[Field]) -> Iterator[tuple[str, str]]:
    """Pair fields with their columns: those of groups too, which are of the same row."""
    for item in fields:
        if isinstance(item, Scalar | Custom):
            yield item.name, item.column
    for item in fields:
        if isinstance(item, Group):
            yield from _columns(item.fields)
