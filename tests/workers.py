"""Find the processes that Spark started for a pipeline, and what they need.

Spark ends workers as it likes, so one that goes while it is looked at counts as one that is not there.
"""

from __future__ import annotations

from contextlib import suppress
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
    [found] = [process for process in _children(session) if port in ports_of(process)]
    return found


def python_workers(session: Session) -> list[psutil.Process]:
    """The processes that run tasks, and the one they come from."""
    return [process for process in _children(session) if "flusso.engine.daemon" in _line(process)]


def kill_python_workers(session: Session) -> None:
    """Kill all that run tasks; those that their parent's death takes along are dead as well."""
    workers = python_workers(session)
    assert workers, "no process runs tasks"
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()


def peak_bytes(process: psutil.Process) -> int:
    """The most memory that a process has ever had resident."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def peak_of_python_workers(session: Session) -> int:
    """The most memory that one of the processes which run tasks has ever had resident."""
    peaks = []
    for worker in python_workers(session):
        with suppress(FileNotFoundError, ProcessLookupError):
            peaks.append(peak_bytes(worker))
    return max(peaks)


def _children(session: Session) -> list[psutil.Process]:
    assert session.jvm is not None
    children: list[psutil.Process] = psutil.Process(session.jvm.pid).children(recursive=True)
    return [child for child in children if _is_alive(child)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def ports_of(process: psutil.Process) -> list[int]:
    """The ports of its own that it has connections from."""
    with suppress(psutil.NoSuchProcess):
        return [link.laddr.port for link in process.net_connections("tcp") if link.laddr]
    return []


def _line(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""
