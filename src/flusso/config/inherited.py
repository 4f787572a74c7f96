"""Keys of the Rust flusso's deployments that have another name here, or nothing to do.

So that such a deployment loads unchanged. `load` and `sinks` read them by this module; what a
key asks for and does not get is a finding, never silence.
"""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import ip_address
from urllib.parse import quote, urlencode, urlsplit

from flusso.config.conninfo import conninfo
from flusso.config.secret import Secret
from flusso.diagnostic import Code
from flusso.schema.section import Section

INHERITED: dict[str, str] = {
    "server": "addresses for health and control, which nobody serves yet",
    "stream": "the stream between source and sinks: its type is `channel`, Spark takes its place",
    "source.ssl_mode": "`sslmode` of the connection, whatever its URL says",
    "source.ssl_root_cert": "`sslrootcert` of the connection",
    "source.ssl_cert": "`sslcert` of the connection, with `ssl_key`",
    "source.ssl_key": "`sslkey` of the connection, with `ssl_cert`",
    "source.ssl_sni_hostname": "the name that the certificate of an address has",
    "source.manage_replica_identity": "`replica_identity` = `manage` when it is true, else `auto`",
    "batch.max_delay_ms": "a batch waits no longer, and without `delay_ms` not at all",
}
"""By key what it means here."""

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):([0-9]{1,5})")
_LONGEST_MS = 2**31 - 1


class SslMode(StrEnum):
    """How much of TLS is asked for."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


def inherited_keys(section: str) -> tuple[str, ...]:
    """Name the inherited keys of a section; of the root those without a dot."""
    if not section:
        return tuple(key for key in INHERITED if "." not in key)
    return tuple(key.removeprefix(f"{section}.") for key in INHERITED if key.startswith(f"{section}."))


def read_server(root: Section) -> None:
    """Check `[server]`, and say that there is none."""
    if "server" not in root:
        return
    section = root.inner("server", ("public_address", "private_address"))
    for key in section:
        found = _ADDRESS.fullmatch(section.text(key))
        if found is None or int(found.group(2)) > 65535:
            section.wrong("must be an address like 127.0.0.1:9464", key)
    root.wrong("there is no server for health and control yet", "server", code=Code.NO_EFFECT)


def read_stream(root: Section) -> None:
    """Check `[stream]`; its one type needs nothing here."""
    if "stream" not in root:
        return
    section = root.inner("stream", ("type", "capacity"))
    section.need("type")
    if "type" in section and section.text("type") not in ("", "channel"):
        section.wrong('the only type of stream is "channel"', "type", code=Code.UNKNOWN_WORD)
    section.integer("capacity", 1024, low=0, high=2**63 - 1)
    if "capacity" in section:
        message = "what is buffered is bounded by bytes: see batch.max_bytes"
        section.wrong(message, "capacity", code=Code.NO_EFFECT)


def read_max_delay(section: Section) -> None:
    """Check `max_delay_ms`: it is kept by a batch that never waits."""
    section.integer("max_delay_ms", 0, low=0, high=_LONGEST_MS)
    if "max_delay_ms" in section and "delay_ms" in section:
        section.wrong("takes either delay_ms or max_delay_ms", "max_delay_ms", code=Code.CONFLICTING_KEYS)


def read_managed_identity(section: Section) -> bool:
    """Say whether `manage_replica_identity` asks for identities to be set."""
    if "manage_replica_identity" in section and "replica_identity" in section:
        message = "takes either replica_identity or manage_replica_identity"
        section.wrong(message, "manage_replica_identity", code=Code.CONFLICTING_KEYS)
    return section.boolean("manage_replica_identity", False)


def with_tls(section: Section, connection: Secret) -> Secret:
    """Lay the `ssl_…` keys over a connection string; the last of two settings counts to libpq."""
    keywords = {
        key.replace("_", ""): section.text(key)
        for key in ("ssl_root_cert", "ssl_cert", "ssl_key")
        if key in section
    }
    if "ssl_mode" in section:
        keywords["sslmode"] = section.choice("ssl_mode", SslMode, SslMode.PREFER)
    if ("ssl_cert" in section) != ("ssl_key" in section):
        section.wrong("ssl_cert and ssl_key go together: one of them is missing", code=Code.CONFLICTING_KEYS)
    text = connection.reveal()
    keywords |= _sni(section, text)
    return Secret(_extended(text, keywords)) if text and keywords else connection


def _sni(section: Section, connection: str) -> dict[str, str]:
    """Connect by the address and check for the name, where the connection has an address."""
    if "ssl_sni_hostname" not in section:
        return {}
    name, host = section.text("ssl_sni_hostname"), _host(connection)
    try:
        ip_address(host)
    except ValueError:
        if connection and host != name:
            message = "needs an address as the host: write hostaddr into connection_url"
            section.wrong(message, "ssl_sni_hostname", code=Code.NO_EFFECT)
        return {}
    return {"host": name, "hostaddr": host}


def _host(connection: str) -> str:
    if "://" in connection:
        try:
            return urlsplit(connection).hostname or ""
        except ValueError:
            return ""
    found = re.search(r"(?:^|\s)host\s*=\s*'?([^'\s]*)", connection)
    return found.group(1) if found else ""


def _extended(text: str, keywords: dict[str, str]) -> str:
    if text.startswith(("postgresql://", "postgres://")):
        return f"{text}{'&' if '?' in text else '?'}{urlencode(keywords, quote_via=quote)}"
    return f"{text} {conninfo(keywords)}"
