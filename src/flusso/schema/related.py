"""Read what leads to another table: its name, a junction, and the aggregates over its rows.

Used by `fields`, which reads joins itself because they hold fields again.
"""

from __future__ import annotations

from dataclasses import dataclass

from flusso.catalog import TableName
from flusso.diagnostic import Code
from flusso.schema.conditions import read_filters, read_soft_delete
from flusso.schema.model import NUMBER_KINDS, Aggregate, AggregateKind, Columns, ScalarKind, Through
from flusso.schema.rules import AGGREGATE_NEEDS, check_length
from flusso.schema.section import Section, read_choice


@dataclass(frozen=True, slots=True)
class Level:
    """Where fields stand: the schema of the root's table, and the key of the row they belong to."""

    schema: str
    key: Columns
    is_root: bool = True


def read_table(section: Section, schema: str) -> TableName:
    """Read a table and its schema, which is the root's unless said otherwise."""
    return TableName(section.name("schema", schema), section.name("table"))


def read_through(section: Section, level: Level, key: Columns) -> Through | None:
    """Read the junction, if there is one; `key` is that of the related table."""
    if "through" not in section:
        return None
    inner = section.inner("through", ("table", "schema", "left_key", "right_key", "filters"))
    inner.need("table", "left_key", "right_key")
    left = inner.columns("left_key")
    right = inner.columns("right_key")
    check_length(inner, "left_key", left, "the parent's key", level.key)
    check_length(inner, "right_key", right, "primary_key", key)
    return Through(read_table(inner, level.schema), left, right, read_filters(inner))


def read_aggregate(section: Section, kind: AggregateKind, name: str, level: Level) -> Aggregate:
    """Read one of count, sum, avg, min, max, ids."""
    section.need("table", *AGGREGATE_NEEDS[kind])
    if ("foreign_key" in section) == ("through" in section):
        section.wrong(f'{kind} takes either "foreign_key" or "through"', code=Code.CONFLICTING_KEYS)
    is_distinct = section.boolean("distinct", False)
    if is_distinct and "through" not in section:
        message = "every row is counted once without a junction: distinct goes with through"
        section.wrong(message, "distinct", code=Code.MISPLACED_KEY)
    key = section.columns("primary_key")
    foreign_key = section.columns("foreign_key")
    check_length(section, "foreign_key", foreign_key, "the parent's key", level.key)
    return Aggregate(
        name=name,
        kind=kind,
        table=read_table(section, level.schema),
        primary_key=key,
        foreign_key=foreign_key,
        through=read_through(section, level, key),
        column=section.name("column") if "column" in section else None,
        value_type=_value_type(section, kind),
        filters=read_filters(section),
        soft_delete=read_soft_delete(section, ()),
        element_type=_kind(section, "element_type"),
        is_distinct=is_distinct,
        options=section.mapping("options"),
    )


def _value_type(section: Section, kind: AggregateKind) -> ScalarKind | None:
    found = _kind(section, "value_type")
    if found is None:
        return None
    if kind is AggregateKind.SUM and found not in NUMBER_KINDS:
        words = ", ".join(member for member in ScalarKind if member in NUMBER_KINDS)
        section.wrong(f"{kind} gives a number: value_type is one of {words}", "value_type")
    if found is ScalarKind.JSON:
        section.wrong(f"json has no order: {kind} gives none", "value_type")
    return found


def _kind(section: Section, key: str) -> ScalarKind | None:
    node = section.get(key)
    return None if node is None else read_choice(node, ScalarKind, section.problems)
