"""What `status` says when a sink does not tell: all that is known beside it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from commands import Deployment
from fix_postgres import Database
from flusso.errors import SinkError
from market import create_market

pytestmark = pytest.mark.postgres


def test_with_a_sink_that_is_away_the_slot_and_the_indexes_are_shown(
    database18: Database, tmp_path: Path
) -> None:
    """Under the default identity, where the sinks are asked which relations references keep exact."""
    create_market(database18, users=1)
    database18.execute("alter table orders replica identity default")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        sink = f'[sinks.search]\ntype = "opensearch"\nurl = "{address}"\nmax_retries = 0\n'
        status = Deployment(tmp_path, database18, sink=sink).call("status", "--format", "json")
    assert status.returncode == SinkError.exit_code
    told = json.loads(status.stdout)
    assert told["slot"]["exists"] is False
    assert [facts["state"] for facts in told["indexes"]] == ["unavailable"]
    assert 'sink "search" is not reachable' in told["blind_error"]


def test_a_damaged_file_hides_no_other_sink(database18: Database, tmp_path: Path) -> None:
    create_market(database18, users=1)
    (tmp_path / "damaged.db").write_text("no database at all " * 100)
    sinks = "".join(f'[sinks.{name}]\ntype = "sqlite"\npath = "{name}.db"\n' for name in ("damaged", "sound"))
    status = Deployment(tmp_path, database18, sink=sinks).call("status", "--format", "json")
    assert status.returncode == SinkError.exit_code
    damaged, sound = json.loads(status.stdout)["indexes"]
    assert (damaged["state"], sound["state"]) == ("unavailable", "new")
    assert "is not a sound SQLite database" in damaged["error"]
