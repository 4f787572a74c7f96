"""What crosses to an executor: a description of the work, and what the process there keeps open for it.

The spec is small, frozen and picklable; connections are opened where they are used and kept for the next
task of the same process. Whoever meets an error drops them all with `forget`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from flusso.builder.plan import IndexPlan
from flusso.change import WatchedTable
from flusso.postgres.connect import Connection, Dsn, connect
from flusso.sinks.base import IndexTarget, Sink, SinkSpec


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
    chunk: int = 1000
    """Documents in one SELECT."""
    overflow: int = 5000
    """More documents than this from one small batch are spread over all executors."""
    lanes: int = 4
    """Requests to sinks that one task has under way at a time; one where a file has a single writer."""
    refreshes: frozenset[str] = field(default=frozenset())
    """Indexes whose writes must be searchable when the task ends."""


_connections: dict[Dsn, Connection] = {}
_sinks: dict[tuple[int, SinkSpec], Sink] = {}


def connection(dsn: Dsn) -> Connection:
    """Give this process's connection."""
    conn = _connections.get(dsn)
    if conn is None or conn.closed or conn.broken:
        conn = _connections[dsn] = connect(dsn)
    return conn


def sink(spec: SinkSpec) -> Sink:
    """Give this thread's open sink."""
    place = (threading.get_ident(), spec)
    found = _sinks.get(place)
    if found is None:
        found = _sinks[place] = spec.open()
    return found


def forget() -> None:
    """Close all that this process has open, as after a failed task; the next one opens it anew."""
    opened: list[Connection | Sink] = [*_connections.values(), *_sinks.values()]
    _connections.clear()
    _sinks.clear()
    for each in opened:
        with contextlib.suppress(Exception):
            each.close()
