"""What a server must offer before anything can follow it.

Shown by `check` and looked at before a pipeline starts. Finds, never changes.
"""

from __future__ import annotations

from flusso.diagnostic import Code, Diagnostic
from flusso.postgres.connect import Connection, translated

_OLDEST_SERVER = 140000

_FACTS = """
select current_setting('wal_level'),
       pg_is_in_recovery(),
       coalesce((select rolreplication or rolsuper from pg_roles where rolname = current_user), false),
       current_user,
       current_setting('max_replication_slots')::int,
       (select count(*) from pg_replication_slots),
       current_setting('max_wal_senders')::int,
       (select count(*) from pg_stat_replication)
"""


def inspect_prerequisites(conn: Connection) -> list[Diagnostic]:
    """Look at version, settings, role and free places; an empty list means all is well."""
    with translated("cannot read the server's settings"):
        row = conn.execute(_FACTS).fetchone()
    assert row is not None
    wal_level, is_standby, may_replicate, role, slots, slots_used, senders, senders_used = row
    version = conn.info.server_version
    findings: list[Diagnostic] = []

    def note(is_wrong: bool, code: Code, message: str, hint: str) -> None:
        if is_wrong:
            findings.append(Diagnostic(code, message, hint))

    note(
        version < _OLDEST_SERVER,
        Code.OLD_SERVER,
        f"the server is version {version // 10000}, older than 14",
        "upgrade Postgres",
    )
    note(
        wal_level != "logical",
        Code.WAL_LEVEL,
        f"wal_level is {wal_level}",
        "alter system set wal_level = logical, then restart the server",
    )
    note(
        is_standby,
        Code.IN_RECOVERY,
        "the server is a standby, where no position can be emitted",
        "connect to the primary",
    )
    note(
        not may_replicate,
        Code.REPLICATION_ROLE,
        f'role "{role}" may not replicate',
        f'alter role "{role}" replication',
    )
    # The slot and its reader may be flusso's own from an earlier run, so full is not yet wrong.
    note(
        slots_used >= slots,
        Code.NO_FREE_SLOT,
        f"all {slots} replication slots are taken",
        "raise max_replication_slots or drop an unused slot",
    )
    note(
        senders_used >= senders,
        Code.NO_FREE_SENDER,
        f"all {senders} wal senders are taken",
        "raise max_wal_senders or stop an unused reader",
    )
    return findings
