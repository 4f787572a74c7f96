"""flusso broken on purpose, to see that the oracle notices: each mutant takes away one thing it relies on.

They live here alone: a test patches its own process, or runs `python -m oracle.mutants NAME …`, which patches
and then is the `flusso` command.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from flusso.capture.buffer import EncodedPiece
from flusso.capture.slot import find_slot
from flusso.capture.snapshot import Snapshot
from flusso.capture.stream import CaptureStream
from flusso.capture.transactions import Position
from flusso.change import Change, WatchedTable
from flusso.debt import Owed
from flusso.document import DocumentId
from flusso.engine import tasks, work
from flusso.engine.batch import BatchRunner
from flusso.engine.outcome import Totals
from flusso.engine.source import CHANGES_TYPE
from flusso.lsn import Lsn, Version
from flusso.postgres.connect import Connection, connect
from flusso.sinks.sqlite import SqliteSink
from waiting import wait_until

Patch = Callable[[object, str, object], None]
"""Sets an attribute, as pytest's `monkeypatch.setattr` does."""
_LATER_S = 20.0


def drop_old_links(patch: Patch) -> None:
    """Show resolve no link of an old row, only its key: a row that left its parent leaves no trace."""
    real = tasks.resolve

    def resolve(
        conn: Any, plans: Any, changes: Iterable[Change], watched: Sequence[WatchedTable], **more: Any
    ) -> Iterator[DocumentId | Owed]:
        lengths = {table.name: len(table.columns) - len(_links(table)) for table in watched}
        return real(conn, plans, [_without(change, lengths) for change in changes], watched, **more)

    patch(tasks, "resolve", resolve)


def _links(table: WatchedTable) -> list[str]:
    return [name for name in table.columns if name in table.links]


def _without(change: Change, kept: dict[Any, int]) -> Change:
    if change.old is None or change.table not in kept:
        return change
    if change.new is not None:
        return replace(change, old=None)
    count = kept[change.table]
    return replace(change, old=tuple(value if n < count else None for n, value in enumerate(change.old)))


def lose_references(patch: Patch) -> None:
    """Look nothing up: what a blind change leaves is not rebuilt."""
    patch(tasks, "find_referring", lambda spec, changes: iter(()))


def forget_to_remember(patch: Patch) -> None:
    """Keep no tokens while an index is filled: what a range read before its row went stays as it was."""
    patch(SqliteSink, "remember_tokens", lambda sink, target, tokens: None)


def ignore_versions(patch: Patch) -> None:
    """Give every attempt the same version: whoever writes last wins, however old what it saw."""
    patch(work, "emit_version", lambda conn: Version.of(1, Lsn(1)))


def skip_fence(patch: Patch) -> None:
    """Take every commit for visible as soon as it arrives."""
    patch(Snapshot, "sees", lambda snapshot, xid32: True)


def confirm_early(patch: Patch) -> None:
    """Confirm what is handed on before anything of it is written."""
    real = CaptureStream.pieces

    def pieces(stream: CaptureStream, after: Position, to: Position) -> list[EncodedPiece]:
        found = real(stream, after, to)
        stream.confirm(to)
        with connect(stream._spec.dsn) as conn:
            wait_until(lambda: _confirmed(conn, stream) >= to.lsn, what="the slot to move")
        return found

    patch(CaptureStream, "pieces", pieces)


def _confirmed(conn: Connection, stream: CaptureStream) -> Lsn:
    return find_slot(conn, stream._spec.slot).confirmed_flush_lsn or Lsn(0)


def confirm_batches_early(patch: Patch) -> None:
    """Let Spark's batches be recorded and confirmed at once, and write them a while later."""
    real = BatchRunner._write

    def write(runner: BatchRunner, frame: Any, changes: int, end: Any) -> Totals:
        later = frame.sparkSession.createDataFrame(frame.collect(), CHANGES_TYPE)
        timer = threading.Timer(_LATER_S, real, (runner, later, changes, end))
        timer.daemon = True
        timer.start()
        return Totals()

    patch(BatchRunner, "_write", write)


MUTANTS: dict[str, Callable[[Patch], None]] = {
    mutant.__name__: mutant
    for mutant in (
        drop_old_links,
        lose_references,
        forget_to_remember,
        ignore_versions,
        skip_fence,
        confirm_early,
        confirm_batches_early,
    )
}


def main() -> None:
    """Break flusso as the first argument says, and run its command with the rest."""
    from flusso.cli.main import main as run

    MUTANTS[sys.argv.pop(1)](setattr)
    run()


if __name__ == "__main__":
    main()
