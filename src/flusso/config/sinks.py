"""Read `[sinks.NAME]` tables. Used by `load`; what a sink does with its settings is the sink's business."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from flusso.config.deployment import (
    ElasticsearchSettings,
    OpenSearchSettings,
    SinkSettings,
    SqliteSettings,
    StdoutSettings,
)
from flusso.config.names import sink_flaw
from flusso.config.plain import read_plain
from flusso.config.secret import Resolver, Secret, reserved_variable
from flusso.diagnostic import Code
from flusso.schema.excerpt import show_word
from flusso.schema.node import Node, did_you_mean
from flusso.schema.section import Section, read_text

BY_HAND = ("name", "url", "username", "password", "api_key", "ca", "refresh_interval", "path")
"""Settings that are secrets, addresses, paths or times, and the name, which is the table's."""
SINKS: dict[str, type[SinkSettings]] = {
    "opensearch": OpenSearchSettings,
    "elasticsearch": ElasticsearchSettings,
    "sqlite": SqliteSettings,
    "stdout": StdoutSettings,
}
INTERVAL = re.compile(r"-1|[0-9]+(nanos|micros|ms|s|m|h|d)")


def read_sinks(root: Section, resolver: Resolver, folder: Path) -> tuple[SinkSettings, ...]:
    """Read all sinks; without any, documents go to stdout."""
    node = root.get("sinks")
    if node is None:
        return (StdoutSettings("stdout"),)
    if not isinstance(node.value, dict):
        root.wrong("sinks are tables: [sinks.NAME]", "sinks")
        return ()
    found = [_sink(name, item, resolver, folder) for name, item in node.value.items()]
    return tuple(sink for sink in found if sink is not None) or (StdoutSettings("stdout"),)


def _sink(name: str, node: Node, resolver: Resolver, folder: Path) -> SinkSettings | None:
    problems = resolver.problems
    if (flaw := sink_flaw(name)) is not None:
        problems.at(node, flaw, Code.INVALID_NAME)
    if not isinstance(node.value, dict):
        problems.at(node, f"a sink is a table, this is {node.kind}", Code.WRONG_TYPE)
        return None
    kind = node.value.get("type")
    if kind is None:
        problems.at(node, f'"type" is missing: one of {", ".join(SINKS)}', Code.MISSING_KEY)
        return None
    word = read_text(kind, problems)
    if word is None:
        return None
    if word not in SINKS:
        message = f"{show_word(word)} is not one of {', '.join(SINKS)}"
        problems.at(kind, message, Code.UNKNOWN_WORD, hint=did_you_mean(word, SINKS))
        return None
    section = Section(node, problems, sink_keys(word))
    if word == "sqlite":
        return _sqlite(name, section, folder)
    if word == "stdout":
        return StdoutSettings(name, **read_plain(section, StdoutSettings, but=BY_HAND))
    return _search_server(name, word, section, resolver, folder)


def sink_keys(kind: str) -> tuple[str, ...]:
    """Name the keys that a sink of this type may have."""
    return ("type", *(item.name for item in dataclasses.fields(SINKS[kind]) if item.name != "name"))


def _sqlite(name: str, section: Section, folder: Path) -> SqliteSettings:
    section.need("path")
    plain = read_plain(section, SqliteSettings, but=BY_HAND)
    return SqliteSettings(name, str(folder / section.text("path")), **plain)


def _search_server(
    name: str, kind: str, section: Section, resolver: Resolver, folder: Path
) -> OpenSearchSettings | ElasticsearchSettings:
    urls = _urls(reserved_variable(name, "URL", kind), section, resolver)
    username = resolver.resolve(section.get("username"), reserved=reserved_variable(name, "USERNAME", kind))
    password = resolver.resolve(section.get("password"), reserved=reserved_variable(name, "PASSWORD", kind))
    api_key = resolver.resolve(section.get("api_key")) if "api_key" in section else None
    username = username or next((url.username for url in urls if url.username), None)
    password = password or next((url.password for url in urls if url.password), None)
    if (username is None) != (password is None) and resolver.needs_values:
        section.wrong("username and password go together: one of them is missing", code=Code.CONFLICTING_KEYS)
    if api_key is not None and username is not None:
        section.wrong("takes either api_key or username and password", "api_key", code=Code.CONFLICTING_KEYS)
    settings = ElasticsearchSettings if kind == "elasticsearch" else OpenSearchSettings
    return settings(
        name=name,
        url=tuple(url.text for url in urls),
        username=None if username is None else username.reveal(),
        password=password,
        api_key=api_key,
        ca=str(folder / section.text("ca")) if "ca" in section else None,
        refresh_interval=_interval(section),
        **read_plain(section, settings, but=BY_HAND),
    )


def _interval(section: Section) -> str:
    text = section.text("refresh_interval", "10s")
    if not INTERVAL.fullmatch(text):
        section.wrong('must be a time like "10s" or "500ms", or "-1" for never', "refresh_interval")
    return text


@dataclass(frozen=True, slots=True)
class _Url:
    """An address without the credentials that were written into it."""

    text: str
    username: Secret | None
    password: Secret | None


_UNSET = _Url("http://unset", None, None)
"""Stands for an address that only the environment will know."""


def _urls(reserved: str, section: Section, resolver: Resolver) -> list[_Url]:
    node = section.get("url")
    if node is not None and isinstance(node.value, list) and resolver.reserved(reserved) is None:
        if not node.value:
            section.wrong("names no url", "url", code=Code.EMPTY_LIST)
        secrets = [(item, resolver.resolve(item)) for item in node.value]
    else:
        literal = None if node is not None and isinstance(node.value, list) else node
        secrets = [(node or section.node, resolver.resolve(literal, reserved=reserved))]
        if node is None and secrets[0][1] is None and not resolver.needs_values:
            return [_UNSET]
        if node is None and secrets[0][1] is None:
            section.wrong(f'"url" is missing and {reserved} is not set', code=Code.MISSING_KEY)
    found = [_url(item, secret, resolver) for item, secret in secrets if secret is not None]
    return [url for url in found if url is not None]


def _url(node: Node, secret: Secret, resolver: Resolver) -> _Url | None:
    """Take an address apart. The message shows nothing of it: there may be a password inside."""
    if not secret.reveal():
        return _UNSET
    try:
        parts = urlsplit(secret.reveal().strip())
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        host = _host(parts) if is_good else ""
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment or "@" in parts.path:
        resolver.problems.at(node, "must be an address like https://host:9200")
        return None
    text = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return _Url(text, _credential(parts.username), _credential(parts.password))


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if parts.port is None else f"{bracketed}:{parts.port}"


def _credential(text: str | None) -> Secret | None:
    return Secret(unquote(text)) if text else None
