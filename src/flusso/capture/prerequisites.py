"""What a server must offer before anything can follow it, and what about it will hurt later.

Shown by `check` and looked at before a pipeline starts. Finds, all at once, and never changes anything; each
finding has the statement that mends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flusso.diagnostic import Code, Diagnostic
from flusso.errors import FlussoError, SourceError, SourceUnavailable
from flusso.postgres.connect import Connection, Dsn, connect, connect_replication, translated
from flusso.postgres.identifiers import quote
from flusso.postgres.replica import check_replica

_OLDEST_SERVER = 140000
_FAILOVER_SINCE = 170000
_SMALL_WAL_MB = 1024
_SHORT_TIMEOUT_MS = 5_000
_FULL = "number of requested standby connections exceeds"

_FACTS = """
select current_setting('wal_level'),
       pg_is_in_recovery(),
       coalesce((select rolreplication or rolsuper from pg_roles where rolname = current_user), false),
       current_user::text,
       current_setting('max_replication_slots')::int,
       (select count(*) from pg_replication_slots where slot_name is distinct from %s)::int,
       current_setting('max_wal_senders')::int,
       (select setting::bigint from pg_settings where name = 'max_slot_wal_keep_size'),
       (select setting::bigint from pg_settings where name = 'wal_sender_timeout'),
       coalesce((select setting::bigint * case unit when 'min' then 60 else 1 end
         from pg_settings where name = 'idle_replication_slot_timeout'), 0)
"""


@dataclass(frozen=True, slots=True)
class _Facts:
    wal_level: str
    is_standby: bool
    may_replicate: bool
    role: str
    slots: int
    slots_of_others: int
    senders: int
    kept_wal_mb: int
    """-1 is without a limit."""
    sender_timeout_ms: int
    """0 is never."""
    idle_slot_timeout_s: int
    """0 is never, as it is before 18."""


def inspect_prerequisites(conn: Connection, dsn: Dsn, slot: str | None = None) -> list[Diagnostic]:
    """Look at version, settings, role and free places of a server, and try a replication connection.

    An empty list means that all is well. `slot` names the one to be read, whose place is not missing.
    """
    with translated("cannot read the server's settings"):
        row = conn.execute(_FACTS, (slot,)).fetchone()
    assert row is not None
    facts = _Facts(*row)
    return [
        *_server(conn.info.server_version, facts),
        *_places(facts),
        *_wal(facts),
        *(_try_replication(dsn, facts) if facts.may_replicate and facts.senders else ()),
    ]


def inspect_replica(conn: Connection, dsn: Dsn) -> list[Diagnostic]:
    """Look at the server that documents are to be read from, beside a connection to the source."""
    try:
        with connect(dsn) as replica:
            check_replica(conn, replica, dsn)
            with translated("cannot read the replica's settings"):
                row = replica.execute(
                    "select pg_is_in_recovery(), current_setting('hot_standby_feedback')::bool"
                ).fetchone()
    except SourceUnavailable as error:
        return [_found(Code.SOURCE_UNAVAILABLE, error)]
    except FlussoError as error:
        return [_found(Code.UNFIT_REPLICA, error)]
    assert row is not None
    is_replica, has_feedback = row
    if not is_replica or has_feedback:
        return []
    return [
        Diagnostic(
            Code.HOT_STANDBY_FEEDBACK,
            "hot_standby_feedback is off on the replica of read_url: what vacuum removes on the source "
            "cancels reads there, which then begin anew",
            f"on the replica: {_setting('hot_standby_feedback', 'on')}",
        )
    ]


def inspect_failover(conn: Connection, *, is_failover: bool) -> list[Diagnostic]:
    """Find a failover slot that is asked of a server which has none."""
    version = conn.info.server_version
    if not is_failover or version >= _FAILOVER_SINCE:
        return []
    message = f"the server is version {version // 10000}, and failover slots came with 17"
    return [Diagnostic(Code.NO_FAILOVER, message, "upgrade Postgres, or take source.failover out")]


def _server(version: int, facts: _Facts) -> Iterator[Diagnostic]:
    if version < _OLDEST_SERVER:
        message = f"the server is version {version // 10000}, older than 14"
        yield Diagnostic(Code.OLD_SERVER, message, "upgrade Postgres")
    if facts.wal_level != "logical":
        yield Diagnostic(
            Code.WAL_LEVEL,
            f"wal_level is {facts.wal_level}, so the WAL carries no logical changes",
            "alter system set wal_level = logical; then restart the server",
        )
    if facts.is_standby:
        yield Diagnostic(
            Code.IN_RECOVERY,
            "the server is a standby, where no position can be emitted",
            "connect to the primary, and name the standby as read_url; with several hosts add "
            "target_session_attrs=read-write",
        )
    if not facts.may_replicate:
        yield Diagnostic(
            Code.REPLICATION_ROLE,
            f'role "{facts.role}" may not replicate',
            f"alter role {quote(facts.role)} replication",
        )


def _places(facts: _Facts) -> Iterator[Diagnostic]:
    if facts.slots_of_others >= facts.slots:
        yield Diagnostic(
            Code.NO_FREE_SLOT,
            f"all {facts.slots} replication slots are taken by others",
            f"alter system set max_replication_slots = {facts.slots_of_others + 1}; then restart the server; "
            "or drop an unused slot: select slot_name from pg_replication_slots where not active",
        )
    if not facts.senders:
        yield _no_sender(facts)


def _wal(facts: _Facts) -> Iterator[Diagnostic]:
    keep = f"{_setting('max_slot_wal_keep_size', '64GB')} with what the disk can spare"
    lost = "the slot is lost and indexes are filled anew"
    if facts.kept_wal_mb < 0:
        yield Diagnostic(
            Code.UNBOUNDED_WAL,
            "max_slot_wal_keep_size is not set: while flusso is away its slot keeps all WAL, "
            "until the disk is full",
            f"{keep}; beyond that {lost}",
        )
    elif facts.kept_wal_mb < _SMALL_WAL_MB:
        yield Diagnostic(
            Code.SMALL_WAL,
            f"max_slot_wal_keep_size is {facts.kept_wal_mb} MB: once flusso is so much WAL behind, {lost}",
            keep,
        )
    if facts.sender_timeout_ms < _SHORT_TIMEOUT_MS:
        meaning = (
            "flusso says every second that it is alive, and a busy machine may be late"
            if facts.sender_timeout_ms
            else "the server never notices that a reader is gone, and keeps the slot for it"
        )
        yield Diagnostic(
            Code.SENDER_TIMEOUT,
            f"wal_sender_timeout is {facts.sender_timeout_ms} ms: {meaning}",
            _setting("wal_sender_timeout", "1min"),
        )
    if facts.idle_slot_timeout_s:
        yield Diagnostic(
            Code.IDLE_SLOT_TIMEOUT,
            f"idle_replication_slot_timeout is {facts.idle_slot_timeout_s} s: "
            f"when flusso is away for longer, {lost}",
            _setting("idle_replication_slot_timeout", "0"),
        )


def _setting(name: str, value: str) -> str:
    return f"alter system set {name} = '{value}'; select pg_reload_conf();"


def _try_replication(dsn: Dsn, facts: _Facts) -> Iterator[Diagnostic]:
    """Open what `run` will open: pg_hba.conf, the free senders and a pooler in between can all refuse it."""
    try:
        connect_replication(dsn).close()
    except SourceError as error:
        yield _no_sender(facts) if _FULL in error.message else _found(Code.REPLICATION_REFUSED, error)


def _no_sender(facts: _Facts) -> Diagnostic:
    return Diagnostic(
        Code.NO_FREE_SENDER,
        f"all {facts.senders} WAL senders are taken",
        f"alter system set max_wal_senders = {facts.senders + 2}; then restart the server; or stop an unused "
        "reader: select pid, application_name from pg_stat_replication",
    )


def _found(code: Code, error: FlussoError) -> Diagnostic:
    return Diagnostic(code, error.message, error.hint)
