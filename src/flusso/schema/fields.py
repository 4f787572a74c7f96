"""Read the fields of one level of a document, and of the levels below.

A field is a mapping with exactly one type tag, whose value is its name. `parse` calls `read_fields` for
the root; joins and groups call it again for theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

from flusso.catalog import TableName
from flusso.diagnostic import Code
from flusso.schema.conditions import read_filters, read_order_by, read_soft_delete
from flusso.schema.model import (
    Aggregate,
    AggregateKind,
    Columns,
    Field,
    Group,
    Join,
    JoinKind,
    Scalar,
    ScalarKind,
    Through,
    Transform,
)
from flusso.schema.node import Node, Problems, did_you_mean
from flusso.schema.rules import (
    AGGREGATE_TAGS,
    JOIN_TAGS,
    LATER_TAGS,
    NUMBER_KINDS,
    SCALAR_TAGS,
    TAGS,
    carried,
    check_default,
    check_length,
    read_field_name,
    refused,
)
from flusso.schema.section import Section, read_choice, read_each, to_json

DEFAULT_SCHEMA = "public"
_MAX_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Level:
    """Where fields stand: the schema of the root's table, and the key of the row they belong to."""

    schema: str
    key: Columns
    is_root: bool = True


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
    section = Section(node, problems, carried(tag), refused(tag))
    name_node = section.get(tag)
    assert name_node is not None
    name = read_field_name(name_node, problems, is_root=level.is_root)
    if tag in SCALAR_TAGS:
        return _scalar(section, ScalarKind(tag), name)
    if tag in JOIN_TAGS:
        return _join(section, JoinKind(tag), name, level)
    if tag in AGGREGATE_TAGS:
        return _aggregate(section, AggregateKind(tag), name, level)
    return Group(name, read_fields(section, Level(level.schema, level.key, is_root=False)))


def _tag(node: Node, problems: Problems) -> str | None:
    """Find the one type tag of a field, or say what is wrong with it."""
    if not isinstance(node.value, dict):
        problems.at(node, f"a field is a mapping like {{text: name}}, this is {node.kind}", Code.WRONG_TYPE)
        return None
    tags = [key for key in node.value if key in TAGS or key in LATER_TAGS]
    if len(tags) > 1:
        message = f'a field has one type tag: "{tags[0]}" is already there'
        problems.at_key(node.value[tags[1]], message, Code.CONFLICTING_KEYS)
        return None
    if not tags:
        first = next(iter(node.value), None)
        if first is None:
            problems.at(node, "the field is empty", Code.MISSING_KEY)
        else:
            hint = did_you_mean(first, (*TAGS, *LATER_TAGS)) or "a field begins with one, like {text: name}"
            problems.at_key(node.value[first], f'unknown type tag "{first}"', Code.UNKNOWN_TAG, hint=hint)
        return None
    if tags[0] in LATER_TAGS:
        problems.at_key(node.value[tags[0]], f'type tag "{tags[0]}" is not supported yet', Code.UNSUPPORTED)
        return None
    return tags[0]


def _scalar(section: Section, kind: ScalarKind, name: str) -> Scalar:
    default = section.get("default")
    if default is not None:
        check_default(default, kind, section.problems)
    column = section.name("column") if "column" in section else section.name(kind)
    return Scalar(
        name=name,
        kind=kind,
        column=column,
        is_required=section.boolean("required", False),
        default=None if default is None else to_json(default),
        transforms=read_each(
            section.items("transforms"), lambda node: read_choice(node, Transform, section.problems)
        ),
        variants=_variants(section),
        options=section.mapping("options"),
    )


def _variants(section: Section) -> tuple[str, ...]:
    variants = section.words("variants")
    if "variants" in section and not section.items("variants"):
        section.wrong("variants is a list of at least one value", "variants", code=Code.EMPTY_LIST)
    if len(set(variants)) < len(variants):
        section.wrong("variants names a value twice", "variants", code=Code.DUPLICATE_ITEM)
    return variants


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
        through=_through(section, level, key),
        filters=read_filters(section),
        order_by=read_order_by(section),
        limit=section.integer("limit", 1, low=1, high=_MAX_LIMIT) if "limit" in section else None,
        is_required=section.boolean("required", False),
        soft_delete=read_soft_delete(section, fields),
    )


def _aggregate(section: Section, kind: AggregateKind, name: str, level: Level) -> Aggregate:
    section.need("table")
    if ("foreign_key" in section) == ("through" in section):
        section.wrong(f'{kind} takes either "foreign_key" or "through"', code=Code.CONFLICTING_KEYS)
    if kind is AggregateKind.SUM:
        section.need("column", "value_type")
    key = section.columns("primary_key")
    foreign_key = section.columns("foreign_key")
    check_length(section, "foreign_key", foreign_key, "the parent's key", level.key)
    return Aggregate(
        name=name,
        kind=kind,
        table=read_table(section, level.schema),
        primary_key=key,
        foreign_key=foreign_key,
        through=_through(section, level, key),
        column=section.name("column") if "column" in section else None,
        value_type=_value_type(section, kind),
        filters=read_filters(section),
        soft_delete=read_soft_delete(section, ()),
    )


def _value_type(section: Section, kind: AggregateKind) -> ScalarKind | None:
    node = section.get("value_type")
    if node is None:
        return None
    found = read_choice(node, ScalarKind, section.problems)
    if found is not None and found not in NUMBER_KINDS:
        words = ", ".join(member for member in ScalarKind if member in NUMBER_KINDS)
        section.wrong(f"{kind} gives a number: value_type is one of {words}", "value_type")
    return found


def _through(section: Section, level: Level, key: Columns) -> Through | None:
    if "through" not in section:
        return None
    later = {"filters": "filters on a junction are not supported yet"}
    inner = section.inner("through", ("table", "schema", "left_key", "right_key"), later)
    inner.need("table", "left_key", "right_key")
    left = inner.columns("left_key")
    right = inner.columns("right_key")
    check_length(inner, "left_key", left, "the parent's key", level.key)
    check_length(inner, "right_key", right, "primary_key", key)
    return Through(read_table(inner, level.schema), left, right)


def read_table(section: Section, schema: str) -> TableName:
    """Read a table and its schema, which is the root's unless said otherwise."""
    return TableName(section.name("schema", schema), section.name("table"))
