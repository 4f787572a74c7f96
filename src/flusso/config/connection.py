"""Make a libpq connection string of what `[source]` says.

A URL or keyword string is passed on as it is: only libpq knows all it may contain. A table of parts
becomes keywords, each value quoted. Messages never show a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from flusso.config.secret import DATABASE_URL, Resolver, Secret
from flusso.diagnostic import Code
from flusso.schema.node import Node
from flusso.schema.section import Section

_RENAMED = {"database": "dbname"}
_DEFAULTS = {"host": "127.0.0.1", "port": "5432", "user": "postgres"}
WHOLE = {
    "port": (1, 65535),
    "connect_timeout": (0, 2**31 - 1),
    "keepalives": (0, 1),
    "keepalives_idle": (0, 2**31 - 1),
    "keepalives_interval": (0, 2**31 - 1),
    "keepalives_count": (0, 2**31 - 1),
    "tcp_user_timeout": (0, 2**31 - 1),
    "sslsni": (0, 1),
}
TEXTS = (
    *("host", "hostaddr", "user", "database", "passfile", "service", "options", "application_name"),
    *("sslmode", "sslnegotiation", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "channel_binding", "require_auth"),
    *("gssencmode", "krbsrvname", "gsslib", "target_session_attrs", "load_balance_hosts"),
)
SECRETS = ("password", "sslpassword")


def read_connection(section: Section, resolver: Resolver) -> Secret:
    """Read `connection_url` of `[source]`: a text, `{ env }`, a table of parts, or `DATABASE_URL`."""
    node = section.get("connection_url")
    if node is None or not _is_parts(node):
        found = resolver.resolve(node, reserved=DATABASE_URL)
        if found is None and node is None and resolver.needs_values:
            section.wrong(f'"connection_url" is missing and {DATABASE_URL} is not set', code=Code.MISSING_KEY)
        if found is not None and (flaw := _flaw(found.reveal())) is not None:
            is_reserved = found == resolver.reserved(DATABASE_URL)
            section.wrong(f"{DATABASE_URL if is_reserved else 'this'} {flaw}", "connection_url")
        return found or Secret("")
    return resolver.reserved(DATABASE_URL) or _from_parts(section, resolver)


def _is_parts(node: Node) -> bool:
    return isinstance(node.value, dict) and "env" not in node.value


def _flaw(text: str) -> str | None:
    """Say what is wrong with a connection string as far as that can be seen, without showing any of it."""
    if not text:
        return None
    if text.startswith(("postgresql://", "postgres://")):
        # Else libpq would take the rest of a password for a host or a database, and name it in its messages.
        before, at, _ = text.partition("://")[2].partition("?")[0].rpartition("@")
        is_cut = bool(at) and ("/" in before or "@" in before)
        return "has a / or @ before its host that must be written as %2F or %40" if is_cut else None
    if "=" in text and "://" not in text.split("=")[0]:
        return None
    return "is not a connection string: one begins with postgresql:// or is made of keywords like host=…"


def _from_parts(outer: Section, resolver: Resolver) -> Secret:
    section = outer.inner("connection_url", (*TEXTS, *WHOLE, *SECRETS))
    parts: dict[str, str] = {}
    for key in TEXTS:
        if key in section:
            parts[key] = section.text(key)
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


def conninfo(parts: Mapping[str, str]) -> str:
    """Write keywords as libpq reads them back, whatever the values contain."""
    return " ".join(f"{key}={_quote(value)}" for key, value in parts.items())


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
