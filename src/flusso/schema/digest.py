"""Fingerprint what shapes documents and mapping.

Two schema files that mean the same have the same digest: it is taken of the model, not of the text, with
every default spelled out. A new digest means a new generation of the index, so the rendering below and
the names in `model` are a format: changing them reindexes everybody.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

from flusso.schema.model import Field, Group, IndexSchema, Join, Json, Scalar

_FORMAT = 1
"""Raise it when every model begins to give other documents or another mapping; for some, see `_revision`."""
_LIVE = frozenset(
    {
        "boost",
        "eager_global_ordinals",
        "fielddata",
        "meta",
        "search_analyzer",
        "search_quote_analyzer",
        "split_queries_on_whitespace",
    }
)
"""Options that say how a field is searched, not what is stored of it: a mapping in use can take others."""


def digest(schema: IndexSchema, shape: Mapping[str, Json]) -> str:
    """Give the SHA-256, in hex, of a schema and the sink's settings that shape the mapping."""
    settled = dataclasses.replace(schema, fields=_without_live(schema.fields))
    content = {"format": _FORMAT, "schema": plain(settled), "shape": plain(shape)}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def plain(value: object) -> Json:
    """Turn a piece of a model into JSON; the order of a tuple counts, that of a mapping does not."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        counted = [item for item in dataclasses.fields(value) if not _is_omitted(value, item)]
        content = {item.name: plain(getattr(value, item.name)) for item in counted}
        return {"is": type(value).__name__, **_revision(value), **content}
    match value:
        case StrEnum():
            return value.value
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case None | str() | int() | float():
            return value
        case _:
            raise TypeError(f"{type(value).__name__} has no place in a digest")


def _without_live(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Leave out what is changed in place, so that it makes no new generation."""
    return tuple(_settled(each) for each in fields)


def _settled(each: Field) -> Field:
    options = {name: option for name, option in each.options.items() if name not in _LIVE}
    if isinstance(each, Group | Join):
        return dataclasses.replace(each, options=options, fields=_without_live(each.fields))
    return dataclasses.replace(each, options=options)


def _revision(value: object) -> dict[str, Json]:
    """Mark the parts of a model whose mapping or documents are no longer what they first were."""
    return {"ranks": 2} if isinstance(value, Scalar) and value.variants else {}


def _is_omitted(value: object, item: dataclasses.Field[object]) -> bool:
    """An attribute added later must not change the digests of schemas that do not use it."""
    if not item.metadata.get("omit_default"):
        return False
    factory = item.default_factory
    default = item.default if factory is dataclasses.MISSING else factory()
    return bool(getattr(value, item.name) == default)
