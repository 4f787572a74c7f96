"""What every capture promises, one claim a test; the contract itself is in `flusso.capture.base`."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from memory_capture import MemoryCapture, MemoryDatabase

from fix_postgres import Database, fresh_database
from flusso.capture import base, row_wire
from flusso.capture.base import Capture, Live
from flusso.capture.postgres import PostgresCapture
from flusso.capture.transactions import Position
from flusso.catalog import TableName
from flusso.demo.server import EmbeddedServer
from flusso.errors import SlotAdvanced, SlotBusy, SlotExists, SnapshotLost, SourceError, SourceWentBack
from flusso.lsn import Lsn
from waiting import wait_until

_ALL = {"max_changes": 1_000_000, "max_bytes": 1 << 40}


@dataclass(slots=True)
class Bed:
    """A capture, and a way to make something happen."""

    capture: Any
    write: Callable[..., None]
    """Commit one transaction that inserts users of these ids."""


_MEMORY = pytest.param("memory", id="memory")
_OLDEST = pytest.param(16, marks=pytest.mark.postgres, id="pg16")
_NEWEST = pytest.param(18, marks=pytest.mark.postgres, id="pg18")


@pytest.fixture(params=[_MEMORY, _NEWEST])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param == "memory":
        database = MemoryDatabase()
        yield Bed(MemoryCapture(database), database.write)
        return
    server_of: Callable[[int], EmbeddedServer] = request.getfixturevalue("server_of")
    for real in fresh_database(server_of(request.param)):
        real.execute("create table users (id int primary key)")
        name = f"seam_{real.name}"
        made = PostgresCapture(real.dsn, name, name, (TableName("public", "users"),), patience_s=0.3)
        yield Bed(made, lambda *ids, to=real: _insert(to, ids))


def _insert(database: Database, ids: tuple[int, ...]) -> None:
    database.execute("insert into users select unnest(%s::int[])", list(ids))


class Reading:
    """A started reader that is stopped at the end of the block."""

    def __init__(self, capture: Capture, resume: Position | None = None) -> None:
        self.live: Live = capture.live()
        self.start = self.live.start(resume)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def ids(self, after: Position, to: Position) -> list[int]:
        return [
            int(change.new[0] or "")
            for piece in self.live.pieces(after, to)
            for change in row_wire.decode(piece.payload)
            if change.new is not None
        ]

    def read(
        self, count: int, after: Position | None = None, **limits: int
    ) -> list[tuple[Position, list[int]]]:
        """Read on until so many rows have come: each position with the rows up to it."""
        at = after or self.start
        taken: list[tuple[Position, list[int]]] = []

        def step() -> bool:
            nonlocal at
            self.live.wait(at, 0.2)
            end = self.live.available(at, **(_ALL | limits))
            if found := self.ids(at, end):
                taken.append((end, found))
            at = end
            return sum(len(ids) for _, ids in taken) >= count

        wait_until(step, what=f"{count} rows")
        return taken


def _flat(taken: list[tuple[Position, list[int]]]) -> list[int]:
    return list(itertools.chain.from_iterable(ids for _, ids in taken))


# Live


def test_every_change_after_the_beginning_comes_once_and_in_order(bed: Bed) -> None:
    bed.write(1)
    bed.capture.begin()
    bed.write(3, 2)
    bed.write(4)
    with Reading(bed.capture) as reading:
        bed.write(5)
        assert _flat(reading.read(4)) == [3, 2, 4, 5]


def test_to_begin_again_changes_nothing(bed: Bed) -> None:
    first = bed.capture.begin()
    bed.write(1)
    assert bed.capture.begin() == first


def test_positions_that_are_given_out_go_up(bed: Bed) -> None:
    begin = bed.capture.begin()
    for id_ in range(5):
        bed.write(id_)
    with Reading(bed.capture) as reading:
        ends = [end for end, _ in reading.read(5, max_changes=1)]
    assert [begin, *ends] == sorted([begin, *ends])


def test_what_was_not_confirmed_comes_again_to_the_next_reader(bed: Bed) -> None:
    bed.capture.begin()
    bed.write(1, 2)
    for _ in range(2):
        with Reading(bed.capture) as reading:
            assert _flat(reading.read(2)) == [1, 2]


def test_the_next_reader_begins_after_what_was_confirmed(bed: Bed) -> None:
    bed.capture.begin()
    bed.write(1)
    with Reading(bed.capture) as reading:
        ((end, _),) = reading.read(1)
        reading.live.confirm(end)
        reading.live.confirm(reading.start)
    bed.write(2)
    with Reading(bed.capture) as reading:
        assert _flat(reading.read(1)) == [2]


def test_a_reader_resumes_in_the_middle_of_a_transaction(bed: Bed) -> None:
    bed.capture.begin()
    bed.write(*range(10))
    bed.write(10)
    small = replace(bed.capture, piece_changes=3)
    with Reading(small) as reading:
        (end, ids), *_ = reading.read(3, max_changes=3)
    assert ids == [0, 1, 2]
    with Reading(bed.capture, end) as reading:
        assert reading.start == end
        assert _flat(reading.read(8)) == list(range(3, 11))


def test_positions_of_an_earlier_reader_part_the_rows_in_the_same_place(bed: Bed) -> None:
    begin = bed.capture.begin()
    bed.write(*range(7))
    bed.write(7, 8)
    with Reading(replace(bed.capture, piece_changes=2)) as reading:
        earlier = reading.read(9, max_changes=2)
    with Reading(bed.capture, begin) as reading:
        at = begin
        for end, ids in earlier:
            wait_until(lambda end=end: reading.live.reach(end, 0.2), what="the position")  # type: ignore[misc]
            assert reading.ids(at, end) == ids
            at = end


def test_the_same_rows_can_be_asked_for_again(bed: Bed) -> None:
    bed.capture.begin()
    bed.write(1, 2)
    with Reading(bed.capture) as reading:
        ((end, ids),) = reading.read(2)
        assert reading.ids(reading.start, end) == reading.ids(reading.start, end) == ids


def test_a_batch_is_no_larger_than_asked_for_if_pieces_are_not(bed: Bed) -> None:
    bed.capture.begin()
    bed.write(*range(20))
    with Reading(replace(bed.capture, piece_changes=4)) as reading:
        assert max(len(ids) for _, ids in reading.read(20, max_changes=6)) <= 6


def test_some_rows_are_within_reach_of_any_limit(bed: Bed) -> None:
    bed.capture.begin()
    bed.write(1, 2, 3)
    with Reading(bed.capture) as reading:
        assert _flat(reading.read(3, max_bytes=1, max_changes=1)) == [1, 2, 3]


def test_nothing_is_given_past_the_bound(bed: Bed) -> None:
    bed.capture.begin()
    bed.write(1)
    until = Position(bed.capture.end())
    bed.write(2)
    bed.write(3)
    with Reading(bed.capture) as reading:
        reading.read(3)
        end = reading.live.available(reading.start, until=until, **_ALL)
        assert reading.ids(reading.start, end) == [1]
        assert reading.live.has(until)


def test_the_end_of_the_source_is_reached_without_a_change(bed: Bed) -> None:
    begin = bed.capture.begin()
    until = Position(bed.capture.end())
    with Reading(bed.capture) as reading:
        assert wait_until(lambda: reading.live.reach(until, 0.2), what="the end")
        assert reading.ids(begin, reading.live.available(begin, **_ALL)) == []


def test_waiting_ends_with_the_time(bed: Bed) -> None:
    begin = bed.capture.begin()
    with Reading(bed.capture) as reading:
        assert not reading.live.wait(begin, 0.05)


def test_what_follows_a_confirmed_position_cannot_be_resumed_from_before_it(bed: Bed) -> None:
    begin = bed.capture.begin()
    bed.write(1)
    with Reading(bed.capture) as reading:
        ((end, _),) = reading.read(1)
        reading.live.confirm(end)
    with pytest.raises(SlotAdvanced):
        bed.capture.live().start(begin)


def test_a_position_where_the_source_has_never_been_is_refused(bed: Bed) -> None:
    bed.capture.begin()
    with pytest.raises(SourceWentBack):
        bed.capture.live().start(Position(Lsn(1 << 62)))


def test_there_is_one_reader_at_a_time(bed: Bed) -> None:
    bed.capture.begin()
    with Reading(bed.capture):
        with pytest.raises(SlotBusy):
            bed.capture.live().start()
    with Reading(bed.capture):
        pass


def test_a_reader_that_was_stopped_says_so_and_may_be_stopped_again(bed: Bed) -> None:
    begin = bed.capture.begin()
    with Reading(bed.capture) as reading:
        reading.live.stop()
        reading.live.stop()
        with pytest.raises(SourceError):
            reading.live.wait(begin, 5)


# Snapshot


def _read_all(snapshot: Any) -> list[int]:
    return sorted(
        int(change.new[0])
        for part in snapshot.parts
        for rows in pickle.loads(pickle.dumps(part)).read()
        for change in rows
    )


@pytest.mark.parametrize("bed", [_MEMORY, _OLDEST, _NEWEST], indirect=True)
def test_every_row_is_in_the_snapshot_or_in_the_stream_and_never_in_both(bed: Bed) -> None:
    bed.write(*range(100))
    snapshot = bed.capture.snapshot(1000)
    bed.write(100)
    taken = _read_all(snapshot)
    bed.write(101)
    snapshot.close()
    bed.capture.join()
    with Reading(bed.capture) as reading:
        assert taken == list(range(100))
        assert _flat(reading.read(2)) == [100, 101]


def test_a_part_of_a_snapshot_can_be_read_again(bed: Bed) -> None:
    bed.write(1, 2)
    snapshot = bed.capture.snapshot(1 << 20)
    assert _read_all(snapshot) == [1, 2]
    bed.write(3)
    assert _read_all(snapshot) == [1, 2]
    snapshot.close()


def test_a_snapshot_that_nobody_holds_is_lost(bed: Bed) -> None:
    bed.write(1)
    snapshot = bed.capture.snapshot(1 << 20)
    snapshot.close()
    snapshot.close()
    with pytest.raises(SnapshotLost):
        _read_all(snapshot)


def test_a_snapshot_that_was_not_joined_is_given_up_for_a_new_one(bed: Bed) -> None:
    bed.write(1)
    bed.capture.snapshot(1 << 20).close()
    bed.write(2)
    second = bed.capture.snapshot(1 << 20)
    taken = _read_all(second)
    second.close()
    bed.capture.join()
    bed.write(3)
    with Reading(bed.capture) as reading:
        assert (taken, _flat(reading.read(1))) == ([1, 2], [3])


def test_a_second_snapshot_that_nobody_read_leaves_the_stream_to_the_first(bed: Bed) -> None:
    bed.write(1)
    first = bed.capture.snapshot(1 << 20)
    assert _read_all(first) == [1]
    first.close()
    bed.write(2)
    bed.capture.snapshot(1 << 20).close()
    bed.write(3)
    bed.capture.snapshot(1 << 20).close()
    bed.capture.join()
    with Reading(bed.capture) as reading:
        assert _flat(reading.read(2)) == [2, 3]


def test_there_is_no_snapshot_of_a_stream_that_has_begun(bed: Bed) -> None:
    bed.capture.begin()
    with pytest.raises(SlotExists):
        bed.capture.snapshot(1 << 20)


def test_to_join_again_changes_nothing(bed: Bed) -> None:
    bed.capture.snapshot(1 << 20).close()
    first = bed.capture.join()
    bed.write(1)
    assert bed.capture.join() == first


# Lag and identity


def test_the_lag_falls_when_changes_are_confirmed(bed: Bed) -> None:
    bed.capture.begin()
    for id_ in range(20):
        bed.write(id_)
    before = bed.capture.lag().bytes
    with Reading(bed.capture) as reading:
        reading.live.confirm(reading.read(20)[-1][0])
        assert wait_until(lambda: bed.capture.lag().bytes < before, what="a smaller lag")


def test_a_source_always_has_the_same_name(bed: Bed) -> None:
    assert bed.capture.identity() == replace(bed.capture, piece_changes=7).identity()


def test_every_method_of_the_contract_says_what_it_promises() -> None:
    for name, protocol in inspect.getmembers(base, inspect.isclass):
        if getattr(protocol, "_is_protocol", False) and protocol.__module__ == base.__name__:
            for method, member in vars(protocol).items():
                if not method.startswith("_"):
                    assert (member.fget if isinstance(member, property) else member).__doc__, (name, method)
