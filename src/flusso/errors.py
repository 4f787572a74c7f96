"""The one tree of errors, and how an error crosses a process border.

Every stage raises these and nothing else; foreign exceptions are translated where the library is
called, with the cause chained. Each error answers three questions: what happened (its text), what to
do (`hint`), and whether trying again may help (`retryable`). Only `engine/policy.py` acts on that.

    FlussoError
    ├── ConfigError               2  flusso.toml, a flag or the environment is wrong
    │   ├── SchemaError           2  a *.schema.yml is wrong, or does not fit the database
    │   └── LockError             2  a lock is missing, was tampered with, or is of another version
    ├── SourceError               3  Postgres
    │   ├── SourceUnavailable     3  not reachable, or the connection was lost            retryable
    │   │   └── ReplicaBehind     3  the replica lacks what is to be read from it         retryable
    │   ├── SourceRefused         3  a prerequisite or a privilege is missing
    │   │   └── SourceUntrusted   3  TLS: one side does not trust, or does not take, the other's
    │   ├── SourceReplaced        3  it is another database cluster than the one written from
    │   ├── SourceWentBack        3  the database is older than what was written from it
    │   │   └── TimelineBehind    3  it is on an older timeline: a server that another took over from
    │   ├── TimelineChanged       3  a standby has taken over: begin again, and repair
    │   ├── SourceCrashed         3  it has recovered from a crash: begin again, and repair
    │   ├── DecodeError           3  bytes that are not a replication message
    │   ├── TableLocked           3  a lock on a table was not to be had in time          retryable
    │   ├── PublicationError      3  the publication does not cover what is watched
    │   │   └── CoverageGap       3  for a while it did not, and changes were not sent
    │   │       └── PublicationYounger  3  it came after the slot, which cannot go on from there
    │   ├── CatalogOutdated       3  tables are no longer as they were: look again
    │   ├── CatalogChanged        3  tables changed so that only a new generation fits
    │   ├── BuildError            3  a SELECT failed
    │   │   ├── RowUnfit          3  for a value of some row that does not fit
    │   │   └── TableRewritten    3  a table has another file than the one that was being read
    │   ├── SnapshotLost          3  the process that held a snapshot let go of it        retryable
    │   └── SlotError             3  the replication slot cannot be used
    │       ├── SlotBusy          3  another process reads it                             retryable
    │       ├── SlotUnfit         3  it is of a kind that cannot be followed
    │       │   ├── SlotPhysical  3  it is a physical slot
    │       │   ├── SlotPlugin    3  it decodes with another plugin
    │       │   ├── SlotDatabase  3  it belongs to another database
    │       │   └── SlotTemporary 3  it ends with the session that made it
    │       ├── SlotLost          3  the position is lost, and the changes since
    │       │   ├── SlotMissing   3  the slot is gone
    │       │   └── SlotInvalidated 3  the server gave it up
    │       ├── SlotAdvanced      3  someone moved it past what was written
    │       └── SlotExists        3  it is there already, where a new one has to be made
    ├── SinkError                 4  the search server or the embedded store
    │   ├── SinkUnavailable       4  not reachable, overloaded, timed out                 retryable
    │   ├── SinkRefused           4  it answers, and says no
    │   │   ├── GenerationGone    4  what was written to is there no more
    │   │   ├── OutputClosed      4  whoever read standard output has had enough
    │   │   └── IndexTaken        4  another flusso writes the index
    │   ├── IndexLeftBehind       4  it was put back to an older state, or left out, while others went on
    │   ├── IndexUnready          4  it has no whole index to compare or to search
    │   ├── WriteExpired          4  documents were built too long ago to be written now   retryable
    │   └── IndexRequested        4  a command asks something of a running pipeline: begin again
    ├── DocumentMissing           1  there is no document of that id
    ├── DocumentRefused           5  a document was refused and the policy is to stop
    └── EngineError               6  Spark or its JVM
        ├── TaskLost              6  a task died with its process                         retryable
        └── SourceWorkerLost      6  the process that reads the WAL died                  retryable

The number is the exit code of the command line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Self

from flusso.diagnostic import Diagnostic


class FlussoError(Exception):
    """Anything flusso reports on purpose."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self).__name__, self.message, self.hint))


class ConfigError(FlussoError):
    """flusso.toml, a flag or the environment is wrong."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, problems: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)

    @classmethod
    def of(cls, problems: Sequence[Diagnostic]) -> Self:
        """Report all problems in one error, a line each. Across a process border only the text goes."""
        return cls("\n".join(str(problem) for problem in problems), problems=problems)


class SchemaError(ConfigError):
    """A schema file is wrong, or does not fit the database."""


class LockError(ConfigError):
    """A lock is missing, was tampered with, or is of another version."""


class SourceError(FlussoError):
    """Postgres cannot give what is asked of it."""

    exit_code = 3


class SourceUnavailable(SourceError):
    """Postgres is not reachable, or the connection was lost."""

    retryable = True


class ReplicaBehind(SourceUnavailable):
    """The replica that documents are read from has not replayed yet what is to be read."""


class SourceRefused(SourceError):
    """A prerequisite or a privilege is missing."""


class SourceUntrusted(SourceRefused):
    """TLS cannot be agreed on: a certificate is missing, wrong or not trusted by the other side."""


class SourceReplaced(SourceError):
    """Another database cluster than the one that indexes were written from."""


class SourceWentBack(SourceError):
    """The database is older than what was already written from it."""


class TimelineBehind(SourceWentBack):
    """The server is on an older timeline: another one took over from it, or it was restored from before."""


class TimelineChanged(SourceError):
    """A standby has taken over since the pipeline started."""


class SourceCrashed(SourceError):
    """The server has recovered from a crash since the pipeline started."""


class DecodeError(SourceError):
    """Bytes that are not a replication message."""


class PublicationError(SourceError):
    """The publication does not cover what is watched."""


class CoverageGap(PublicationError):
    """For a while the publication did not cover what is watched, and changes were not sent."""


class PublicationYounger(CoverageGap):
    """The publication is younger than the slot: made after it, or dropped and made again."""


class TableLocked(SourceError):
    """A lock on a table was not to be had in time."""

    retryable = True


class CatalogOutdated(SourceError):
    """Tables are no longer as they were when they were last looked at: a new look tells what follows."""


class CatalogChanged(SourceError):
    """Tables changed in a way that what was written from them cannot follow."""


class BuildError(SourceError):
    """A SELECT that builds or resolves documents failed."""


class RowUnfit(BuildError):
    """A SELECT failed for a value of some row: without that row it would not."""


class TableRewritten(BuildError):
    """VACUUM FULL, CLUSTER or an ALTER moved the rows of a table while it was read block by block."""


class SnapshotLost(SourceError):
    """The process that held a snapshot has let go of it: it can only be taken anew."""

    retryable = True


class SlotError(SourceError):
    """The replication slot cannot be used."""


class SlotBusy(SlotError):
    """Another process reads the slot."""

    retryable = True


class SlotUnfit(SlotError):
    """The slot is of a kind that cannot be followed."""


class SlotPhysical(SlotUnfit):
    """The slot is physical."""


class SlotPlugin(SlotUnfit):
    """The slot decodes with another plugin."""


class SlotDatabase(SlotUnfit):
    """The slot belongs to another database."""


class SlotTemporary(SlotUnfit):
    """The slot ends with the session that made it."""


class SlotLost(SlotError):
    """The position is lost, and the changes since with it."""


class SlotMissing(SlotLost):
    """The slot is gone."""


class SlotInvalidated(SlotLost):
    """The server gave the slot up."""


class SlotAdvanced(SlotError):
    """Someone moved the slot past what was written."""


class SlotExists(SlotError):
    """The slot is there already, where a new one has to be made."""


class SinkError(FlussoError):
    """A sink cannot do what is asked of it."""

    exit_code = 4


class SinkUnavailable(SinkError):
    """The sink is not reachable, overloaded or too slow."""

    retryable = True


class SinkRefused(SinkError):
    """The sink answers, and says no."""


class IndexUnready(SinkError):
    """A sink has no whole index: there is nothing to compare or to search."""


class IndexLeftBehind(SinkError):
    """What a sink holds of an index was put back to an older state, or left out, while others went on."""


class OutputClosed(SinkRefused):
    """Whoever read standard output has closed it."""


class GenerationGone(SinkRefused):
    """The generation that was written to is there no more, or no longer this process's to write, or readers
    were taken away from it."""


class IndexTaken(SinkRefused):
    """Another process writes the index: this one must not."""


class WriteExpired(SinkError):
    """Documents were built too long ago to be written now; built anew they are taken."""

    retryable = True


class IndexRequested(SinkError):
    """A command asks for a new generation, or for the one before: a new look does it."""


class DocumentMissing(FlussoError):
    """There is no document of that id."""


class DocumentRefused(FlussoError):
    """A document was refused and the policy is to stop."""

    exit_code = 5


class EngineError(FlussoError):
    """Spark or its JVM failed."""

    exit_code = 6


class TaskLost(EngineError):
    """A task died with its process."""

    retryable = True


class SourceWorkerLost(EngineError):
    """The process that reads the WAL died."""

    retryable = True


_MARK = "flusso-error "


def to_line(error: FlussoError) -> str:
    """Write an error as one line of text that `from_text` finds again in any traceback."""
    fields = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
    return _MARK + json.dumps(fields, ensure_ascii=True)


def from_text(text: str) -> FlussoError | None:
    """Find the first error line in a foreign traceback, or None."""
    start = text.find(_MARK + "{")
    if start < 0:
        return None
    try:
        fields, _ = json.JSONDecoder().raw_decode(text, start + len(_MARK))
    except json.JSONDecodeError:
        return None
    return _rebuild(fields.get("kind", ""), fields.get("message", ""), fields.get("hint"))


def _rebuild(kind: str, message: str, hint: str | None) -> FlussoError:
    found = globals().get(kind)
    if isinstance(found, type) and issubclass(found, FlussoError):
        return found(message, hint=hint)
    return FlussoError(message, hint=hint)
