"""What a libpq connection string may say, and what is wrong with one, without showing any of it. Pure.

`connection` reads the file by this, so that a mistyped parameter is found by `check --offline` too. libpq
itself still has the last word when a connection is opened: whatever is not looked at here passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from flusso.diagnostic import Code
from flusso.schema.node import did_you_mean

_LARGEST = 2**31 - 1

WHOLE = {
    "port": (1, 65535),
    "connect_timeout": (0, _LARGEST),
    "keepalives": (0, 1),
    "keepalives_idle": (0, _LARGEST),
    "keepalives_interval": (0, _LARGEST),
    "keepalives_count": (0, _LARGEST),
    "tcp_user_timeout": (0, _LARGEST),
    "sslsni": (0, 1),
    "gssdelegation": (0, 1),
}
TEXTS = (
    *("host", "hostaddr", "user", "database", "passfile", "service", "options", "application_name"),
    *("sslmode", "sslnegotiation", "sslrootcert", "sslcert", "sslkey", "sslcertmode", "sslcrl", "sslcrldir"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "channel_binding", "require_auth"),
    *("min_protocol_version", "max_protocol_version", "requirepeer"),
    *("gssencmode", "krbsrvname", "gsslib", "target_session_attrs", "load_balance_hosts"),
)
SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key")
WORDS = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "sslcertmode": ("disable", "allow", "require"),
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "load_balance_hosts": ("disable", "random"),
}
"""Parameters whose value is one of a few words."""

_ONLY_IN_STRINGS = (
    *("dbname", "client_encoding", "fallback_application_name", "sslcompression", "sslkeylogfile"),
    *("oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope", "servicefile"),
)
_IN_URLS = ("ssl",)
"""What libpq takes in a URL for the sake of JDBC."""
PARAMETERS = tuple(key for key in (*TEXTS, *WHOLE, *SECRETS, *_ONLY_IN_STRINGS) if key != "database")
_SCHEMES = ("postgresql://", "postgres://")
_KEYWORD = re.compile(r"\s*([^\s=]+)\s*=\s*('(?:\\.|[^'\\])*'|(?:\\.|[^\s\\])*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong: to be read after the name of the string's place."""

    message: str
    hint: str | None = None
    code: Code = Code.INVALID_VALUE


def find_flaws(text: str) -> list[Flaw]:
    """Say what is wrong with a connection string as far as that can be seen, without showing a secret."""
    if not text:
        return []
    if text.startswith(_SCHEMES):
        # Else libpq would take the rest of a password for a host or a database, and name it in its messages.
        before, at, _ = text.partition("://")[2].partition("?")[0].rpartition("@")
        if at and ("/" in before or "@" in before):
            return [Flaw("has a / or @ before its host that must be written as %2F or %40")]
        return list(_unknown(_in_query(text), (*PARAMETERS, *_IN_URLS)))
    if "=" in text and "://" not in text.split("=")[0]:
        return list(_unknown(_in_keywords(text), PARAMETERS))
    return [
        Flaw("is not a connection string: one begins with postgresql:// or is made of keywords like host=…")
    ]


def word_flaw(key: str, value: str) -> Flaw | None:
    """Say what is wrong with the value of a parameter that takes one of a few words."""
    if key not in WORDS or value in WORDS[key]:
        return None
    words = ", ".join(WORDS[key])
    hint = did_you_mean(value, WORDS[key])
    return Flaw(f"has an unknown {key}: it is one of {words}", hint, Code.UNKNOWN_WORD)


def quote(value: str) -> str:
    """Write a value as libpq reads it back, whatever it contains."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def conninfo(parts: Mapping[str, str]) -> str:
    """Write keywords as libpq reads them back."""
    return " ".join(f"{key}={quote(value)}" for key, value in parts.items())


def _unknown(found: Iterator[tuple[str, str]], known: tuple[str, ...]) -> Iterator[Flaw]:
    after_password = False
    for key, value in found:
        if key in known:
            after_password |= key in SECRETS
            if (flaw := word_flaw(key, value)) is not None:
                yield flaw
        elif key == "replication":
            yield Flaw('has the parameter "replication", which flusso sets itself', "leave it out")
        elif (hint := did_you_mean(key, known)) is not None or not after_password:
            yield Flaw(f'has an unknown parameter "{key}"', hint, Code.UNKNOWN_KEY)
        else:
            # It may be the rest of a password, so it is not shown.
            yield Flaw(
                "has an unknown parameter after its password",
                "a password with a space or a quote is written in quotes",
                Code.UNKNOWN_KEY,
            )


def _in_query(url: str) -> Iterator[tuple[str, str]]:
    """Give the parameters of a URL. What comes before an @ is user and password, whatever it contains."""
    rest = url.partition("://")[2]
    at = re.search(r"[@/]", rest)
    if at is not None and at.group() == "@":
        rest = rest[at.end() :]
        yield "password", ""
    for pair in rest.partition("?")[2].split("&"):
        key, equals, value = pair.partition("=")
        if equals:
            yield unquote(key), unquote(value)


def _in_keywords(text: str) -> Iterator[tuple[str, str]]:
    """Give the parameters of a keyword string up to what cannot be read, about which libpq will speak."""
    at = 0
    while (found := _KEYWORD.match(text, at)) is not None:
        key, value = found.groups()
        yield key, re.sub(r"\\(.)", r"\1", value[1:-1] if value.startswith("'") else value, flags=re.DOTALL)
        at = found.end()
