"""The driver's scratch folder: Spark's checkpoint, its log, the packed code. Gone when flusso is.

In memory where there is a memory file system, since a batch writes small files there on its way. A lock
lives in it as long as its process; a folder whose lock is free was left by one that was killed, and goes
when the next one starts.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

_PREFIX = "flusso-scratch-"
_MEMORY = Path("/dev/shm")
_held: dict[Path, IO[bytes]] = {}


def make_scratch() -> Path:
    """Make a new folder, and clear away those of dead processes."""
    is_usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    parent = _MEMORY if is_usable else Path(tempfile.gettempdir())
    for other in parent.glob(f"{_PREFIX}*"):
        _remove_if_dead(other)
    scratch = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    # Locked before it has its name, so that nobody ever finds it free.
    file = (scratch / "lock.new").open("wb")
    fcntl.flock(file, fcntl.LOCK_EX)
    (scratch / "lock.new").rename(scratch / "lock")
    _held[scratch] = file
    return scratch


def remove_scratch(scratch: Path) -> None:
    """Delete the folder with all that is in it."""
    shutil.rmtree(scratch, ignore_errors=True)
    if scratch in _held:
        _held.pop(scratch).close()


def _remove_if_dead(scratch: Path) -> None:
    try:
        with (scratch / "lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError:  # its owner lives, it is someone else's, or it is just being made
        return
