"""The stdout sink: what its lines look like, and how it ends when nobody reads them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest

from flusso.document import Write
from flusso.errors import SinkRefused
from flusso.sinks.base import IndexTarget
from flusso.sinks.stdout import StdoutSink, StdoutSpec, indented, line_of

TARGET = IndexTarget("books", "d", 1)


def printed(*writes: Write, pretty: bool = False) -> bytes:
    out = io.BytesIO()
    StdoutSink(StdoutSpec("out", pretty), out).write(TARGET, writes, refresh=False)
    return out.getvalue()


def test_a_write_is_one_line_with_the_document_untouched() -> None:
    body = b'{"price" : 1.00}'
    expected = b'{"index":"books","id":"1","version":7,"op":"index","document":' + body + b"}\n"
    assert printed(Write("1", 7, body)) == expected


def test_a_removal_is_a_line_without_a_document() -> None:
    found = json.loads(printed(Write('a"b', 7, None)))
    assert found == {"index": "books", "id": 'a"b', "version": 7, "op": "remove", "document": None}


def test_a_document_with_line_breaks_stays_on_one_line() -> None:
    assert line_of("books", Write("1", 1, b'{"a":\n1}')).count(b"\n") == 1


def test_counts_tell_writes_from_removals() -> None:
    sink = StdoutSink(StdoutSpec("out"), io.BytesIO())
    result = sink.write(TARGET, [Write("1", 1, b"{}"), Write("2", 1, None)], refresh=False)
    assert (result.written, result.removed) == (1, 1)


def test_pretty_keeps_every_digit_and_escape() -> None:
    body = '{"a":1.000000000000000000001,"b":["\\u00e9 {,}: \\"x\\"",[],{}],"c":{"d":null}}'
    text = printed(Write("1", 1, body.encode()), pretty=True).decode()
    assert json.loads(text)["document"] == json.loads(body)
    assert "1.000000000000000000001" in text
    assert '"\\u00e9 {,}: \\"x\\""' in text


@pytest.mark.parametrize(
    "value", [{}, [], {"a": []}, [1, {"b": [2, 3]}, "x"], {"a": {"b": {}}, "c": [[]]}, 5]
)
def test_pretty_lays_out_as_the_standard_library_does(value: object) -> None:
    assert indented(json.dumps(value)) == json.dumps(value, indent=2)


def test_a_closed_stream_is_refused() -> None:
    out = io.BytesIO()
    out.close()
    with pytest.raises(SinkRefused, match="stdout is closed"):
        StdoutSink(StdoutSpec("out"), out).write(TARGET, [Write("1", 1, b"{}")], refresh=False)


PRINTER = """
import sys
from typing import Any
from flusso.document import Write
from flusso.errors import SinkRefused
from flusso.sinks.base import IndexTarget
from flusso.sinks.stdout import StdoutSpec
sink = StdoutSpec("out").open()
try:
    while True:
        sink.write(IndexTarget("books", "d", 1), [Write("1", 1, b"{}")], refresh=False)
except SinkRefused as error:
    print(error, file=sys.stderr)
print("whatever the command still has to say")
"""


def test_a_reader_that_goes_away_ends_without_a_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PRINTER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(30), said) == (0, "stdout is closed\n")


PRINTERS = """
import threading
from flusso.document import Write
from flusso.sinks.base import IndexTarget
from flusso.sinks.stdout import StdoutSpec
body = b'{"title":"' + b"x" * 300 + b'"}'
def work(name):
    sink = StdoutSpec("out").open()
    for number in range(15):
        writes = [Write(f"{name}-{number}-{n}", 1, body) for n in range(500)]
        sink.write(IndexTarget("books", "d", 1), writes, refresh=False)
threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_lines_of_threads_side_by_side_are_whole_where_python_does_not_buffer() -> None:
    done = subprocess.run([sys.executable, "-u", "-c", PRINTERS], stdout=subprocess.PIPE, check=True)
    lines = done.stdout.splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == len(lines) == 4 * 15 * 500


def test_searching_is_refused() -> None:
    with pytest.raises(SinkRefused, match="prints and keeps nothing"):
        StdoutSpec("out").open().search("books", "x", 1)


class _Narrow(io.BytesIO):
    """Takes a few bytes at a time, as a pipe does where Python does not buffer."""

    def write(self, data: Any, /) -> int:
        return super().write(bytes(data[:5]))


def test_a_pipe_that_takes_a_few_bytes_at_a_time_gets_them_all() -> None:
    out = _Narrow()
    StdoutSink(StdoutSpec("out"), out).write(TARGET, [Write("1", 7, b'{"price":1.00}')], refresh=False)
    assert out.getvalue() == printed(Write("1", 7, b'{"price":1.00}'))
