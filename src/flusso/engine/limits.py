"""How many tasks run at a time, so that all connections together stay within `source.max_connections`. Pure.

Every task holds a connection while it runs (two where documents are read from a replica), and a Python worker
keeps its own for the next task. Spark has up to two workers for each slot, one that hands changes in and one
that works on them, and they change places: so connections are kept only where that many are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

DRIVER_CONNECTIONS = 5
"""What the driver and the source worker hold: versions and a look (`work.looking`); replication, the fence,
and a look at relations that are new."""
FEWEST_TASKS = 2
"""One of the stream and one of a seed."""
_WORKERS_OF_A_SLOT = 2


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Tasks at a time."""

    live: int
    """Of one stage of a batch."""
    seed: int
    keeps_connections: bool


def most_tasks(max_connections: int, *, has_replica: bool) -> int:
    """Say how many tasks may run at a time."""
    return max(FEWEST_TASKS, (max_connections - DRIVER_CONNECTIONS) // connections_of_a_task(has_replica))


def fewest_connections(*, has_replica: bool) -> int:
    """Say below how many connections nothing runs."""
    return DRIVER_CONNECTIONS + FEWEST_TASKS * connections_of_a_task(has_replica)


def connections_of_a_task(has_replica: bool) -> int:
    """Count the connections that a task holds."""
    return 2 if has_replica else 1


def limit_tasks(slots: int, max_tasks: int) -> TaskLimits:
    """Share the tasks between the stream and a seed; with few enough slots Spark itself is the limit."""
    keeps = slots * _WORKERS_OF_A_SLOT <= max_tasks
    if slots <= max_tasks:
        return TaskLimits(min(slots * 2, max_tasks), max(1, slots - 1), keeps)
    seed = max_tasks // 2
    return TaskLimits(max_tasks - seed, seed, keeps)
