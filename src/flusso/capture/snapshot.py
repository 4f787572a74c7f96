"""What a snapshot sees: which transactions are visible, and when all earlier ones have ended.

`Snapshot` is pure; the visibility fence of the stream asks it. `await_settled` is called between the
birth of the slot and the first seed read: a commit that lies before the slot's consistent point but
waits for a synchronous standby is neither decoded nor yet visible, so a seed that started at once
would lose it for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from flusso.errors import DecodeError, SourceUnavailable
from flusso.postgres.connect import Connection, translated

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25

_BLOCKERS = """
select pid, null as gid, backend_xid::text
from pg_stat_activity
where backend_xid is not null
union all
select null, gid, transaction::text
from pg_prepared_xacts
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`pg_snapshot`: below `xmin` all have ended, from `xmax` on none has begun, `xip` are running."""

    xmin: int
    xmax: int
    xip: frozenset[int]

    def sees(self, xid32: int) -> bool:
        """Say whether a transaction that has committed, named by its 32-bit xid, is visible."""
        xid = self.widen(xid32)
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)

    def widen(self, xid32: int) -> int:
        """Find the 64-bit xid that lies nearest to this snapshot."""
        distance = (xid32 - self.xmax) & 0xFFFFFFFF
        return self.xmax + (distance - (1 << 32) if distance >> 31 else distance)


@dataclass(frozen=True, slots=True)
class Blocker:
    """A transaction that is still open: of a backend, or prepared and waiting for its second phase."""

    pid: int | None = None
    gid: str | None = None

    def __str__(self) -> str:
        return f"pid {self.pid}" if self.gid is None else f'prepared transaction "{self.gid}"'


def parse_snapshot(text: str) -> Snapshot:
    """Read `xmin:xmax:xip,xip,…` as Postgres prints it."""
    parts = text.split(":")
    try:
        xmin, xmax, running = parts
        return Snapshot(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))
    except ValueError:
        raise DecodeError("the server's snapshot is not of the form xmin:xmax:xip") from None


def read_snapshot(conn: Connection) -> Snapshot:
    """Take a new snapshot."""
    with translated("cannot read the current snapshot"):
        row = conn.execute("select pg_current_snapshot()::text").fetchone()
    assert row is not None
    return parse_snapshot(row[0])


_never = threading.Event()


def await_settled(
    conn: Connection,
    timeout_s: float | None = None,
    on_wait: Callable[[tuple[Blocker, ...]], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Wait until every transaction that is open now has ended. The connection is in autocommit.

    `on_wait` is told who is in the way, once and again whenever that changes. Setting `stop` ends the
    wait early: whoever set it must not read on.
    """
    with translated("cannot take a transaction id"):
        row = conn.execute("select pg_current_xact_id()::text").fetchone()
    assert row is not None
    horizon = int(row[0])
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s, reported = _FIRST_PAUSE_S, None
    while (snapshot := read_snapshot(conn)).xmin < horizon:
        blockers = _find_blockers(conn, snapshot, horizon)
        if on_wait is not None and blockers != reported:
            on_wait(blockers)
            reported = blockers
        if deadline is not None and time.monotonic() >= deadline:
            raise SourceUnavailable(
                f"transactions older than the slot are still open: {_name(blockers)}",
                hint="end them, or wait longer",
            )
        if (stop or _never).wait(pause_s):
            return
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def find_holder(conn: Connection, xid32: int) -> Blocker | None:
    """Say whose a transaction is that has not ended for others; None when this role may not see it."""
    with translated("cannot look for open transactions"):
        rows = conn.execute(_BLOCKERS).fetchall()
    return next((Blocker(pid, gid) for pid, gid, xid in rows if int(xid) == xid32), None)


def _find_blockers(conn: Connection, snapshot: Snapshot, horizon: int) -> tuple[Blocker, ...]:
    with translated("cannot look for open transactions"):
        rows = conn.execute(_BLOCKERS).fetchall()
    return tuple(
        sorted(
            (Blocker(pid, gid) for pid, gid, xid in rows if snapshot.widen(int(xid)) < horizon),
            key=str,
        )
    )


def _name(blockers: tuple[Blocker, ...]) -> str:
    """Backends of other users hide their transaction from a role without pg_monitor."""
    return ", ".join(map(str, blockers)) or "not visible to this role"
