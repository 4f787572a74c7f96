from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from streams import confirmed_lsn, current_lsn, prepare, read_changes, read_images, slot_of, streaming

from fix_postgres import Database
from flusso.capture.slot import await_release, drop_slot, read_slot
from flusso.capture.stream import CaptureStream
from flusso.capture.transactions import Position
from flusso.errors import PublicationError, SlotBusy, SlotMissing, SourceError, SourceUnavailable
from flusso.lsn import Lsn
from flusso.postgres.connect import Dsn
from proxy import proxied
from waiting import wait_until

pytestmark = pytest.mark.postgres

_USERS = "create table users (id int primary key, boss int not null, name text)"
_ONE = "insert into users values (1, 7, 'Ann')"


def test_a_default_identity_shows_the_old_key_only(database: Database) -> None:
    database.execute(_USERS)
    with streaming(prepare(database.dsn, "id", "boss")) as (stream, start):
        database.execute(_ONE)
        database.execute("update users set boss = 8")
        database.execute("update users set id = 2")
        database.execute("delete from users")
        assert read_images(stream, start, 4) == [
            ("i", None, ("1", "7")),
            ("u", None, ("1", "8")),
            ("u", ("1", None), ("2", "8")),
            ("d", ("2", None), None),
        ]


def test_a_full_identity_shows_the_parent_that_a_moved_child_left(database: Database) -> None:
    database.execute(_USERS + "; alter table users replica identity full")
    with streaming(prepare(database.dsn, "id", "boss")) as (stream, start):
        database.execute(_ONE)
        database.execute("update users set boss = 8")
        database.execute("update users set name = 'Bob'")
        database.execute("delete from users")
        assert read_images(stream, start, 4) == [
            ("i", None, ("1", "7")),
            ("u", ("1", "7"), ("1", "8")),
            ("u", None, ("1", "8")),
            ("d", ("1", "8"), None),
        ]


def test_an_identity_using_an_index_shows_the_columns_of_the_index(database: Database) -> None:
    database.execute(_USERS + "; create unique index links on users (id, boss)")
    database.execute("alter table users replica identity using index links")
    with streaming(prepare(database.dsn, "id", "boss", "name")) as (stream, start):
        database.execute(_ONE)
        database.execute("update users set boss = 8")
        database.execute("delete from users")
        assert read_images(stream, start, 3) == [
            ("i", None, ("1", "7", "Ann")),
            ("u", ("1", "7", None), ("1", "8", "Ann")),
            ("d", ("1", "8", None), None),
        ]


def test_a_truncate_is_a_change_without_rows(database: Database) -> None:
    database.execute(_USERS)
    with streaming(prepare(database.dsn, "id")) as (stream, start):
        database.execute("truncate users")
        assert read_images(stream, start, 1) == [("t", None, None)]


def test_an_unchanged_large_value_is_filled_from_a_full_old_row(database: Database) -> None:
    database.execute(_USERS + "; alter table users replica identity full")
    database.execute("alter table users alter name set storage external")
    with streaming(prepare(database.dsn, "name")) as (stream, start):
        database.execute("insert into users values (1, 7, repeat('x', 10000))")
        database.execute("update users set boss = 8")
        assert read_images(stream, start, 2)[1] == ("u", None, ("x" * 10000,))


def test_an_unwatched_column_may_be_null_large_or_unchanged(database: Database) -> None:
    database.execute(_USERS + "; alter table users alter name set storage external")
    with streaming(prepare(database.dsn, "id")) as (stream, start):
        database.execute("insert into users values (1, 7, null), (2, 7, repeat('x', 10000))")
        database.execute("update users set boss = 8 where id = 2")
        assert [image[2] for image in read_images(stream, start, 3)] == [("1",), ("2",), ("2",)]


def test_a_transaction_in_pieces_is_never_confirmed_in_part(database: Database) -> None:
    database.execute(_USERS)
    spec = prepare(database.dsn, "id", piece_changes=100)
    with streaming(spec) as (stream, start):
        database.execute("insert into users select n, 1 from generate_series(1, 1000) as n")
        position, sizes = start, []
        while len(sizes) < 10:
            assert stream.wait(position, 20)
            end = stream.available(position, max_changes=1, max_bytes=1)
            count = sum(piece.count for piece in stream.pieces(position, end))
            if count:
                sizes.append(count)
            if len(sizes) < 10:
                before = end.lsn
                stream.confirm(end)
                wait_until(
                    lambda lsn=before: confirmed_lsn(database.dsn) == lsn, what="the confirmed position"
                )
            position = end
        assert sizes == [100] * 10
        assert before < position.lsn
        stream.confirm(position)
        wait_until(lambda: confirmed_lsn(database.dsn) >= position.lsn, what="the end of the transaction")


def test_what_was_not_confirmed_comes_again_from_the_slot(database: Database) -> None:
    database.execute(_USERS)
    spec = prepare(database.dsn, "id")
    with streaming(spec) as (stream, start):
        database.execute(_ONE)
        _, position = read_changes(stream, start, 1)
        stream.confirm(position)
        database.execute("insert into users values (2, 7, 'Bob')")
        read_changes(stream, position, 1)
    with streaming(spec) as (stream, start):
        assert start == position
        assert read_images(stream, start, 1) == [("i", None, ("2",))]


def test_a_position_that_is_not_whole_moves_the_slot_nowhere(database: Database) -> None:
    database.execute(_USERS)
    with streaming(prepare(database.dsn, "id", piece_changes=2)) as (stream, start):
        database.execute("insert into users select n, 1 from generate_series(1, 5) as n")
        _, position = read_changes(stream, start, 5)
        part = stream.pieces(start, position)[-2].end
        assert part.ordinal
        stream.confirm(part)
        assert part.lsn < position.lsn
        stream.stop()
    assert confirmed_lsn(database.dsn) == part.lsn


def test_an_idle_server_still_advances(database: Database) -> None:
    database.execute(_USERS + "; create table other (id int primary key)")
    with streaming(prepare(database.dsn, "id", status_interval_s=0.1)) as (stream, position):
        database.execute("insert into other select n from generate_series(1, 500) as n")
        target = current_lsn(database.dsn)

        def confirm_what_comes() -> bool:
            nonlocal position
            stream.wait(position, 0.2)
            position = stream.available(position, max_changes=100, max_bytes=1 << 20)
            stream.confirm(position)
            return confirmed_lsn(database.dsn) >= target

        wait_until(confirm_what_comes, what="the position of an idle server")


# All far below the three seconds for which nothing is read.
_HASTY = "keepalives_idle=1 keepalives_interval=1 keepalives_count=1 tcp_user_timeout=1000"


@pytest.mark.parametrize("timeouts", ["", _HASTY], ids=["the sender's", "and those of TCP"])
def test_back_pressure_does_not_run_into_a_timeout(database: Database, timeouts: str) -> None:
    database.execute(_USERS)
    database.execute(f"alter database {database.name} set wal_sender_timeout = '1s'")
    dsn = Dsn(f"{database.dsn.text} {timeouts}")
    spec = prepare(dsn, "id", buffer_bytes=4096, piece_changes=50, status_interval_s=0.2)
    replies = (
        "select reply_time, pid from pg_stat_replication "
        "join pg_replication_slots on active_pid = pid where slot_name = %s"
    )
    with streaming(spec) as (stream, start):
        database.execute(
            "insert into users select n, 1, repeat('x', 500) from generate_series(1, 40000) as n"
        )
        assert stream.wait(start, 20)
        first, pid = database.execute(replies, slot_of(database.dsn))[0]
        wait_until(
            lambda: database.execute(
                f"select (reply_time - %s::timestamptz) > interval '3 s' from ({replies}) as now",
                first,
                slot_of(database.dsn),
            ) == [(True,)],
            what="replies well past the timeout",
        )  # fmt: skip
        held = stream.pieces(start, stream.available(start, max_changes=10**9, max_bytes=10**9))
        assert sum(len(piece.payload) for piece in held) < 4096 + 50_000
        assert _count_and_confirm(stream, start, 40000) == 40000
        assert database.execute(replies, slot_of(database.dsn))[0][1] == pid


def _count_and_confirm(stream: CaptureStream, position: Position, count: int) -> int:
    found = 0
    while found < count:
        assert stream.wait(position, 20)
        end = stream.available(position, max_changes=1000, max_bytes=1 << 20)
        found += sum(piece.count for piece in stream.pieces(position, end))
        stream.confirm(end)
        position = end
    return found


def test_a_stopped_stream_releases_the_slot(database: Database) -> None:
    database.execute(_USERS)
    with streaming(prepare(database.dsn, "id")):
        pass
    with database.connect() as conn:
        await_release(conn, slot_of(database.dsn), 5)


def test_a_slot_with_a_reader_is_busy_in_the_end(database: Database) -> None:
    database.execute(_USERS)
    spec = prepare(database.dsn, "id", patience_s=0.3)
    with streaming(spec), pytest.raises(SlotBusy):
        CaptureStream(spec).start()


def test_a_slot_whose_reader_leaves_is_taken_over(database: Database) -> None:
    database.execute(_USERS)
    spec = prepare(database.dsn, "id")
    with streaming(spec) as (first, _):
        first.stop()
        with streaming(spec) as (_, position):
            assert position.lsn == confirmed_lsn(database.dsn)


def test_a_missing_slot_is_lost(database: Database) -> None:
    database.execute(_USERS)
    spec = prepare(database.dsn, "id")
    with database.connect() as conn:
        drop_slot(conn, spec.slot)
    with pytest.raises(SlotMissing):
        CaptureStream(spec).start()


def test_a_missing_publication_is_refused_at_the_start(database: Database) -> None:
    database.execute(_USERS)
    spec = prepare(database.dsn, "id")
    database.execute("drop publication flusso")
    with pytest.raises(PublicationError):
        CaptureStream(spec).start()


def test_a_killed_sender_makes_waiting_raise_source_unavailable(database: Database) -> None:
    database.execute(_USERS)
    with streaming(prepare(database.dsn, "id")) as (stream, start):
        with database.connect() as conn:
            info = read_slot(conn, slot_of(database.dsn))
        assert info is not None
        database.execute("select pg_terminate_backend(%s)", info.active_pid)
        with pytest.raises(SourceUnavailable):
            wait_until(lambda: stream.wait(start, 1) and False, what="the failure")


def test_a_server_that_says_nothing_any_more_makes_waiting_raise(database18: Database) -> None:
    database18.execute(_USERS)
    spec = prepare(database18.dsn, "id", silence_s=1.0, status_interval_s=0.2)
    with proxied(database18.server.port) as proxy:
        there = Dsn(f"{spec.dsn.text} port={proxy.port}")
        with streaming(replace(spec, dsn=there)) as (stream, start):
            assert not stream.wait(Position(Lsn(2**63)), 1.5)
            proxy.stall()
            with pytest.raises(SourceUnavailable, match="said nothing"):
                wait_until(lambda: stream.wait(start, 1) and False, what="the failure")


def test_a_stopped_stream_says_so_instead_of_being_silent(database: Database) -> None:
    database.execute(_USERS)
    with streaming(prepare(database.dsn, "id")) as (stream, start):
        stream.stop()
        with pytest.raises(SourceError):
            stream.wait(start, 1)


def test_a_stream_that_was_not_started_holds_no_thread_and_no_socket(database: Database) -> None:
    stream = CaptureStream(prepare(database.dsn, "id", table=_made(database)))
    assert all(not hasattr(value, "fileno") for value in vars(stream).values())
    stream.stop()


def _made(database: Database) -> str:
    database.execute(_USERS)
    return "users"


def test_an_orphan_lets_go_of_the_slot(database: Database) -> None:
    database.execute(_USERS)
    here = Path(__file__).parent
    reader = (
        f"import sys, time; sys.path[:0] = [{str(here)!r}, {str(here.parent)!r}]\n"
        "from streams import prepare\n"
        "from flusso.postgres.connect import Dsn\n"
        "from flusso.capture.stream import CaptureStream\n"
        f"stream = CaptureStream(prepare(Dsn({database.dsn.text!r}), 'id'))\n"
        "stream.start()\n"
        "print('started', flush=True)\n"
        "time.sleep(60)\n"  # the stream's own thread has to notice: this one is asleep the whole time
    )
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {reader!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    orphan = int(process.stdout.readline())
    try:
        with database.connect() as conn:
            info = read_slot(conn, slot_of(database.dsn))
            assert info is not None
            assert info.active_pid is not None
            process.kill()
            process.wait()
            await_release(conn, slot_of(database.dsn), 10)
            assert Path(f"/proc/{orphan}").exists()
    finally:
        _end(orphan)
        process.communicate()


def _end(pid: int) -> None:
    subprocess.run(["kill", "-9", str(pid)], check=False)
