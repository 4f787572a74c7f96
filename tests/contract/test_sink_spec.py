"""Specs, and many processes at once: what every sink promises (`sinks/base.py`)."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from books import FIRST, SCHEMA

from flusso.sinks.base import SinkSpec
from flusso.sinks.search.elasticsearch import ElasticsearchSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec


def test_closing_twice_does_no_harm(spec: SinkSpec) -> None:
    opened = spec.open()
    opened.close()
    opened.close()


SPECS: list[Callable[[], SinkSpec]] = [
    lambda: StdoutSpec("s"),
    lambda: SqliteSpec("s", "/nowhere/x.db"),
    lambda: OpenSearchSpec("s", ("https://me:hush@host:9200", "http://[::1]:9200"), api_key="hush"),
    lambda: OpenSearchSpec("s", ("https://host",), username="me", password="hush"),
    lambda: ElasticsearchSpec("s", ("https://me:hush@host",), api_key="hush"),
]


@pytest.mark.parametrize("make", SPECS)
def test_a_spec_pickles_hashes_and_shows_no_secret(make: Callable[[], SinkSpec]) -> None:
    spec = make()
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(make())
    assert "hush" not in repr(spec)
    json.dumps(dict(spec.shape))


WRITER = """
import sys
from flusso.document import Write
from flusso.sinks.base import IndexTarget
from flusso.sinks.sqlite import SqliteSpec
path, start = sys.argv[1], int(sys.argv[2])
target = IndexTarget("books", "a" * 64, 1, ("title",))
sink = SqliteSpec("kept", path).open()
print("ready", flush=True)
sys.stdin.readline()
for batch in range(100):
    version = batch * 2 + start
    body = b'{"title":"v%d"}' % version
    sink.write(target, [Write(str(n), version, body) for n in range(50)], refresh=False)
"""


def test_two_processes_writing_the_same_documents_leave_the_newest(tmp_path: Path) -> None:
    spec = SqliteSpec("kept", tmp_path / "search.db")
    sink = spec.open()
    sink.ensure(FIRST, SCHEMA)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(spec.path), str(start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for start in (0, 1)
    ]
    with contextlib.ExitStack() as stack:
        for writer in writers:
            stack.enter_context(writer)
        assert [writer.stdout.readline() for writer in writers if writer.stdout] == ["ready\n"] * 2
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(60) for writer in writers] == [0, 0]
    found = sink.read(FIRST, list(sink.ids(FIRST)))
    assert {(stored.version, stored.body) for stored in found.values()} == {(199, b'{"title":"v199"}')}
    assert len(found) == 50
    sink.close()
