"""Open connections to Postgres, SQL and replication alike, every one with the same pinned session.

Connection strings are libpq's own: URLs or keywords, TLS, sockets, several hosts with
`target_session_attrs`, service files. What a role or a database sets for dates, time zones or byte output is
overruled here, so that the same row always gives the same text over SQL and over replication.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import conninfo as libpq
from psycopg import errors as pg
from psycopg import pq

from flusso.errors import BuildError, ConfigError, SourceError, SourceRefused, SourceUnavailable
from flusso.postgres.refusal import refusal
from flusso.schema.node import did_you_mean

# Sent when the connection is made, as options: they win over what a role or a database sets, and cost no
# statement of their own.
_PINNED = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
    "search_path": "pg_catalog",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "quote_all_identifiers": "off",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "gin_fuzzy_search_limit": "0",
}
_READING = {
    "row_security": "off",
    "jit": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "0",
}

# libpq turns PGTZ, PGDATESTYLE and PGCLIENTENCODING into settings that come after ours; the server reports
# these, so it can be seen.
_REPORTED = ("TimeZone", "DateStyle", "IntervalStyle", "client_encoding", "standard_conforming_strings")
_NEWER = {"idle_session_timeout": 140000, "transaction_timeout": 170000}
_APPLICATION = "flusso"
_CONNECT_TIMEOUT_S = 10
# A server that vanishes, or the path to it, sends no reset: without these a read waits for hours, and a write
# for a quarter of one. The kernels answer them, so neither a long statement nor a stream that is not read for
# long is cut: only a peer of which nothing comes any more.
_LIVENESS = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
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
            raise _invalid(_without_secrets(error)) from None

    def keywords(self) -> dict[str, Any]:
        """Split it into libpq's keywords, password included."""
        return dict(libpq.conninfo_to_dict(self.text))

    def describe(self) -> str:
        """Name the server and database without credentials, for messages."""
        parts = self.keywords()
        host = parts.get("host") or parts.get("hostaddr") or "local socket"
        return f"{parts.get('dbname') or parts.get('user') or 'postgres'} on {host}:{parts.get('port', 5432)}"


def connect(dsn: Dsn, *, autocommit: bool = True) -> Connection:
    """Open an SQL connection with the pinned session.

    The user's own `application_name` wins over flusso's, wherever libpq finds it. With several hosts each is
    tried in turn until one fits `target_session_attrs`. Raises `SourceUnavailable` for what may heal,
    `SourceRefused` (of TLS `SourceUntrusted`) for what the server will go on to refuse, and `ConfigError` for
    a parameter that cannot be.
    """
    return _open(dsn, _PINNED | _READING, autocommit=autocommit)


def is_dead(conn: Connection) -> bool:
    """Say whether an idle connection is over. What the server said last is read without waiting: a connection
    that was kept over an outage shows no other sign of it, and each would fail once more."""
    try:
        for _ in range(2):  # the farewell, then the end itself
            conn.pgconn.consume_input()
    except psycopg.Error:
        return True
    return conn.closed or conn.broken


def connect_replication(dsn: Dsn) -> Connection:
    """Open a logical replication connection with the pinned session; it takes the simple protocol only.

    The string means what it means to `connect`, TLS and hosts included; errors are the same.
    """
    return _open(dsn, _PINNED, autocommit=True, replication="database")


def _open(dsn: Dsn, settings: dict[str, str], *, autocommit: bool, **extra: str) -> Connection:
    keywords = dsn.keywords()
    own = keywords.pop("options", None) or os.environ.get("PGOPTIONS")
    pinned = " ".join(f"-c {name}={_escape_option(value)}" for name, value in settings.items())
    keywords["options"] = f"{own} {pinned}" if own else pinned
    keywords["client_encoding"] = settings["client_encoding"]
    keywords.setdefault("fallback_application_name", _APPLICATION)
    if not ("service" in keywords or "PGSERVICE" in os.environ):  # whose file may say otherwise
        keywords = _LIVENESS | keywords
        if "PGCONNECT_TIMEOUT" not in os.environ:
            keywords.setdefault("connect_timeout", _CONNECT_TIMEOUT_S)
    keywords.update(extra)
    doing = f"cannot connect to {dsn.describe()}"
    try:
        conn = psycopg.connect("", autocommit=autocommit, **keywords)
    except psycopg.Error as error:
        raise refusal(doing, _without_secrets(error)) from error
    try:
        _pin_again(conn, settings)
    except BaseException:
        conn.close()
        raise
    return conn


def _pin_again(conn: Connection, settings: dict[str, str]) -> None:
    """Set what the environment has overruled, and what older servers do not know.

    By the simple protocol, the only one that replication understands.
    """
    wanted = {
        name: settings[name]
        for name in _REPORTED
        if (conn.pgconn.parameter_status(name.encode()) or b"").decode() != settings[name]
    }
    wanted |= {name: "0" for name, since in _NEWER.items() if conn.info.server_version >= since}
    if not wanted:
        return
    statement = "; ".join(f"set {name} = '{value}'" for name, value in wanted.items())
    if conn.pgconn.exec_(statement.encode()).status != pq.ExecStatus.COMMAND_OK:
        raise SourceUnavailable(f"cannot set {', '.join(wanted)} of a new connection")


def _invalid(said: str) -> ConfigError:
    """Tell what libpq says of a string without the piece of it that it quotes, unless that is a parameter:
    often it is a piece of the password, in which a sign was not escaped."""
    found = re.search(r'(?:connection option|query parameter:?) "([^"]*)"', said)
    if found is not None:
        hint = did_you_mean(found[1], (option.keyword.decode() for option in pq.Conninfo.get_defaults()))
        if hint is not None:
            return ConfigError(f'the connection string has an unknown parameter "{found[1]}"', hint=hint)
    return ConfigError("the connection string is not valid", hint=re.sub(r'".*"', "…", said, flags=re.DOTALL))


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
