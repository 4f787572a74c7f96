"""What `search` prints of its hits."""

from __future__ import annotations

import json

import pytest

from flusso.cli.search import json_of, print_hits
from flusso.sinks.base import Hit


def test_hits_are_json_with_every_digit_of_their_documents() -> None:
    shown = json_of([Hit('a"[/b]', 1.5, b'{"n":1.00,"s":"\xc3\xa9"}'), Hit("2", 0.25, b"{}")])
    assert '"n": 1.00' in shown
    assert [(hit["id"], hit["score"], hit["document"].get("s")) for hit in json.loads(shown)] == [
        ('a"[/b]', 1.5, "é"),
        ("2", 0.25, None),
    ]


def test_no_hits_are_an_empty_list() -> None:
    assert json.loads(json_of([])) == []


def test_a_document_that_python_cannot_decode_is_shown_as_it_is() -> None:
    deep = "[" * 3000 + "1" * 5000 + "]" * 3000
    assert "".join(json_of([Hit("1", 1.0, deep.encode())]).split()).endswith(f'"document":{deep}}}]')


def test_ids_and_documents_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_hits([Hit("a[/b]\\", 1.5, b'{"s":"[red] :smile:"}')], "red")
    printed = capsys.readouterr().out
    assert "a[/b]\\  1.50" in printed
    assert '{"s":"[red] :smile:"}' in printed
