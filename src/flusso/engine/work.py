"""What crosses to an executor: a description of the work, and what the process there keeps open for it.

The spec is small, frozen and picklable; connections are opened where they are used and kept for the next
task of the same process. Whoever meets an error drops them all with `forget`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from flusso.builder.plan import IndexPlan
from flusso.change import WatchedTable
from flusso.lsn import Version
from flusso.postgres.connect import Connection, Dsn, connect, is_dead
from flusso.postgres.replica import await_replayed
from flusso.postgres.version import emit_version
from flusso.sinks.base import IndexTarget, Sink, SinkSpec

_REPLAY_S = 2.0
"""How long a task waits for a replica before it says so."""
_SAFE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Destination:
    """One generation of an index in one sink."""

    sink: SinkSpec
    target: IndexTarget


@dataclass(frozen=True, slots=True)
class WorkSpec:
    """All that a task needs to resolve, build and write."""

    dsn: Dsn
    plans: Mapping[str, IndexPlan]
    watched: tuple[WatchedTable, ...]
    destinations: Mapping[str, tuple[Destination, ...]]
    read_dsn: Dsn | None = None
    """The replica that documents are read from; the source itself if absent."""
    keeps_connections: bool = True
    """Whether a process keeps its connections for the next task: not where there are more processes than
    connections."""
    chunk: int = 1000
    """Documents in one SELECT."""
    overflow: int = 5000
    """More documents than this from one small batch are spread over all executors."""
    max_fan_out: int = 50_000
    """More documents than this from few rows are owed."""
    lanes: int = 3
    """Requests to sinks that one task has under way at a time, one less beside a refresh; one where a file
    has a single writer. With more of them what the stream writes beside a seed waits for longer, and the seed
    is hardly faster."""
    refreshes: frozenset[Destination] = field(default=frozenset())
    """Where writes must be searchable when the task ends."""
    quarantines: frozenset[tuple[str, str]] = field(default=frozenset())
    """Sinks and indexes with refused documents: what is written there may be one that is good now."""
    remembers: frozenset[Destination] = field(default=frozenset())
    """Where tokens of blind changes are remembered, to be looked up once more."""


_connections: dict[Dsn, Connection] = {}
_sinks: dict[tuple[int, SinkSpec, int], Sink] = {}
"""By thread, and by the start that they were opened for: zero outside of tasks, where `forget` ends one."""
_lookers: dict[Dsn, Connection] = {}
_looking = threading.Lock()


def connection(dsn: Dsn) -> Connection:
    """Give this process's connection; one that the server has closed meanwhile is replaced."""
    conn = _connections.get(dsn)
    if conn is None or is_dead(conn):
        conn = _connections[dsn] = connect(dsn)
    return conn


def reader(spec: WorkSpec) -> tuple[Connection, Version]:
    """Emit a version on the primary and give the connection to read by: its next snapshot sees all before it.

    Waits for a replica to replay that far; `ReplicaBehind` when it takes too long, for the driver to tell.
    """
    primary = connection(spec.dsn)
    version = emit_version(primary)
    if spec.read_dsn is None:
        return primary, version
    replica = connection(spec.read_dsn)
    await_replayed(replica, version, timeout_s=_REPLAY_S)
    return replica, version


@contextmanager
def looking(dsn: Dsn) -> Iterator[Connection]:
    """Give the driver's connection for looks: to one thread at a time, so that all of them count as one."""
    with _looking:
        conn = _lookers.get(dsn)
        if conn is None or is_dead(conn):
            conn = _lookers[dsn] = connect(dsn)
        yield conn


def release(spec: WorkSpec) -> None:
    """Close this process's connections at the end of a task, unless it may keep them."""
    if not spec.keeps_connections:
        while _connections:
            with contextlib.suppress(Exception):
                _connections.popitem()[1].close()


def sink(spec: SinkSpec) -> Sink:
    """Give this thread's open sink."""
    return _sink(spec, 0)


def sink_of(destination: Destination) -> Sink:
    """Give this thread's open sink for a task of the start that the destination belongs to.

    A worker outlives starts. What it opened for an earlier one is closed: it may be a file that has another
    in its place by now.
    """
    return _sink(destination.sink, destination.target.term)


def _sink(spec: SinkSpec, term: int) -> Sink:
    thread = threading.get_ident()
    found = _sinks.get((thread, spec, term))
    if found is None:
        for place in [each for each in list(_sinks) if each[:2] == (thread, spec) and 0 < each[2] < term]:
            _sinks.pop(place).close()
        found = _sinks[thread, spec, term] = spec.open()
    return found


def deadline(spec: SinkSpec, began_s: float) -> float | None:
    """Say until when something of a version from then may be written: long before the sink forgets a removal
    that it might undo."""
    forgets_s = spec.capabilities.forgets_removals_s
    return None if forgets_s is None else began_s + forgets_s * _SAFE_SHARE


def forget() -> None:
    """Close all that this process has open, as after a failed task; the next one opens it anew."""
    opened: list[Connection | Sink] = [*_connections.values(), *_lookers.values(), *_sinks.values()]
    for kept in (_connections, _lookers, _sinks):
        kept.clear()
    for each in opened:
        with contextlib.suppress(Exception):
            each.close()
