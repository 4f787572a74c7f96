"""What the processes have to import that only want to know the schema of the source."""

from __future__ import annotations

import subprocess
import sys

SAYS_LOADED = "import sys, flusso.engine.source; print(*sys.modules)"


def test_the_source_is_known_without_what_follows_the_slot() -> None:
    said = subprocess.run([sys.executable, "-c", SAYS_LOADED], capture_output=True, text=True, check=True)
    loaded = set(said.stdout.split())
    assert "flusso.engine.source" in loaded
    assert not loaded & {"psycopg", "pyarrow", "flusso.engine.source_reader", "flusso.capture"}
