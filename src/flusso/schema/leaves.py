"""Read the fields that need no other table: scalars, enums, custom types, points, maps, constants.

Used by `fields`, which finds the tag and the name. What a default may be is in `defaults`.
"""

from __future__ import annotations

import re

from flusso.diagnostic import Code
from flusso.schema.defaults import check_numbers, read_default
from flusso.schema.model import Constant, Custom, Geo, Leaf, Map, Scalar, ScalarKind, Transform
from flusso.schema.section import Section, read_choice, read_each, read_text, to_json

SCALAR_TAGS: frozenset[str] = frozenset(ScalarKind)
LEAF_TAGS: frozenset[str] = SCALAR_TAGS | {"custom", "geo", "map", "constant"}

MAP_KINDS = frozenset(ScalarKind) - {ScalarKind.BINARY, ScalarKind.JSON}
"""What the values of a map can be: what an index can tell apart key by key."""

_MAPPING_TYPE = re.compile(r"[a-z][a-z0-9_]*")


def read_leaf(section: Section, tag: str, name: str) -> Leaf:
    """Read a field of one of `LEAF_TAGS`."""
    match tag:
        case "custom":
            return _custom(section, name)
        case "geo":
            return _geo(section, name)
        case "map":
            return _map(section, name)
        case "constant":
            return _constant(section, name)
        case _:
            return _scalar(section, ScalarKind(tag), name)


def _scalar(section: Section, kind: ScalarKind, name: str) -> Scalar:
    return Scalar(
        name=name,
        kind=kind,
        column=_column(section, kind),
        is_required=section.boolean("required", False),
        default=read_default(section, kind),
        transforms=read_each(
            section.items("transforms"), lambda node: read_choice(node, Transform, section.problems)
        ),
        variants=_variants(section),
        options=section.mapping("options"),
    )


def _column(section: Section, tag: str) -> str:
    return section.name("column") if "column" in section else section.name(tag)


def _variants(section: Section) -> tuple[str, ...]:
    variants = section.words("variants")
    if len(set(variants)) < len(variants):
        section.wrong("variants names a value twice", "variants", code=Code.DUPLICATE_ITEM)
    return variants


def _custom(section: Section, name: str) -> Custom:
    section.need("postgres", "opensearch")
    kind = section.text("opensearch")
    if kind and not _MAPPING_TYPE.fullmatch(kind):
        section.wrong("must be the name of a mapping type, like scaled_float", "opensearch")
    node = section.get("default")
    if node is not None:
        check_numbers(node, section.problems)
    return Custom(
        name=name,
        column=_column(section, "custom"),
        postgres=_accepted(section),
        opensearch=kind,
        is_required=section.boolean("required", False),
        default=None if node is None else to_json(node),
        options=section.mapping("options"),
    )


def _accepted(section: Section) -> tuple[str, ...]:
    node = section.get("postgres")
    if node is not None and not isinstance(node.value, list):
        text = read_text(node, section.problems)
        return (text,) if text else ()
    if node is not None and not node.value:
        section.wrong("names no type of Postgres", "postgres", code=Code.EMPTY_LIST)
    return section.words("postgres")


def _geo(section: Section, name: str) -> Geo:
    is_pair = "lat" in section or "lon" in section
    if is_pair and "column" in section:
        section.wrong('geo takes either "lat" and "lon" or "column"', "column", code=Code.CONFLICTING_KEYS)
    if is_pair:
        section.need("lat", "lon")
    return Geo(
        name=name,
        column="" if is_pair else _column(section, "geo"),
        lat=section.name("lat"),
        lon=section.name("lon"),
        is_required=section.boolean("required", False),
        options=section.mapping("options"),
    )


def _map(section: Section, name: str) -> Map:
    section.need("values")
    values = section.choice("values", ScalarKind, ScalarKind.KEYWORD)
    if values not in MAP_KINDS:
        words = ", ".join(kind for kind in ScalarKind if kind in MAP_KINDS)
        section.wrong(f"the values of a map are one of {words}", "values", code=Code.UNKNOWN_WORD)
    return Map(
        name=name,
        column=_column(section, "map"),
        values=values,
        is_required=section.boolean("required", False),
        options=section.mapping("options"),
    )


def _constant(section: Section, name: str) -> Constant:
    node = section.get("value")
    if node is not None:
        check_numbers(node, section.problems)
    return Constant(name, None if node is None else to_json(node), section.mapping("options"))
