"""Open connections to Postgres, every one with the same pinned session.

Connection strings are libpq's own: URLs or keywords, TLS, sockets, several hosts, service files. What a
role or a database sets for dates, time zones or byte output is overruled here, so that the same row
always gives the same text over SQL and over replication.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import conninfo as libpq
from psycopg import errors as pg

from flusso.errors import BuildError, ConfigError, SourceError, SourceRefused, SourceUnavailable

_PINNED = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
    "search_path": "pg_catalog",
    "client_encoding": "UTF8",
}
_READING = {
    "row_security": "off",
    "jit": "off",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Dsn:
    """A libpq connection string. Its repr shows no secret, because it shows nothing."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        try:
            libpq.conninfo_to_dict(self.text)
        except psycopg.ProgrammingError as error:
            # What it quotes is a piece of the string, often of the password: a sign that was not escaped.
            said = re.sub(r'".*"', "…", _without_secrets(error), flags=re.DOTALL)
            raise ConfigError("the connection string is not valid", hint=said) from None

    def keywords(self) -> dict[str, Any]:
        """Split it into libpq's keywords, password included."""
        return dict(libpq.conninfo_to_dict(self.text))

    def describe(self) -> str:
        """Name the server and database without credentials, for messages."""
        parts = self.keywords()
        host = parts.get("host") or parts.get("hostaddr") or "local socket"
        return f"{parts.get('dbname') or parts.get('user') or 'postgres'} on {host}:{parts.get('port', 5432)}"


def connect(dsn: Dsn, *, autocommit: bool = True) -> Connection:
    """Open an SQL connection with the pinned session."""
    return _open(dsn, _PINNED | _READING, autocommit=autocommit)


def connect_replication(dsn: Dsn) -> Connection:
    """Open a logical replication connection with the pinned session."""
    return _open(dsn, _PINNED, autocommit=True, replication="database")


def _open(dsn: Dsn, settings: dict[str, str], *, autocommit: bool, **extra: str) -> Connection:
    keywords = dsn.keywords()
    own = keywords.pop("options", None)
    pinned = " ".join(f"-c {name}={_escape_option(value)}" for name, value in settings.items())
    keywords["options"] = f"{own} {pinned}" if own else pinned
    keywords.setdefault("application_name", "flusso")
    keywords.setdefault("connect_timeout", 10)
    keywords.update(extra)
    try:
        return psycopg.connect("", autocommit=autocommit, **keywords)
    except psycopg.Error as error:
        raise translate(error, f"cannot connect to {dsn.describe()}") from error


def _escape_option(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def translate(error: psycopg.Error, doing: str) -> SourceError:
    """Turn psycopg's exception into ours: lost, refused, or a statement that failed."""
    detail = _without_secrets(error)
    if isinstance(
        error, pg.InsufficientPrivilege | pg.InvalidAuthorizationSpecification | pg.UndefinedObject
    ):
        return SourceRefused(f"{doing}: {detail}")
    if isinstance(error, pg.InvalidPassword | pg.InvalidCatalogName):
        return SourceRefused(f"{doing}: {detail}")
    if isinstance(error, psycopg.OperationalError) or getattr(error, "sqlstate", None) in (None, "57P01"):
        return SourceUnavailable(f"{doing}: {detail}")
    return BuildError(f"{doing}: {detail}")


def _without_secrets(error: psycopg.Error) -> str:
    """The server's own primary message, else the first line of the client's."""
    primary = error.diag.message_primary
    return primary if primary else str(error).strip().splitlines()[0] if str(error).strip() else "no detail"


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Run a block whose psycopg exceptions become ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, doing) from error
