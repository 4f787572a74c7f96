"""Read a `*.schema.yml` into the model.

The way in for whoever has the text of such a file. All problems of the file are reported in one
`SchemaError`, each with its line; the pieces are in `yaml_nodes` (YAML with places), `section` (typed
questions), `fields` and `conditions` (the grammar) and `rules` (what cannot be right).
"""

from __future__ import annotations

from flusso.errors import SchemaError
from flusso.schema.conditions import read_filters, read_soft_delete
from flusso.schema.fields import read_fields
from flusso.schema.model import IndexSchema, Json
from flusso.schema.node import Node, Problems
from flusso.schema.related import Level, read_table
from flusso.schema.section import Section, to_node, without_nulls
from flusso.schema.yaml_nodes import read_yaml

VERSION = 1
DEFAULT_SCHEMA = "public"
KEYS = ("version", "table", "schema", "primary_key", "fields", "filters", "soft_delete")
_OPTIONAL = ("schema", "primary_key", "filters", "soft_delete")
_REFUSED = {"doc_id": "doc_id is not supported: the id of a document is the primary key of its row"}


def parse_schema(text: str, *, file: str) -> IndexSchema:
    """Read a schema file; `file` is its name for messages."""
    problems = Problems(file)
    return _checked(read_yaml(text, problems), problems)


def parse_tree(tree: Json, *, file: str) -> IndexSchema:
    """Read what stands in a schema file from its plain values, as a lock keeps them."""
    return _checked(to_node(tree), Problems(file))


def _checked(node: Node | None, problems: Problems) -> IndexSchema:
    schema = None if node is None else _root(node, problems)
    if schema is None or problems.found:
        raise SchemaError.of(problems.in_order())
    return schema


def _root(node: Node, problems: Problems) -> IndexSchema:
    section = Section(without_nulls(node, _OPTIONAL), problems, KEYS, _REFUSED)
    section.need("version", "table")
    _check_version(section)
    table = read_table(section, DEFAULT_SCHEMA)
    key = section.columns("primary_key")
    fields = read_fields(section, Level(table.schema, key))
    return IndexSchema(
        table=table,
        fields=fields,
        primary_key=key,
        filters=read_filters(section),
        soft_delete=read_soft_delete(section, fields),
    )


def _check_version(section: Section) -> None:
    node = section.get("version")
    if node is not None and (isinstance(node.value, bool) or node.value != VERSION):
        section.wrong(f"only version {VERSION} is known", "version")
