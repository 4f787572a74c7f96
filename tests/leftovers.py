"""Find what a program has left behind, by the temporary folder that was its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_MEMORY = Path("/dev/shm")


@contextmanager
def own_temporary_folder() -> Iterator[Path]:
    """Make a folder to be used as TMPDIR.

    Not pytest's: Postgres as another user must get into it, and a socket's path may have 107 bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def processes_of(folder: Path) -> list[str]:
    """Name the processes that work in a folder or have it as TMPDIR."""
    found = []
    for process in psutil.process_iter():
        try:
            traces = [*process.cmdline(), process.environ().get("TMPDIR", ""), process.cwd()]
        except psutil.Error:
            continue
        if any(str(folder) in trace for trace in traces):
            found.append(f"{process.pid} {process.name()}")
    return found


def scratch_folders(pid: int) -> list[Path]:
    """Name the scratch folders in memory that a process has made."""
    return list(_MEMORY.glob(f"flusso-scratch-{pid}-*"))
