"""Each thing that a schema file alone can show wrong, with the place where it is said to be wrong."""

from __future__ import annotations

from textwrap import dedent

import pytest
from refused_fields import FIELDS, ROOT, TAGS
from refused_relations import AGGREGATES, FILTERS, JOINS

from flusso.errors import SchemaError
from flusso.schema.parse import parse_schema


def problems(text: str) -> list[str]:
    """Give the problems of a file as `line:column: path: message`."""
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, file="f")
    return [str(problem).removeprefix("f:") for problem in caught.value.problems]


def problems_of_fields(fields: str) -> list[str]:
    """Give the problems of fields that begin on line 5 of a file with a key of one column."""
    return problems("version: 1\ntable: customers\nprimary_key: id\nfields:\n" + dedent(fields).lstrip("\n"))


@pytest.mark.parametrize("case", ROOT)
def test_at_the_root_is_refused(case: str) -> None:
    text, expected = ROOT[case]
    assert problems(text) == expected


@pytest.mark.parametrize("case", [*FIELDS, *JOINS, *AGGREGATES, *TAGS])
def test_in_the_fields_is_refused(case: str) -> None:
    text, expected = (FIELDS | JOINS | AGGREGATES | TAGS)[case]
    assert problems_of_fields(text) == expected


@pytest.mark.parametrize("case", FILTERS)
def test_in_the_filters_is_refused(case: str) -> None:
    text, expected = FILTERS[case]
    found = problems(f"version: 1\ntable: t\nfields: [{{text: a}}]\nfilters:\n- {text}")
    shifted = []
    for line in expected:
        place, message = line.split(": ", 1)
        column, _, key = place.partition(".")
        shifted.append(f"5:{int(column) + 2}: filters[0]{'.' + key if key else ''}: {message}")
    assert found == shifted
