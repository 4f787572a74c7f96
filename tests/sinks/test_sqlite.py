"""What is particular to the SQLite sink: its file, its errors, its full-text table."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flusso.catalog import TableName
from flusso.document import Write
from flusso.errors import GenerationGone, SinkRefused, SinkUnavailable
from flusso.schema.model import IndexSchema
from flusso.sinks.base import IndexState, IndexTarget
from flusso.sinks.sqlite import SqliteSink, SqliteSpec, file
from flusso.sinks.sqlite.fulltext import match_expression, text_of

SCHEMA = IndexSchema(TableName("public", "books"), ())
TARGET = IndexTarget("books", "d", 1, ("title",))
DOCUMENT = Write("1", 5, b'{"title":"Momo"}')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "search.db"


@pytest.fixture
def sink(path: Path) -> Iterator[SqliteSink]:
    opened = SqliteSink(SqliteSpec("kept", path), busy_timeout_s=0.2)
    opened.ensure(TARGET, SCHEMA)
    yield opened
    opened.close()


def test_a_relative_path_means_the_folder_of_the_process_that_made_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert SqliteSpec("kept", "search.db").path == tmp_path / "search.db"


def test_a_file_locked_for_long_is_unavailable(sink: SqliteSink, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(SinkUnavailable, match="is locked by another process"):
        sink.write(TARGET, [DOCUMENT], refresh=False)
    other.close()


def test_a_close_from_another_thread_waits_for_the_write_in_hand(sink: SqliteSink, path: Path) -> None:
    closing = threading.Thread(target=sink.close)
    with sink._transaction():
        sink._conn.execute("insert into states values ('while it is closed', '')")
        closing.start()
        closing.join(0.2)  # in vain
    closing.join()
    with contextlib.closing(sqlite3.connect(path)) as conn:
        assert conn.execute("select name from states").fetchall() == [("while it is closed",)]


def test_a_close_does_not_wait_for_a_write_that_hangs(
    sink: SqliteSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flusso.sinks.sqlite.sink._CLOSE_S", 0.1)
    with sink._transaction():
        closing = threading.Thread(target=sink.close)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()


def test_who_uses_what_another_thread_has_closed_may_try_again(sink: SqliteSink) -> None:
    sink.close()
    with pytest.raises(SinkUnavailable, match="was closed by another thread"):
        sink.write(TARGET, [DOCUMENT], refresh=False)
    with pytest.raises(SinkUnavailable, match="was closed by another thread"):
        sink.count(TARGET)


def test_a_failed_write_leaves_no_transaction_open(sink: SqliteSink, path: Path) -> None:
    twice = [Write("2", 5, b"{}"), Write("2", 5, b"{}")]
    with pytest.raises(SinkRefused):
        sink.write(TARGET, twice, refresh=False)
    sink.write(TARGET, [DOCUMENT], refresh=False)
    assert list(sink.ids(TARGET)) == ["1"]


def test_a_full_disk_is_waited_for_and_nothing_is_half_written(sink: SqliteSink, path: Path) -> None:
    big = [Write(str(n), 5, b'{"title":"%s"}' % (b"x" * 5000)) for n in range(100)]
    (pages,) = sink._conn.execute("pragma page_count").fetchone()
    sink._conn.execute(f"pragma max_page_count = {pages + 20}")
    with pytest.raises(SinkUnavailable, match=r"there is no room.*free some disk space"):
        sink.write(TARGET, big, refresh=False)
    assert sink.count(TARGET) == 0
    sink._conn.execute("pragma max_page_count = 1000000")
    assert sink.write(TARGET, big, refresh=False).written == 100


def test_a_file_that_is_no_database_is_refused_with_a_remedy(path: Path) -> None:
    path.write_bytes(b"this is not a database, " * 200)
    with pytest.raises(SinkRefused, match="not a sound SQLite database: move it away"):
        SqliteSpec("kept", path).open()


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("create table theirs (x)")
    other.close()
    with pytest.raises(SinkRefused, match="database of another program"):
        SqliteSpec("kept", path).open()


def test_a_file_of_another_release_is_refused(sink: SqliteSink, path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("pragma user_version = 99")
    other.close()
    with pytest.raises(SinkRefused, match="another release"):
        SqliteSpec("kept", path).open()


def test_a_missing_folder_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(SinkRefused, match="is its folder there"):
        SqliteSpec("kept", tmp_path / "absent" / "search.db").open()


def test_a_corrupted_file_is_refused_with_a_remedy(sink: SqliteSink, path: Path) -> None:
    sink.write(TARGET, [Write(str(n), 5, b'{"title":"x"}') for n in range(5000)], refresh=False)
    sink.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(SinkRefused, match="not a sound SQLite database"):
        SqliteSpec("kept", path).open().read(TARGET, ["1"])


def test_opening_a_new_file_from_many_threads_at_once_works(path: Path) -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            opened = SqliteSpec("kept", path).open()
            opened.ensure(TARGET, SCHEMA)
            opened.close()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


class _Overtaken:
    """A connection beside which another one makes the tables, after its first statement about them."""

    def __init__(self, path: Path) -> None:
        self._conn = sqlite3.connect(path, isolation_level=None)
        self._other = sqlite3.connect(path, isolation_level=None, timeout=0)

    def execute(self, statement: str) -> sqlite3.Cursor:
        if "user_version" in statement:
            with contextlib.suppress(sqlite3.OperationalError):  # locked: it cannot come in between
                file._create_tables(self._other)
        return self._conn.execute(statement)

    def close(self) -> None:
        self._other.close()
        self._conn.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_file_whose_tables_are_just_being_made_is_not_taken_for_another_programs(
    path: Path, mode: str
) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute(f"pragma journal_mode = {mode}")
    overtaken = _Overtaken(path)
    try:
        file._refuse_foreign(overtaken, path)  # type: ignore[arg-type]
    finally:
        overtaken.close()


def delete(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def put_back(path: Path) -> None:
    """Put an older copy in its place, which holds the generation too."""
    copy = path.with_name("older.db")
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(copy)) as to:
        source.backup(to)
    delete(path)
    copy.rename(path)


@pytest.mark.parametrize("harm", [delete, put_back])
def test_a_file_that_is_deleted_or_replaced_is_missed_and_nothing_more_is_confirmed(
    sink: SqliteSink, path: Path, harm: Callable[[Path], None]
) -> None:
    sink.write(TARGET, [DOCUMENT], refresh=False)
    assert sink.uuids(TARGET) is not None
    harm(path)
    assert sink.uuids(TARGET) is None
    with pytest.raises(GenerationGone, match="was deleted, or another file put in its place"):
        sink.write(TARGET, [DOCUMENT], refresh=False)
    with pytest.raises(GenerationGone):
        sink.save_state(IndexState("books", "d", 1))
    with pytest.raises(GenerationGone):
        sink.load_states()


def test_whoever_opens_a_deleted_file_anew_finds_it_empty(sink: SqliteSink, path: Path) -> None:
    sink.write(TARGET, [DOCUMENT], refresh=False)
    path.unlink()  # its log stays behind
    with contextlib.closing(SqliteSpec("kept", path).open()) as again:
        assert (again.uuids(TARGET), again.held()) == (None, [])
        again.ensure(TARGET, SCHEMA)
        again.write(TARGET, [Write("2", 5, b"{}")], refresh=False)
        sink.close()
        assert list(again.ids(TARGET)) == ["2"]


def test_writing_before_ensure_is_refused(sink: SqliteSink) -> None:
    with pytest.raises(SinkRefused, match='generation 1 of index "absent"'):
        sink.write(IndexTarget("absent", "d", 1), [DOCUMENT], refresh=False)


def test_dropping_a_generation_leaves_nothing_of_it(sink: SqliteSink, path: Path) -> None:
    sink.write(TARGET, [DOCUMENT], refresh=False)
    sink.publish(TARGET)
    newer = IndexTarget("books", "e", 2, ("title",))
    sink.ensure(newer, SCHEMA)
    sink.publish(newer)
    sink.drop(TARGET)
    other = sqlite3.connect(path)
    tables = {name for (name,) in other.execute("select name from sqlite_master where name like 'search_%'")}
    assert other.execute("select count(*) from documents").fetchone() == (0,)
    assert not any(name.startswith("search_1") for name in tables)
    other.close()


def test_bodies_are_text_that_sql_can_read_as_json(sink: SqliteSink, path: Path) -> None:
    sink.write(TARGET, [DOCUMENT], refresh=False)
    other = sqlite3.connect(path)
    assert other.execute("select body ->> '$.title', typeof(body) from documents").fetchone() == (
        "Momo",
        "text",
    )
    other.close()


VICTIM = """
import sys
from flusso.document import Write
from flusso.sinks.base import IndexState, IndexTarget
from flusso.sinks.sqlite import SqliteSpec
sink = SqliteSpec("kept", sys.argv[1]).open()
version = 0
while True:
    version += 1
    body = b'{"title":"v%d"}' % version
    target = IndexTarget("books", "d", 1, ("title",))
    sink.write(target, [Write(str(n), version, body) for n in range(200)], refresh=False)
    print(version, flush=True)
"""


def test_what_was_acknowledged_is_there_after_kill_9(sink: SqliteSink, path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", VICTIM, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(20):
            acknowledged = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        acknowledged = int((process.stdout.read().split() or [acknowledged])[-1])
    versions = {stored.version for stored in sink.read(TARGET, list(sink.ids(TARGET))).values()}
    assert len(versions) == 1
    assert versions.pop() >= acknowledged
    check = sqlite3.connect(path)
    assert check.execute("pragma integrity_check").fetchone() == ("ok",)
    check.close()


def test_text_is_gathered_from_all_keys_of_a_map() -> None:
    body = b'{"titles":{"en":"a","it":["b","c"]},"other":{"en":"x"}}'
    assert text_of(body, {"titles"}).split("\n") == ["a", "b", "c"]
    deep = b'{"other":%s1%s,"titles":{"en":"a","it":["b"]}}' % (b"[" * 5000, b"]" * 5000)
    assert text_of(deep, {"titles"}).split("\n") == ["a", "b"]


def test_text_is_gathered_from_named_keys_at_any_depth() -> None:
    body = b'{"title":"a","x":"no","rows":[{"title":"b","in":{"title":["c",["d"],{"title":"e"}]}}],"k":"f"}'
    assert text_of(body, {"title", "k"}).split("\n") == ["a", "b", "c", "d", "e", "f"]


def test_text_leaves_out_what_is_no_string() -> None:
    assert text_of(b'{"title":5,"k":null,"l":[1,true]}', {"title", "k", "l"}) == ""


def test_text_is_found_in_json_that_python_cannot_decode() -> None:
    deep = '{"a":' * 5000 + '"no"' + "}" * 5000
    body = f'{{"k":"a","j":{deep},"n":{"1" * 5000},"in":{{"k":["b\\u00e9",["c"],{{"k":"d","x":"no"}}]}}}}'
    assert text_of(body.encode(), {"k"}).split("\n") == ["a", "bé", "c", "d"]


def test_words_of_a_query_are_quoted() -> None:
    assert match_expression('a"b AND  c* -- !') == '"a""b" "AND" "c*"'


@given(st.text())
def test_every_query_is_one_that_fts5_takes(query: str) -> None:
    conn = sqlite3.connect(":memory:")
    conn.execute("create virtual table t using fts5(body)")
    conn.execute("select * from t where t match ?", (match_expression(query) or '"x"',)).fetchall()
    conn.close()
