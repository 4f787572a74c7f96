"""Which server this is and how far its WAL goes: is it still the one that was followed, and not an older one?

Compared at every start with what each sink remembers, and at every new connection of the stream with what
the pipeline has recorded. A cluster has a system identifier from its birth; a standby that takes over begins
a new timeline; a data directory that was put back shows neither, but its WAL ends before what was seen of it.
A server that crashed may have lost commits that were visible but not on disk yet, and no WAL tells of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from flusso.errors import SourceCrashed, SourceReplaced, SourceWentBack, TimelineBehind, TimelineChanged
from flusso.lsn import Lsn
from flusso.postgres.connect import Connection, translated
from flusso.postgres.introspect import read_source_identity

_END = """
select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end::text
"""
_RESEED = 'run flusso reindex --all, or set source.on_slot_lost = "reseed"'


@dataclass(frozen=True, slots=True)
class Lineage:
    """A server, and a position on it."""

    system_identifier: str
    timeline: int
    """0 where it is not known."""
    lsn: Lsn
    """How far it was followed; of a server that was just asked, the flushed end of its WAL."""
    recovered_at: str = ""
    """When it last recovered from a crash, as it says itself; empty where that is not known."""

    def has_crashed_since(self, known: Lineage) -> bool:
        """Whether it has recovered from a crash since it was known so."""
        return bool(known.recovered_at) and self.recovered_at != known.recovered_at


def read_lineage(conn: Connection) -> Lineage:
    """Ask a server who it is."""
    identity = read_source_identity(conn)
    return Lineage(
        identity.system_identifier, identity.timeline, read_end_of_wal(conn), identity.recovered_at
    )


def read_end_of_wal(conn: Connection) -> Lsn:
    """Ask how far a server has come: what it has flushed or, on a standby, replayed."""
    with translated("cannot read the end of the WAL"):
        row = conn.execute(_END).fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def check_lineage(known: Lineage, found: Lineage, what: str) -> bool:
    """Refuse another or an older server; `what` was written from the known one. True when a standby has taken
    over since: then its WAL goes its own way from a position that nobody wrote down."""
    if known.system_identifier != found.system_identifier:
        raise SourceReplaced(
            f"{what} was written from another database cluster: the server was replaced", hint=_RESEED
        )
    if known.timeline > found.timeline:
        raise TimelineBehind(
            f"the server is on timeline {found.timeline}, but {what} was written on {known.timeline}: "
            "another server took over from this one",
            hint="connect to the one that took over; to follow this one all the same, fill other indexes: "
            "set another prefix, or another file",
        )
    if known.timeline and known.timeline < found.timeline:
        return True
    if known.lsn > found.lsn:
        raise SourceWentBack(
            f"the WAL ends at {found.lsn}, but {what} was written up to {known.lsn}: the database was "
            "restored or rewound",
            hint=_RESEED,
        )
    return False


def check_unchanged(known: Lineage, found: Lineage, what: str) -> None:
    """Refuse whatever is not the same server on the same timeline, running since or restarted in order."""
    if check_lineage(known, found, what):
        raise TimelineChanged(
            f"a standby has taken over: the server is on timeline {found.timeline}, not {known.timeline}",
            hint="start flusso again: it goes on from the slot and repairs what the standby did not have",
        )
    if found.has_crashed_since(known):
        raise SourceCrashed(
            "the server has recovered from a crash: commits that were not on disk yet may be gone",
            hint="start flusso again: it goes on from the slot and repairs what was read of them",
        )
