"""What the driver does with reports: a conflict above the clock of the database, and sinks beside it."""

from __future__ import annotations

import pytest

from flusso.document import Write, WriteReport
from flusso.engine.outcome import settle_reports
from flusso.engine.quarantine import Quarantine
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import SourceWentBack
from flusso.lsn import Lsn, Version
from flusso.postgres.connect import Dsn
from flusso.sinks.base import IndexTarget
from flusso.sinks.stdout import StdoutSpec

OUT = Destination(StdoutSpec("out"), IndexTarget("users", "a" * 64, 1))
SPEC = WorkSpec(Dsn("dbname=x"), {}, (), {"users": (OUT,)})
NOW = Version.of(1, Lsn(500))


def test_a_document_newer_than_the_database_itself_means_that_it_went_back_in_time() -> None:
    report = WriteReport("users", version=int(NOW), superseded=1, newest_conflict=int(NOW) + 1)
    with pytest.raises(SourceWentBack, match="restored, replaced or rewound"):
        settle_reports([report], SPEC, Quarantine({}), lambda: NOW)


def test_a_document_newer_than_its_task_and_not_than_the_database_is_superseded() -> None:
    report = WriteReport("users", version=int(NOW) - 9, superseded=1, newest_conflict=int(NOW) - 1)
    assert settle_reports([report], SPEC, Quarantine({}), lambda: NOW).superseded == 1


def test_what_a_sink_beside_the_driver_wrote_and_removed_is_counted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    deferred = (("out", Write("1", int(NOW), b'{"id":1}')), ("out", Write("2", int(NOW), None)))
    totals = settle_reports([WriteReport("users", deferred=deferred)], SPEC, Quarantine({}), lambda: NOW)
    assert (totals.written, totals.removed) == (1, 1)
    assert len(capfd.readouterr().out.splitlines()) == 2
