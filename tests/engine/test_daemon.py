import json
import subprocess
import sys

_PROBE = """
import gc, json, os, sys
from flusso.engine import daemon
daemon.preload()
print(json.dumps({
    "threads": len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1,
    "missing": [name for name in daemon.PRELOADED if name not in sys.modules],
    "frozen": gc.get_freeze_count(),
}))
"""


def _preloaded() -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_daemon_has_no_thread_that_a_fork_would_lose() -> None:
    assert _preloaded()["threads"] == 1


def test_the_daemon_loads_what_workers_need_and_freezes_it() -> None:
    found = _preloaded()
    assert found["missing"] == []
    assert int(str(found["frozen"])) > 50_000
