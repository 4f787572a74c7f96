"""Write a drafted schema as YAML, and the deployment that goes with it as TOML. Pure.

Used by `flusso init`. Names come from a database and may hold anything, so each is quoted unless it is
plainly harmless. No connection string is written, only where it comes from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from flusso.builder.draft import Draft, Entry, Note
from flusso.schema.model import Json

_HARMLESS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})

_DEPLOYMENT = """\
# Written by `flusso init`: where rows come from, where documents go. Yours to change.

[source]
type = "postgres"
# The connection string stays outside this file: export DATABASE_URL=postgresql://user:password@host/database
connection_url = {{ env = "DATABASE_URL" }}

# Documents go into an embedded SQLite file with full-text search: nothing to install.
[sinks.local]
type = "sqlite"
path = "{path}"

# For OpenSearch instead, take the sink above away and the marks below.
# SEARCH_OPENSEARCH_USERNAME and SEARCH_OPENSEARCH_PASSWORD in the environment are its user and password.
# [sinks.search]
# type = "opensearch"
# url = "https://localhost:9200"

[[index]]
name = {index}
schema = {schema}
"""

_HEAD = """\
# Written by `flusso init` from the tables, types and foreign keys of the database. Yours to change:
# rename fields (with `column`, the column's own name), take away what nobody searches, add filters.
# text is searched by word, keyword is matched whole; the guide to schemas has all tags.
"""


def deployment_text(index: str, schema_file: str) -> str:
    """Write flusso.toml for one index."""
    return _DEPLOYMENT.format(path="flusso.sqlite", index=_toml(index), schema=_toml(schema_file))


def schema_text(draft: Draft) -> str:
    """Write the schema file."""
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    table = draft.table.name
    about = "" if draft.rows is None else f", about {draft.rows:,} now"
    yield f"# One document for each row of {_comment(str(table))}{about}."
    yield _HEAD.rstrip("\n")
    yield "version: 1"
    yield f"table: {_scalar(table.name)}"
    if table.schema != "public":
        yield f"schema: {_scalar(table.schema)}"
    yield f"primary_key: {_columns(draft.table.primary_key)}"
    if draft.deleted_column is not None:
        yield "\n# This column looks like a mark of deleted rows. To leave those out, take the mark away:"
        yield f"# soft_delete: {{ column: {_scalar(draft.deleted_column)} }}"
    yield "\nfields:"
    yield from _fields(draft.fields, "  ")


def _fields(fields: Sequence[Entry | Note], indent: str) -> Iterator[str]:
    for item in fields:
        if isinstance(item, Note):
            yield f"{indent}# {_comment(item.text)}"
            continue
        yield f"{indent}- {item.tag}: {_scalar(item.name)}"
        for key, value in item.carries.items():
            yield f"{indent}  {key}: {_value(value)}"
        if item.fields:
            yield f"{indent}  fields:"
            yield from _fields(item.fields, indent + "    ")


def _value(value: Json) -> str:
    match value:
        case list():
            return "[" + ", ".join(_value(item) for item in value) + "]"
        case dict():
            return "{ " + ", ".join(f"{key}: {_value(item)}" for key, item in value.items()) + " }"
        case _:
            return _scalar(str(value))


def _columns(columns: Sequence[str]) -> str:
    return _scalar(columns[0]) if len(columns) == 1 else _value(list(columns))


def _scalar(text: str) -> str:
    """Write a text so that YAML reads it as just that."""
    if _HARMLESS.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return "".join(_escape(char) for char in json.dumps(text, ensure_ascii=False))


def _escape(char: str) -> str:
    """JSON leaves some characters as they are that YAML does not allow in a file."""
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _comment(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _toml(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)
