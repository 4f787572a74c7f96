"""What the driver does with reports: a conflict above the clock of the database, and sinks beside it."""

from __future__ import annotations

import pytest

from flusso.document import Refusal, Write, WriteReport
from flusso.engine.events import Event, Refused
from flusso.engine.outcome import settle_reports
from flusso.engine.quarantine import Quarantine
from flusso.engine.work import Destination, WorkSpec
from flusso.errors import DocumentRefused, SourceWentBack
from flusso.lsn import Lsn, Version
from flusso.ops.logs import describe
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


def test_every_document_that_stops_is_told_once_and_counted_once_and_the_error_names_the_first() -> None:
    def refused(id_: str, sink: str) -> Refusal:
        return Refusal("users", id_, 1, sink, "too large")

    told: list[Event] = []
    refusals = tuple(refused(str(at), sink) for at in range(7) for sink in ("one", "two", "one"))
    report = WriteReport("users", refusals=refusals)
    with pytest.raises(DocumentRefused, match=r"refused 7 .*users/0 .*users/4 .* and 2 more") as raised:
        settle_reports([report], SPEC, Quarantine({}, told.append), lambda: NOW)
    assert "users/5" not in str(raised.value)
    assert [event.id for event in told if isinstance(event, Refused)] == list("0123456")
    assert describe(told[0]) == "refused index=users id=0 sink=one because: too large"
