"""Analyzers and normalizers that `options` may name."""

from __future__ import annotations

import json

import pytest

from flusso.diagnostic import Code
from flusso.errors import SchemaError
from flusso.schema.analysis import TextAnalysis, analysis_settings
from flusso.schema.analyzers import ANALYZERS, NORMALIZERS
from flusso.schema.parse import parse_schema


def problems(options: str) -> list[tuple[str, str | None, str]]:
    with pytest.raises(SchemaError) as caught:
        parse_schema(f"version: 1\ntable: t\nfields:\n- text: a\n  options: {options}", file="f")
    assert {problem.code for problem in caught.value.problems} == {Code.UNKNOWN_ANALYZER}
    return [(problem.message, problem.hint, problem.path) for problem in caught.value.problems]


def test_an_unknown_analyzer_is_found_with_the_one_that_was_meant() -> None:
    assert problems("{analyzer: itallian, search_analyzer: flusso_txt}") == [
        ('there is no analyzer "itallian"', 'did you mean "italian"?', "fields[0].options.analyzer"),
        (
            'there is no analyzer "flusso_txt"',
            'did you mean "flusso_text"?',
            "fields[0].options.search_analyzer",
        ),
    ]


def test_an_unknown_analyzer_of_a_subfield_is_found() -> None:
    assert problems("{fields: {sub: {type: keyword, normalizer: 3}}}") == [
        ('there is no normalizer "a number"', None, "fields[0].options.fields.sub.normalizer")
    ]


@pytest.mark.parametrize("name", sorted(ANALYZERS))
def test_a_known_analyzer_is_no_problem(name: str) -> None:
    parse_schema(f"version: 1\ntable: t\nfields:\n- text: a\n  options: {{analyzer: {name}}}", file="f")


@pytest.mark.parametrize("analysis", [TextAnalysis.BUILTIN, TextAnalysis.ICU])
def test_our_own_analyzers_are_known(analysis: TextAnalysis) -> None:
    settings = json.loads(json.dumps(analysis_settings(analysis, {})))
    found = settings.get("analysis", settings)
    assert set(found["analyzer"]) <= ANALYZERS
    assert set(found["normalizer"]) <= NORMALIZERS
