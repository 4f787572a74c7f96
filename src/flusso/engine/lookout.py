"""A look at the publication, the catalog, the sinks' requests and what they hold, while the stream runs.

Since Postgres 18 a publication that is dropped, or a table that is taken out of it, ends no stream: the
changes are simply not sent. And some DDL sends nothing over the WAL at all. So a thread of the driver
compares the catalog with what the sinks remember. A generation that someone has deleted is missed by the
next write, which may be long in coming; readers miss it at once. So do they when someone removes or moves
their alias: the new look leads them to what serves, as every start does.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

from flusso.capture.coverage import read_marks
from flusso.engine import work
from flusso.engine.catalogs import find_outdated
from flusso.engine.continuity import Published, is_another
from flusso.engine.provision import Prepared
from flusso.engine.retry import as_failure
from flusso.engine.roster import load_states
from flusso.engine.spec import PipelineSpec
from flusso.engine.tenure import Tenure
from flusso.errors import (
    FlussoError,
    GenerationGone,
    IndexRequested,
    PublicationError,
    SinkError,
    SourceError,
)
from flusso.postgres.connect import Connection
from flusso.sinks.base import IndexTarget

_LOOK_END_S = 1.0


@dataclass(slots=True)
class Lookout:
    """Looks until it is closed; `failure` is what it found."""

    spec: PipelineSpec
    prepared: Prepared
    tenure: Tenure
    failure: FlussoError | None = None
    _is_closed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look, once; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="flusso-lookout", daemon=True)
            self._thread.start()

    def expect(self, prepared: Prepared) -> None:
        """Take the tables as they were just looked at for right."""
        self.prepared = prepared
        self.failure = None

    def close(self) -> None:
        """Look no more, and wait a moment for the look in hand."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join(_LOOK_END_S)

    def look(self) -> SourceError | None:
        """Look now; gives nothing when the server does not answer: the stream notices that."""
        try:
            with work.looking(self.spec.dsn) as conn:
                return self._find_gap(conn) or find_outdated(conn, self.prepared.ledger, self.prepared.reads)
        except SourceError:
            return None

    def _run(self) -> None:
        try:
            while not self._is_closed.wait(self.spec.look_s):
                known = self.failure or self.tenure.failure
                self.failure = known or self.look() or self._find_request() or self._find_gone()
        except Exception as error:
            self.failure = as_failure(error, "a look at tables and sinks")

    def _find_request(self) -> IndexRequested | None:
        """Say whether a command has asked for something; nothing when a sink does not answer.

        A new look needs all of them: it would wait, and those that are there would get nothing meanwhile.
        """
        with contextlib.suppress(SinkError):
            states = load_states(self.spec.indexes)
            for index in self.spec.indexes:
                for sink in index.sinks:
                    request = states[sink.name].asked.get(index.name)
                    if request is not None:
                        return IndexRequested(f'{request} of index "{index.name}" was asked for')
        return None

    def _find_gone(self) -> GenerationGone | None:
        """Say whether someone deleted or put back a generation, or took its readers away; nothing when a sink
        does not answer."""
        ledger = self.prepared.ledger
        with contextlib.suppress(SinkError):
            for entry in list(ledger.entries):
                sink, target = entry.destination.sink, entry.destination.target
                if not sink.capabilities.keeps_state:
                    continue
                uuids = work.sink(sink).uuids(target)
                if uuids is None and entry in ledger.entries:  # else it was dropped in order
                    return GenerationGone(f'{_name(target)} is no longer in sink "{sink.name}"')
                if uuids is not None and is_another(entry.state, uuids):
                    return GenerationGone(f'{_name(target)} was put back or made anew in sink "{sink.name}"')
            for sink, target in ledger.shown():
                if sink.capabilities.keeps_state and ledger.lacks_readers(sink, target):
                    return GenerationGone(f'readers no longer see {_name(target)} in sink "{sink.name}"')
        return None

    def _find_gap(self, conn: Connection) -> PublicationError | None:
        """Say whether something is not published that was, or cannot be followed any more."""
        reads = {index: plan.reads for index, plan in self.prepared.work.plans.items()}
        try:
            marks = read_marks(conn, self.spec.publication, sorted(frozenset().union(*reads.values())))
        except PublicationError as error:
            return error
        published = Published(marks, reads)
        gaps = (published.find_gap(entry.state) for entry in self.prepared.ledger.entries)
        return next((gap for gap in gaps if gap is not None), None)


def _name(target: IndexTarget) -> str:
    return f'generation {target.generation} of index "{target.index}"'
