from __future__ import annotations

import pytest

from fix_postgres import Database
from flusso.capture.prerequisites import inspect_prerequisites
from flusso.demo.server import create_server
from flusso.diagnostic import Code, Severity
from flusso.postgres.connect import Dsn, connect

pytestmark = pytest.mark.postgres


def test_a_server_set_up_for_replication_has_no_findings(database: Database) -> None:
    with database.connect() as conn:
        assert inspect_prerequisites(conn) == []


def test_a_role_that_may_not_replicate_is_an_error_with_its_remedy(database: Database) -> None:
    role = f"guest_{database.name}"
    database.execute(f"create role {role} login")
    try:
        with connect(Dsn(database.dsn.text.replace("user=flusso", f"user={role}"))) as conn:
            (finding,) = inspect_prerequisites(conn)
    finally:
        database.execute(f"drop role {role}")
    assert finding.code is Code.REPLICATION_ROLE
    assert finding.hint == f'alter role "{role}" replication'


def test_a_server_without_logical_wal_and_free_places_is_told_so() -> None:
    server = create_server(18, wal_level="replica", max_replication_slots="0")
    try:
        with connect(Dsn(server.dsn())) as conn:
            found = {finding.code: finding.severity for finding in inspect_prerequisites(conn)}
    finally:
        server.remove()
    assert found == {Code.WAL_LEVEL: Severity.ERROR, Code.NO_FREE_SLOT: Severity.WARNING}
