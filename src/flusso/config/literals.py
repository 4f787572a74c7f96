"""Find secrets that are written into flusso.toml as they are. Pure.

Running by such a file is allowed; a lock, which is made to be committed and shipped, must not have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from flusso.config.conninfo import SECRETS
from flusso.config.secret import DATABASE_URL, reserved_variable
from flusso.diagnostic import Code
from flusso.schema.node import Node, Problems

_SECRET_KEY = re.compile(r"secret|passw|token|credential|access[._-]?key|api[._-]?key", re.IGNORECASE)
_KEYWORD = re.compile(r"password\s*=", re.IGNORECASE)


def refuse_literals(root: Node, problems: Problems) -> None:
    """Note each literal secret of a deployment file with what to write instead."""
    for node, hint in (*_in_source(root), *_in_sinks(root), *_in_spark(root)):
        problems.at(node, "a lock holds no secret, and this is one", Code.LITERAL_SECRET, hint=hint)


def _members(node: Node | None) -> dict[str, Node]:
    return node.value if node is not None and isinstance(node.value, dict) else {}


def _in_source(root: Node) -> Iterator[tuple[Node, str]]:
    env = 'write { env = "VAR" } instead'
    source = _members(_members(root).get("source"))
    yield from _in_connection(source.get("connection_url"), f"{env}, or leave it out and set {DATABASE_URL}")
    yield from _in_connection(source.get("read_url"), env)


def _in_connection(connection: Node | None, hint: str) -> Iterator[tuple[Node, str]]:
    if connection is not None and isinstance(connection.value, str) and _has_password(connection.value):
        yield connection, hint
    for key, item in _members(connection).items():
        if key in SECRETS and isinstance(item.value, str):
            yield item, 'write { env = "VAR" } instead'
        elif isinstance(item.value, str) and key == "options" and _SECRET_KEY.search(item.value):
            yield item, hint


def _in_sinks(root: Node) -> Iterator[tuple[Node, str]]:
    for name, sink in _members(_members(root).get("sinks")).items():
        kind = _members(sink).get("type")
        is_elastic = kind is not None and kind.value == "elasticsearch"
        variable = reserved_variable(name, "PASSWORD", "elasticsearch" if is_elastic else "opensearch")
        for key, item in _members(sink).items():
            if key in ("password", "api_key") and isinstance(item.value, str):
                reserved = f", or leave it out and set {variable}" if key == "password" else ""
                yield item, f'write {{ env = "VAR" }} instead{reserved}'
            elif key == "url":
                for url in item.value if isinstance(item.value, list) else [item]:
                    if isinstance(url.value, str) and _has_password(url.value):
                        yield url, f"take user and password out of the address and set {variable}"


def _in_spark(root: Node) -> Iterator[tuple[Node, str]]:
    hint = "set it where Spark is configured: spark-defaults.conf, spark-submit or its environment"
    conf = _members(_members(root).get("spark")).get("conf")
    for name, item in _settings(conf, ""):
        if _SECRET_KEY.search(name):
            yield item, hint


def _settings(node: Node | None, name: str) -> Iterator[tuple[str, Node]]:
    for key, item in _members(node).items():
        whole = f"{name}.{key}" if name else key
        if isinstance(item.value, dict):
            yield from _settings(item, whole)
        else:
            yield whole, item


def _has_password(text: str) -> bool:
    """Look for a password in an address or in libpq keywords, percent signs decoded."""
    if _KEYWORD.search(unquote(text)):
        return True
    if "://" not in text:
        return False
    try:
        return urlsplit(text.strip()).password is not None
    except ValueError:
        return "@" in text
