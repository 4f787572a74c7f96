"""Read the fields of one level of a document, and of the levels below.

A field is a mapping with exactly one type tag, whose value is its name. `parse` calls `read_fields` for
the root; joins and groups call it again for theirs. Fields without fields of their own are read by
`leaves` and `related`.
"""

from __future__ import annotations

from dataclasses import replace

from flusso.diagnostic import Code
from flusso.schema.analyzers import check_options
from flusso.schema.conditions import read_filters, read_order_by, read_soft_delete
from flusso.schema.leaves import LEAF_TAGS, read_leaf
from flusso.schema.model import AggregateKind, Columns, Field, Group, Join, JoinKind
from flusso.schema.node import Node, Problems, did_you_mean
from flusso.schema.related import Level, read_aggregate, read_table, read_through
from flusso.schema.rules import (
    AGGREGATE_TAGS,
    JOIN_TAGS,
    TAGS,
    carried,
    check_length,
    read_field_name,
    refused,
)
from flusso.schema.section import Section, without_nulls

_MAX_LIMIT = 2**31 - 1
_NULLABLE = ("value", "default")
"""Keys for which null is a value; any other that is null counts as absent."""


def read_fields(section: Section, level: Level) -> tuple[Field, ...]:
    """Read the `fields` of a section; there must be some, and no name twice."""
    section.need("fields")
    nodes = section.items("fields")
    item = section.get("fields")
    if item is not None and isinstance(item.value, list) and not nodes:
        section.wrong("there are no fields", "fields", code=Code.EMPTY_LIST)
    found: list[Field] = []
    lines: dict[str, int] = {}
    for node in nodes:
        read = _field(node, section.problems, level)
        if read is None:
            continue
        if read.name and read.name in lines:
            message = f'field "{read.name}" is already defined on line {lines[read.name]}'
            section.problems.at(node, message, Code.DUPLICATE_FIELD)
        lines.setdefault(read.name, node.place.line)
        found.append(read)
    return tuple(found)


def _field(node: Node, problems: Problems, level: Level) -> Field | None:
    tag = _tag(node, problems)
    if tag is None:
        return None
    optional = carried(tag) - {tag, *_NULLABLE}
    section = Section(without_nulls(node, optional), problems, carried(tag), refused(tag))
    name_node = section.get(tag)
    assert name_node is not None
    name = read_field_name(name_node, problems, is_root=level.is_root)
    check_options(section.get("options"), problems)
    if tag in LEAF_TAGS:
        return read_leaf(section, tag, name)
    if tag in JOIN_TAGS:
        return _join(section, JoinKind(tag), name, level)
    if tag in AGGREGATE_TAGS:
        return read_aggregate(section, AggregateKind(tag), name, level)
    fields = read_fields(section, replace(level, is_root=False))
    return Group(name, fields, section.mapping("options"))


def _tag(node: Node, problems: Problems) -> str | None:
    """Find the one type tag of a field, or say what is wrong with it."""
    if not isinstance(node.value, dict):
        problems.at(node, f"a field is a mapping like {{text: name}}, this is {node.kind}", Code.WRONG_TYPE)
        return None
    tags = [key for key in node.value if key in TAGS]
    if len(tags) > 1:
        message = f'a field has one type tag: "{tags[0]}" is already there'
        problems.at_key(node.value[tags[1]], message, Code.CONFLICTING_KEYS)
        return None
    if not tags:
        first = next(iter(node.value), None)
        if first is None:
            problems.at(node, "the field is empty", Code.MISSING_KEY)
        else:
            hint = did_you_mean(first, TAGS) or "a field begins with one, like {text: name}"
            problems.at_key(node.value[first], f'unknown type tag "{first}"', Code.UNKNOWN_TAG, hint=hint)
        return None
    return tags[0]


def _join(section: Section, kind: JoinKind, name: str, level: Level) -> Join:
    section.need("table")
    if kind in (JoinKind.HAS_ONE, JoinKind.HAS_MANY):
        section.need("foreign_key")
    if kind is JoinKind.MANY_TO_MANY:
        section.need("through")
    key = section.columns("primary_key")
    column: Columns = ()
    if kind is JoinKind.BELONGS_TO:
        column = section.columns("column") if "column" in section else section.columns(kind)
        check_length(section, "column", column, "primary_key", key)
    foreign_key = section.columns("foreign_key")
    check_length(section, "foreign_key", foreign_key, "the parent's key", level.key)
    fields = read_fields(section, Level(level.schema, key, is_root=False))
    return Join(
        name=name,
        kind=kind,
        table=read_table(section, level.schema),
        primary_key=key,
        fields=fields,
        column=column,
        foreign_key=foreign_key,
        through=read_through(section, level, key),
        filters=read_filters(section),
        order_by=read_order_by(section),
        limit=section.integer("limit", 1, low=1, high=_MAX_LIMIT) if "limit" in section else None,
        is_required=section.boolean("required", False),
        soft_delete=read_soft_delete(section, fields),
        options=section.mapping("options"),
    )
