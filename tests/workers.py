"""Find the processes that Spark started for a pipeline, and what they need."""

from __future__ import annotations

from pathlib import Path

import psutil

from fix_postgres import Database
from flusso.engine.session import Session

_READER = """
select client_port
from pg_stat_replication
join pg_replication_slots on active_pid = pid
where slot_name = %s
"""


def source_worker(session: Session, database: Database, slot: str) -> psutil.Process:
    """The process that reads this slot: other pipelines of the session have one too."""
    [(port,)] = database.execute(_READER, slot)
    [found] = [
        process
        for process in _children(session)
        if any(link.laddr and link.laddr.port == port for link in process.net_connections("tcp"))
    ]
    return found


def python_workers(session: Session) -> list[psutil.Process]:
    """The processes that run tasks, and the one they come from."""
    return [process for process in _children(session) if "flusso.engine.daemon" in _line(process)]


def peak_bytes(process: psutil.Process) -> int:
    """The most memory that a process has ever had resident."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def _children(session: Session) -> list[psutil.Process]:
    assert session.jvm is not None
    children: list[psutil.Process] = psutil.Process(session.jvm.pid).children(recursive=True)
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


def _line(process: psutil.Process) -> str:
    return " ".join(process.cmdline())
