from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from streams import confirmed_lsn, current_lsn, prepare, slot_of

from fix_postgres import Database
from flusso.capture import (
    Begin,
    Commit,
    Event,
    EventStream,
    Insert,
    LogicalMessage,
    follow_slot,
    lag_seconds,
    measure_slot,
)
from flusso.capture.replication import Replication
from flusso.errors import SlotBusy, SlotError
from flusso.lsn import Lsn
from waiting import wait_until

ROOT = Path(__file__).parents[2]
postgres = pytest.mark.postgres


def receive(stream: EventStream, commits: int) -> list[Event]:
    """Read on until so many transactions have ended."""
    events: list[Event] = []

    def read() -> bool:
        events.extend(stream.receive(0.2))
        return sum(isinstance(event.message, Commit) for event in events) >= commits

    wait_until(read, what=f"{commits} transactions")
    return events


def open_stream(database: Database, start: Lsn | None = None) -> EventStream:
    return follow_slot(database.dsn, slot_of(database.dsn), "flusso", start=start)


def rows(events: list[Event]) -> list[str | None]:
    return [event.message.new[0] for event in events if isinstance(event.message, Insert)]


@postgres
def test_events_come_typed_and_in_order_with_the_time_they_were_sent(database: Database) -> None:
    database.execute("create table users (id int primary key)")
    prepare(database.dsn, "id")
    before_s = time.time()
    with open_stream(database) as stream:
        database.execute("insert into users values (1)")
        events = receive(stream, 1)
        assert [type(event.message).__name__ for event in events] == ["Begin", "Relation", "Insert", "Commit"]
        assert all(before_s - 5 < event.sent_us / 1e6 < time.time() + 5 for event in events)
        assert stream.lag_s is not None
        assert stream.lag_s < 30


@postgres
def test_what_is_confirmed_never_comes_again_and_the_rest_does(database18: Database) -> None:
    database18.execute("create table users (id int primary key)")
    prepare(database18.dsn, "id")
    database18.execute("insert into users values (1)")
    database18.execute("insert into users values (2)")
    with open_stream(database18) as stream:
        events = receive(stream, 2)
        first = next(event.message for event in events if isinstance(event.message, Commit))
        stream.confirm(first.end_lsn)
        stream.confirm(Lsn(1))  # older: changes nothing
        wait_until(lambda: confirmed_lsn(database18.dsn) == first.end_lsn, what="the confirmed position")
        with pytest.raises(SlotError, match="was received"):
            stream.confirm(Lsn(stream.received + 1_000_000))
    with open_stream(database18) as stream:
        assert rows(receive(stream, 1)) == ["2"]


@postgres
def test_a_stream_begins_at_a_given_position_but_never_behind_the_slot(database18: Database) -> None:
    database18.execute("create table users (id int primary key)")
    prepare(database18.dsn, "id")
    database18.execute("insert into users values (1)")
    later = current_lsn(database18.dsn)
    database18.execute("insert into users values (2)")
    with open_stream(database18, start=later) as stream:
        assert rows(receive(stream, 1)) == ["2"]
    with open_stream(database18, start=Lsn(1)) as stream:
        assert rows(receive(stream, 2)) == ["1", "2"]


@postgres
def test_keepalives_are_absorbed_and_let_an_idle_slot_move_on(database18: Database) -> None:
    database18.execute("create table users (id int primary key); create table other (id int)")
    prepare(database18.dsn, "id")
    with open_stream(database18) as stream:
        database18.execute("insert into other select generate_series(1, 1000)")
        target = current_lsn(database18.dsn)

        def move() -> bool:
            assert not [event for event in stream.receive(0.1) if isinstance(event.message, Insert)]
            stream.confirm(stream.received)
            return confirmed_lsn(database18.dsn) >= target

        wait_until(move, what="the slot to move on")
        with database18.connect() as conn:
            measure = measure_slot(conn, slot_of(database18.dsn))
    assert measure.lag_bytes is not None


@postgres
def test_a_slot_that_is_active_is_tried_again_until_it_is_free(
    database18: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database18.execute("create table users (id int primary key)")
    prepare(database18.dsn, "id")
    holder, begin, attempts = open_stream(database18), Replication.begin, 0

    def begin_counted(self: Replication, publication: str, start: Lsn | None) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 3:
            holder.close()
        begin(self, publication, start)

    monkeypatch.setattr(Replication, "begin", begin_counted)
    with follow_slot(database18.dsn, slot_of(database18.dsn), "flusso", patience_s=60):
        assert attempts >= 3


@postgres
def test_a_slot_that_stays_active_is_told_when_patience_ends(database18: Database) -> None:
    database18.execute("create table users (id int primary key)")
    prepare(database18.dsn, "id")
    with open_stream(database18), pytest.raises(SlotBusy, match="active"):
        follow_slot(database18.dsn, slot_of(database18.dsn), "flusso", patience_s=0.5)
    with open_stream(database18) as stream:  # its last reader has just let go of it
        assert stream.receive(0) == [] or isinstance(stream.received, Lsn)


@postgres
def test_messages_of_the_application_come_as_events_only_when_asked_for(database18: Database) -> None:
    database18.execute("create table users (id int primary key)")
    prepare(database18.dsn, "id")
    with open_stream(database18) as stream:
        database18.execute("select pg_logical_emit_message(true, 'app', 'hello')")
        database18.execute("insert into users values (1)")
        events = receive(stream, 1)
    assert not any(isinstance(event.message, LogicalMessage) for event in events)
    assert isinstance(events[0].message, Begin)


@pytest.mark.parametrize(("then", "now", "expected"), [(0, 1_500_000, 1.5), (10, 0, 0.0)])
def test_a_lag_is_in_seconds_and_never_negative(then: int, now: int, expected: float) -> None:
    assert lag_seconds(then, now) == expected


@postgres
def test_the_example_of_the_guide_prints_what_the_guide_says(database18: Database) -> None:
    guide = (ROOT / "docs" / "guides" / "capture.md").read_text()
    found = re.search(r"<!-- example: capture -->\n```python\n(.*?)```\n\n```\n(.*?)```", guide, re.DOTALL)
    assert found
    database18.execute("create table orders (id int primary key, status text)")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", found[1]],
        env=os.environ | {"DATABASE_URL": database18.dsn.text},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (found[2], "")
