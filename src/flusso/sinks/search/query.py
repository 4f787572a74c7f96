"""A full-text query over everything in a mapping that holds words, nested documents included. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flusso.schema.model import Json

_WORD_TYPES = ("text", "keyword")


def text_paths(mappings: Mapping[str, Json]) -> dict[str, list[str]]:
    """List the fields that hold words by the nested path they live under; the root's path is empty."""
    found: dict[str, list[str]] = {}
    _collect(mappings, "", "", found)
    return found


def _collect(mapping: Mapping[str, Json], at: str, nested: str, found: dict[str, list[str]]) -> None:
    for key in ("properties", "fields"):
        below = mapping.get(key)
        if not isinstance(below, dict):
            continue
        for name, child in below.items():
            if not isinstance(child, dict):
                continue
            path = f"{at}.{name}" if at else name
            if child.get("type") in _WORD_TYPES:
                found.setdefault(nested, []).append(path)
            _collect(child, path, path if child.get("type") == "nested" else nested, found)


def search_body(
    mappings: Mapping[str, Json], query: str, limit: int, where: Sequence[tuple[str, str]] = ()
) -> dict[str, Json]:
    """Ask for documents that have all the words in one place: the root, or one nested document.

    Of the query language only white space means anything, so any input is a valid query.
    """
    clauses: list[Json] = []
    for path, fields in text_paths(mappings).items() if query.strip() else ():
        words: Json = {
            "simple_query_string": {
                "query": query,
                "fields": list(fields),
                "default_operator": "and",
                "flags": "WHITESPACE",
                "lenient": True,
            }
        }
        clauses.append({"nested": {"path": path, "query": words, "score_mode": "max"}} if path else words)
    asked: dict[str, Json] = {"filter": [_condition(mappings, *each) for each in where]}
    if clauses:
        asked |= {"should": clauses, "minimum_should_match": 1}
    return {"size": limit, "query": {"bool": asked}}


def _condition(mappings: Mapping[str, Json], path: str, value: str) -> Json:
    """Ask for a value under a path; a field that is not there has none."""
    nested, at, here = "", "", mappings
    for name in path.split("."):
        below = here.get("properties")
        child = below.get(name) if isinstance(below, dict) else None
        if not isinstance(child, dict):
            return {"match_none": {}}
        at, here = f"{at}.{name}" if at else name, child
        nested = at if child.get("type") == "nested" else nested
    inner = here.get("fields")
    if here.get("type") == "text" and isinstance(inner, dict) and "keyword" in inner:
        at += ".keyword"
    kind = "match_phrase" if here.get("type") == "text" and not at.endswith(".keyword") else "match"
    asked: Json = {kind: {at: {"query": value} | ({"lenient": True} if kind == "match" else {})}}
    return {"nested": {"path": nested, "query": asked}} if nested else asked
