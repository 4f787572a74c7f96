"""The words around a match."""

from __future__ import annotations

import pytest

from flusso.cli.snippet import snippet


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("momo", "The story of **Momo**"),
        ("MOMO story", "The **story** of **Momo**"),
        ("elegant", "Très **élégant**"),
        ("absent", ""),
        ("title", ""),
        ("", ""),
    ],
)
def test_matched_words_are_marked_in_the_text_that_has_most_of_them(query: str, expected: str) -> None:
    body = '{"title":"The story of Momo","n":5,"reviews":[{"comment":"Très élégant"},{"comment":"x"}]}'
    assert snippet(body, query) == expected


def test_a_long_text_is_cut_around_the_match() -> None:
    found = snippet('{"a":"' + "word " * 100 + "needle " + "word " * 100 + '"}', "needle")
    assert found.startswith("…")
    assert found.endswith("…")
    assert "**needle**" in found
    assert len(found) < 150
