"""Find the line of a schema file that a finding in the database is about.

The model has no positions: it is what the builder compiles and the digest is made of. A finding names its
field, `orders.total`, and the key to blame, `foreign_key` or `filters[0].value`; here both are looked up in
the file again, only when there is something to show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from flusso.diagnostic import Diagnostic
from flusso.schema.node import Node, Problems
from flusso.schema.rules import TAGS
from flusso.schema.yaml_nodes import read_yaml

_STEP = re.compile(r"[^.\[\]]+")


def locate(findings: Iterable[Diagnostic], text: str, file: str) -> list[Diagnostic]:
    """Give the findings of one index with their places in its file, as far as they can be found."""
    problems = Problems(file)
    root = read_yaml(text, problems)
    if root is None or problems.source is None:
        return list(findings)
    found: list[Diagnostic] = []
    for finding in findings:
        node = _find(root, finding)
        place = node.place
        found.append(
            replace(
                finding,
                file=file,
                line=place.line,
                column=place.column,
                length=place.length,
                path=node.path,
                excerpt=problems.source.excerpt(place),
            )
        )
    return found


def _find(root: Node, finding: Diagnostic) -> Node:
    node = root
    for name in finding.field.split(".") if finding.field else []:
        inner = _field(node, name)
        if inner is None:
            return node
        node = inner
    return _value(node, finding.path) or _value(node, _tag(node)) or node


def _field(parent: Node, name: str) -> Node | None:
    for item in _children(parent, "fields"):
        if isinstance(item.value, dict) and item.value.get(_tag(item), item).value == name:
            return item
    return None


def _tag(node: Node) -> str:
    """Name the key that says what a field is; of the root, what it is made of."""
    keys = node.value if isinstance(node.value, dict) else {}
    return next((key for key in keys if key in TAGS), "table")


def _children(node: Node, key: str) -> list[Node]:
    item = node.value.get(key) if isinstance(node.value, dict) else None
    return item.value if item is not None and isinstance(item.value, list) else []


def _value(node: Node, path: str) -> Node | None:
    """Follow a path of keys and positions as far as the file goes; None when not even the first is there."""
    found: Node | None = None
    for step in _STEP.findall(path):
        value = (found or node).value
        if isinstance(value, dict) and step in value:
            found = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            found = value[int(step)]
        else:
            break
    return found
