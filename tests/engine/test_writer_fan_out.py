"""Several sinks at once: one that fails keeps nothing from the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faulty import FaultySpec
from flusso.builder.read import Built
from flusso.catalog import TableName
from flusso.document import Write, WriteResult
from flusso.engine import work
from flusso.engine.work import Destination, WorkSpec
from flusso.engine.writer import Writer
from flusso.errors import SinkRefused, SinkUnavailable
from flusso.lsn import Version
from flusso.postgres.connect import Dsn
from flusso.schema.model import IndexSchema, Scalar, ScalarKind
from flusso.sinks.base import IndexTarget
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.sqlite.sink import SqliteSink
from waiting import wait_until

TARGET = IndexTarget("books", "a" * 64, 1, ("title",))
SCHEMA = IndexSchema(TableName("public", "books"), (Scalar("title", ScalarKind.TEXT, "title"),))
BOOK = Built("1", b'{"title":"Momo"}')


def _writer(destinations: tuple[Destination, ...]) -> Writer:
    return Writer(WorkSpec(Dsn("host=nowhere"), {}, (), {"books": destinations}), Version(7))


@dataclass(frozen=True, slots=True)
class Two:
    """Two sinks, of which the first can be closed."""

    folder: Path

    @property
    def first(self) -> FaultySpec:
        return FaultySpec(SqliteSpec("first", self.folder / "first.db"), str(self.folder))

    @property
    def second(self) -> SqliteSpec:
        return SqliteSpec("second", self.folder / "second.db")

    def writer(self) -> Writer:
        destinations = tuple(Destination(sink, TARGET) for sink in (self.first, self.second))
        return _writer(destinations)

    def alone(self) -> Writer:
        """Write to the second sink only."""
        return _writer((Destination(self.second, TARGET),))

    def held(self, sink: FaultySpec | SqliteSpec) -> int:
        opened = sink.open()
        try:
            return opened.count(TARGET)
        finally:
            opened.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    for spec in (made.first, made.second):
        sink = spec.open()
        sink.ensure(TARGET, SCHEMA)
        sink.close()
    yield made
    work.forget()


def test_a_sink_that_is_down_keeps_nothing_from_the_others(two: Two) -> None:
    (two.folder / "closed").touch()
    writer = two.writer()
    writer.put("books", [BOOK])
    with pytest.raises(SinkUnavailable, match="closed for the test"):
        writer.finish()
    assert (two.held(two.first), two.held(two.second)) == (0, 1)


def test_what_is_written_again_after_the_outage_is_in_all_of_them_once(two: Two) -> None:
    (two.folder / "closed").touch()
    writer = two.writer()
    writer.put("books", [BOOK])
    with pytest.raises(SinkUnavailable):
        writer.finish()
    (two.folder / "closed").unlink()
    again = two.writer()
    again.put("books", [BOOK])
    (report,) = again.finish()
    assert (report.written, two.held(two.first), two.held(two.second)) == (2, 1, 1)


def test_a_failure_that_cannot_heal_is_told_before_one_that_can(two: Two) -> None:
    (two.folder / "closed").touch()
    opened = two.second.open()
    opened.drop(TARGET)
    opened.close()
    writer = two.writer()
    writer.put("books", [BOOK])
    with pytest.raises(SinkRefused):
        writer.finish()


def test_nothing_is_said_of_a_chunk_before_every_sink_has_it(two: Two) -> None:
    (two.folder / "stalled").touch()
    writer = two.writer()
    writer.put("books", [BOOK])
    done = threading.Event()

    def finish() -> None:
        writer.finish()
        done.set()

    threading.Thread(target=finish, daemon=True).start()
    assert not done.wait(0.3)
    (two.folder / "stalled").unlink()
    assert done.wait(30)
    assert (two.held(two.first), two.held(two.second)) == (1, 1)


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_sink_that_is_slow_does_not_hold_up_the_others(two: Two, chunks: int) -> None:
    stalled = two.folder / "stalled"
    stalled.touch()
    with two.writer() as writer:

        def work_off() -> None:
            for number in range(chunks):
                writer.put("books", [Built(str(number), BOOK.body)])
            writer.finish()

        thread = threading.Thread(target=work_off, daemon=True)
        thread.start()
        try:
            wait_until(lambda: two.held(two.second) == chunks, what="the second sink to have all of it")
            assert two.held(two.first) == 0
        finally:
            stalled.unlink()
            thread.join()
    assert two.held(two.first) == chunks


def test_a_task_that_fails_leaves_no_write_under_way(two: Two) -> None:
    """Whoever fails closes the sinks next, and under a write that would be the end of the process."""
    stalled = two.folder / "stalled"
    stalled.touch()
    with two.writer() as writer:
        writer.put("books", [BOOK])
        writer.put("books", [Built("2", BOOK.body)])
        wait_until(lambda: two.held(two.second) == 1, what="the second sink, whose write began last")
        assert stalled.exists()
        threading.Timer(0.2, stalled.unlink).start()
    assert not stalled.exists()
    assert (two.held(two.first), two.held(two.second)) == (1, 1)


def test_a_request_that_takes_long_keeps_none_of_those_behind_it_back(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = [Built(str(number), BOOK.body) for number in range(6)]
    through = threading.Semaphore(0)
    write = SqliteSink.write

    def slow_first(
        sink: SqliteSink, target: IndexTarget, writes: Sequence[Write], **rest: Any
    ) -> WriteResult:
        if writes[0].id == books[0].id:
            for _ in books[1:-1]:  # the last one is sent when all others are through
                assert through.acquire(timeout=30), "it keeps others waiting"
        result = write(sink, target, writes, **rest)
        through.release()
        return result

    monkeypatch.setattr(SqliteSink, "write", slow_first)
    with two.alone() as writer:
        for book in books:
            writer.put("books", [book])
        (report,) = writer.finish()
    assert (report.written, two.held(two.second)) == (len(books), len(books))


@pytest.mark.parametrize(("is_refreshing", "most"), [(False, 3), (True, 2)])
def test_fewer_requests_are_under_way_while_what_is_written_is_refreshed(
    two: Two, monkeypatch: pytest.MonkeyPatch, is_refreshing: bool, most: int
) -> None:
    books = [Built(str(number), BOOK.body) for number in range(8)]
    refreshed, may_end = threading.Event(), threading.Semaphore(0)
    begun: list[str] = []
    ended: list[str] = []
    highest: list[int] = []
    write = SqliteSink.write

    def held(sink: SqliteSink, target: IndexTarget, writes: Sequence[Write], **rest: Any) -> WriteResult:
        if writes[0].id != books[-1].id:  # which goes in the task's own thread, beside the others
            begun.append(writes[0].id)
            highest.append(len(begun) - len(ended))
            assert may_end.acquire(timeout=30)
            ended.append(writes[0].id)
        return write(sink, target, writes, **rest)

    def work_off(writer: Writer) -> None:
        for book in books:
            writer.put("books", [book])
        writer.finish()

    monkeypatch.setattr(SqliteSink, "write", held)
    monkeypatch.setattr(SqliteSink, "refresh", lambda *_: refreshed.wait(30))
    with two.alone() as writer:
        if is_refreshing:
            writer.refresh("books")
        thread = threading.Thread(target=work_off, args=(writer,), daemon=True)
        thread.start()
        for number in range(len(books) - 1):
            expected = min(number + most, len(books) - 1)
            wait_until(lambda least=expected: len(begun) >= least, what="as many as may be under way")
            may_end.release()
        thread.join(30)
        refreshed.set()
    assert (max(highest), two.held(two.second)) == (most, len(books))
