"""Say why a connection was not made: what can heal by itself, and what someone must mend.

libpq hands on no SQLSTATE of a connection that failed, only text, so this goes by the words. They are libpq's
own, and the server's in English; a server that speaks another language is taken to be unreachable, which
is tried again for a while and then told in its own words. Pure.
"""

from __future__ import annotations

import re

from flusso.errors import ConfigError, FlussoError, SourceRefused, SourceUnavailable, SourceUntrusted

_REFUSALS: tuple[tuple[str, type[FlussoError], str | None], ...] = (
    # What the connection string asks for is not possible.
    (
        r"invalid \S+ value|invalid integer value|invalid port number|invalid connection option",
        ConfigError,
        None,
    ),
    (r"bad value for connect_timeout|could not match \d+ (port|host)", ConfigError, None),
    (r"definition of service .* not found", ConfigError, "add it to the service file, or mend its name"),
    (r"service file .* not found", ConfigError, "set PGSERVICEFILE"),
    # TLS, ours and theirs.
    (
        r"certificate verify failed",
        SourceUntrusted,
        "give the authority that signed the server's certificate as sslrootcert",
    ),
    (
        r"does not match host name",
        SourceUntrusted,
        "connect by a name that the certificate has, or use sslmode=verify-ca",
    ),
    (
        r"root certificate file .* does not exist",
        SourceUntrusted,
        "give the authority that signed the server's certificate as sslrootcert",
    ),
    (
        r"could not read root certificate file",
        SourceUntrusted,
        "sslrootcert must be a PEM file that this user may read",
    ),
    (
        r"server does not support SSL|sslmode value .* invalid when SSL support",
        SourceUntrusted,
        "set ssl = on at the server, or a sslmode that allows connections without",
    ),
    (
        r"unknown ca|alert bad certificate|alert certificate|decrypt error|client certificate",
        SourceUntrusted,
        "give a client certificate that the server's ssl_ca_file has signed, as sslcert and sslkey",
    ),
    (
        r"certificate file|private key file|could not load private key|does not match certificate",
        SourceUntrusted,
        "sslcert and sslkey must be PEM files that belong together, the key readable by this user alone",
    ),
    (
        r"no pg_hba\.conf entry.*(no encryption|SSL off)",
        SourceRefused,
        "ask for TLS with sslmode=require, or add a host line to pg_hba.conf",
    ),
    # The server knows us and says no, or does not know us.
    (
        r"no pg_hba\.conf entry for replication|pg_hba\.conf rejects replication",
        SourceRefused,
        "add a line with the database and this role to pg_hba.conf, then select pg_reload_conf()",
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        SourceRefused,
        "add a line for this role and address to pg_hba.conf, then select pg_reload_conf()",
    ),
    (
        r"certificate authentication failed",
        SourceUntrusted,
        "the common name of the client certificate must be the role, or be mapped to it in pg_ident.conf",
    ),
    (
        r"authentication failed|no password supplied|password.* is required",
        SourceRefused,
        "mend user or password",
    ),
    (r"(role|user) .* does not exist", SourceRefused, "create the role, or mend user"),
    (r"database .* does not exist", SourceRefused, "create the database, or mend its name"),
    (r"not permitted to log in", SourceRefused, "alter role … login"),
    (r"permission denied for database", SourceRefused, "grant connect on database … to the role"),
    (
        r"replication role to start walsender|permission denied to start WAL sender",
        SourceRefused,
        "alter role … replication",
    ),
    (r"channel binding required|SCRAM|authentication method requirement", SourceRefused, None),
    (
        r"number of requested standby connections exceeds|all WAL sender",
        SourceUnavailable,
        "raise max_wal_senders, or stop an unused reader",
    ),
)


def refusal(doing: str, text: str) -> FlussoError:
    """Make the error of a connection that failed from the words of libpq or the server."""
    for pattern, kind, hint in _REFUSALS:
        if re.search(pattern, text):
            return kind(f"{doing}: {text}", hint=hint)
    return SourceUnavailable(f"{doing}: {text}")
