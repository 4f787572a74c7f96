from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flusso.engine.scratch import make_scratch, remove_scratch


def test_a_scratch_folder_of_a_killed_process_goes_when_the_next_one_starts() -> None:
    code = (
        "import os; from flusso.engine import scratch; print(scratch.make_scratch(), flush=True); os.abort()"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    left = Path(killed.stdout.strip())
    assert left.is_dir()
    remove_scratch(make_scratch())
    assert not left.exists()


def test_a_scratch_folder_of_a_living_process_stays() -> None:
    first = make_scratch()
    remove_scratch(make_scratch())
    assert first.is_dir()
    remove_scratch(first)
    assert not first.exists()
