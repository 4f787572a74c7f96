"""A schema as text that a sink can keep beside the documents made by it, and back.

While a new generation of an index is filled, the one that readers see is still written, and its schema may be
in no file any more. The text has the schema's own digest in it: what does not give the same digest when read,
as the text of a newer release may not, is refused rather than guessed at.
"""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from typing import Any

from flusso.catalog import TableName
from flusso.schema import model
from flusso.schema.digest import digest, plain
from flusso.schema.model import IndexSchema

_CLASSES: dict[str, Any] = {
    "TableName": TableName,
    **{name: found for name, found in vars(model).items() if dataclasses.is_dataclass(found)},
}
_ENUMS: dict[tuple[str, str], type[StrEnum]] = {
    ("Scalar", "kind"): model.ScalarKind,
    ("Scalar", "transforms"): model.Transform,
    ("Map", "values"): model.ScalarKind,
    ("Join", "kind"): model.JoinKind,
    ("Aggregate", "kind"): model.AggregateKind,
    ("Aggregate", "value_type"): model.ScalarKind,
    ("Aggregate", "element_type"): model.ScalarKind,
    ("ColumnFilter", "op"): model.FilterOp,
    ("OrderBy", "direction"): model.Direction,
}
_VERBATIM = frozenset({"default", "value", "options"})
"""Attributes that hold JSON of the user's, which may look like anything."""


def schema_name(schema: IndexSchema) -> str:
    """Name what a schema says, whatever sink it is for."""
    return digest(schema, {})


def schema_to_text(schema: IndexSchema) -> str:
    """Write a schema as text."""
    return json.dumps({"digest": schema_name(schema), "schema": plain(schema)}, sort_keys=True)


def stored_name(text: str) -> str:
    """Name what a stored schema says, as `schema_name` does; empty when there is none."""
    try:
        return str(json.loads(text)["digest"])
    except (ValueError, TypeError, KeyError):
        return ""


def schema_from_text(text: str) -> IndexSchema | None:
    """Read what `schema_to_text` wrote; None when this release does not understand it."""
    try:
        found = json.loads(text)
        schema = _read(found["schema"])
        is_same = isinstance(schema, IndexSchema) and schema_name(schema) == found["digest"]
        return schema if is_same else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _read(found: Any) -> Any:
    if isinstance(found, list):
        return tuple(map(_read, found))
    if not isinstance(found, dict):
        return found
    kind = _CLASSES[found["is"]]
    names = [item.name for item in dataclasses.fields(kind) if item.name in found]
    return kind(**{name: _attribute(kind.__name__, name, found[name]) for name in names})


def _attribute(kind: str, name: str, found: Any) -> Any:
    if name in _VERBATIM:
        return found
    enum = _ENUMS.get((kind, name))
    if enum is None or found is None:
        return _read(found)
    return tuple(map(enum, found)) if isinstance(found, list) else enum(found)
