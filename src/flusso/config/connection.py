"""Make a libpq connection string of what `[source]` says.

A URL or keyword string is passed on as it is; `conninfo` knows what it may contain. A table of parts
becomes keywords, each value quoted. Messages never show a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from flusso.config.conninfo import SECRETS, TEXTS, WHOLE, conninfo, find_flaws, word_flaw
from flusso.config.secret import DATABASE_URL, Resolver, Secret
from flusso.diagnostic import Code
from flusso.schema.node import Node
from flusso.schema.section import Section

_RENAMED = {"database": "dbname"}
_DEFAULTS = {"host": "127.0.0.1", "port": "5432", "user": "postgres"}


def read_connection(section: Section, resolver: Resolver) -> Secret:
    """Read `connection_url` of `[source]`: a text, `{ env }`, a table of parts, or `DATABASE_URL`."""
    key = "connection_url"
    node = section.get(key)
    if node is not None and _is_parts(node):
        return resolver.reserved(DATABASE_URL) or _from_parts(section, key, resolver)
    found = resolver.resolve(node, reserved=DATABASE_URL)
    if found is None and node is None and resolver.needs_values:
        section.wrong(f'"{key}" is missing and {DATABASE_URL} is not set', code=Code.MISSING_KEY)
    is_reserved = found is not None and found == resolver.reserved(DATABASE_URL)
    return _checked(section, key, found, DATABASE_URL if is_reserved else "this")


def read_read_url(section: Section, resolver: Resolver) -> Secret | None:
    """Read `read_url` of `[source]`, in any form of `connection_url`; None if it is not there."""
    key = "read_url"
    node = section.get(key)
    if node is None:
        return None
    if _is_parts(node):
        return _from_parts(section, key, resolver)
    return _checked(section, key, resolver.resolve(node), "this")


def _checked(section: Section, key: str, found: Secret | None, name: str) -> Secret:
    for flaw in find_flaws(found.reveal()) if found is not None else ():
        section.wrong(f"{name} {flaw.message}", key, code=flaw.code, hint=flaw.hint)
    return found or Secret("")


def _is_parts(node: Node) -> bool:
    return isinstance(node.value, dict) and "env" not in node.value


def _from_parts(outer: Section, name: str, resolver: Resolver) -> Secret:
    section = outer.inner(name, (*TEXTS, *WHOLE, *SECRETS))
    parts: dict[str, str] = {}
    for key in TEXTS:
        if key in section:
            parts[key] = section.text(key)
            if (flaw := word_flaw(key, parts[key])) is not None and parts[key]:
                section.wrong(f"this {flaw.message}", key, code=flaw.code, hint=flaw.hint)
    for key, (low, high) in WHOLE.items():
        if key in section:
            parts[key] = str(section.integer(key, low, low=low, high=high))
    for key in SECRETS:
        secret = resolver.resolve(section.get(key)) if key in section else None
        if secret is not None:
            parts[key] = secret.reveal()
    if "service" not in parts:
        section.need("database")
        parts = {key: value for key, value in _DEFAULTS.items() if not _is_given(key, parts)} | parts
    return Secret(conninfo({_RENAMED.get(key, key): value for key, value in parts.items()}))


def _is_given(key: str, parts: Mapping[str, str]) -> bool:
    return key in parts or (key == "host" and "hostaddr" in parts)
