"""A look at the publication now and then, while the stream runs.

Since Postgres 18 a publication that is dropped, or a table that is taken out of it, ends no stream: the
changes are simply not sent. So a thread of the driver compares the catalog with what the sinks remember.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

from flusso.capture.coverage import read_marks
from flusso.engine.continuity import Published
from flusso.engine.ledger import Ledger
from flusso.engine.spec import PipelineSpec
from flusso.engine.work import WorkSpec, looking
from flusso.errors import FlussoError, PublicationError, SourceError

EVERY_S = 10.0


@dataclass(slots=True)
class Vigil:
    """Looks until it is ended or has found something; `failure` is what it found."""

    spec: PipelineSpec
    work: WorkSpec
    ledger: Ledger
    ended: threading.Event
    failure: FlussoError | None = field(default=None)

    def start(self) -> None:
        """Begin to look, in a thread that ends with the process."""
        threading.Thread(target=self._run, name="flusso-vigil", daemon=True).start()

    def _run(self) -> None:
        while self.failure is None and not self.ended.wait(EVERY_S):
            # A server that does not answer is the stream's to tell.
            with contextlib.suppress(SourceError):
                self.failure = self.look()

    def look(self) -> PublicationError | None:
        """Say whether something is not published that was, or cannot be followed any more."""
        reads = {index: plan.reads for index, plan in self.work.plans.items()}
        with looking(self.spec.dsn) as conn:
            try:
                marks = read_marks(conn, self.spec.publication, sorted(frozenset().union(*reads.values())))
            except PublicationError as error:
                return error
        published = Published(marks, reads)
        gaps = (published.find_gap(entry.state) for entry in self.ledger.entries)
        return next((gap for gap in gaps if gap is not None), None)
