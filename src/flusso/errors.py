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
    │   ├── SourceRefused         3  a prerequisite or a privilege is missing
    │   ├── SourceWentBack        3  the database is older than what was written from it
    │   ├── DecodeError           3  bytes that are not a replication message
    │   ├── PublicationError      3  the publication does not cover what is watched
    │   ├── BuildError            3  a SELECT failed
    │   └── SlotError             3  the replication slot cannot be used
    │       ├── SlotBusy          3  another process reads it                             retryable
    │       ├── SlotLost          3  it is gone or invalidated: the position is lost
    │       └── SlotAdvanced      3  someone moved it past what was written
    ├── SinkError                 4  the search server or the embedded store
    │   ├── SinkUnavailable       4  not reachable, overloaded, timed out                 retryable
    │   └── SinkRefused           4  it answers, and says no
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


class SourceRefused(SourceError):
    """A prerequisite or a privilege is missing."""


class SourceWentBack(SourceError):
    """The database is older than what was already written from it."""


class DecodeError(SourceError):
    """Bytes that are not a replication message."""


class PublicationError(SourceError):
    """The publication does not cover what is watched."""


class BuildError(SourceError):
    """A SELECT that builds or resolves documents failed."""


class SlotError(SourceError):
    """The replication slot cannot be used."""


class SlotBusy(SlotError):
    """Another process reads the slot."""

    retryable = True


class SlotLost(SlotError):
    """The slot is gone or invalidated, and the position with it."""


class SlotAdvanced(SlotError):
    """Someone moved the slot past what was written."""


class SinkError(FlussoError):
    """A sink cannot do what is asked of it."""

    exit_code = 4


class SinkUnavailable(SinkError):
    """The sink is not reachable, overloaded or too slow."""

    retryable = True


class SinkRefused(SinkError):
    """The sink answers, and says no."""


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
