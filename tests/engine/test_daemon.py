import json
import os
import subprocess
import sys

import pytest

from flusso.engine.daemon import ALSO_PRELOADED
from flusso.sinks.search.connection import SearchSpec
from flusso.sinks.search.elasticsearch import ElasticsearchSpec
from flusso.sinks.search.opensearch import OpenSearchSpec

_PROBE = """
import gc, json, os, sys
from flusso.engine import daemon
daemon.preload()
loaded = set(sys.modules)
from flusso.engine import tasks
list(tasks._reports([None]))
print(json.dumps({
    "threads": len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1,
    "missing": [name for name in (*daemon.PRELOADED, *sys.argv[1:]) if name not in sys.modules],
    "frozen": gc.get_freeze_count(),
    "late": [name for name in ("pandas", "numpy") if name in set(sys.modules) - loaded],
}))
"""


def _preloaded(*modules: str) -> dict[str, object]:
    command, env = [sys.executable, "-c", _PROBE, *modules], {ALSO_PRELOADED: ",".join(modules)}
    done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_daemon_has_no_thread_that_a_fork_would_lose() -> None:
    assert _preloaded()["threads"] == 1


@pytest.mark.parametrize("spec", [OpenSearchSpec, ElasticsearchSpec])
def test_the_daemon_loads_the_client_of_a_sink_without_a_thread(spec: type[SearchSpec]) -> None:
    found = _preloaded(spec.__module__, spec.library)
    assert (found["missing"], found["threads"]) == ([], 1)


def test_the_daemon_loads_what_workers_need_and_freezes_it() -> None:
    found = _preloaded()
    assert found["missing"] == []
    assert int(str(found["frozen"])) > 50_000


def test_a_worker_imports_nothing_large_when_its_task_reports() -> None:
    assert _preloaded()["late"] == []
