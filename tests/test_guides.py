"""The guides tell the truth: every example of a schema builds the document that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest

from fix_postgres import Database
from flusso.builder.plan import compile_index
from flusso.builder.read import read_documents
from flusso.postgres.introspect import read_catalog
from flusso.schema.json_schema import index_schema
from flusso.schema.mapping import index_mapping
from flusso.schema.model import tables_of
from flusso.schema.node import Problems
from flusso.schema.parse import KEYS, parse_schema
from flusso.schema.rules import TAGS
from flusso.schema.section import to_json
from flusso.schema.yaml_nodes import read_yaml

GUIDE = (Path(__file__).parents[1] / "docs" / "guides" / "schema.md").read_text()
_EXAMPLE = re.compile(
    r"<!-- example: (\S+) -->\n```yaml\n(.*?)^```\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
EXAMPLES = {found[1]: (found[2], found[3]) for found in _EXAMPLE.finditer(GUIDE)}
_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|\s+')


def _dense(text: str) -> str:
    """Take away the spaces between tokens, which are all that the layout adds."""
    return _SPACE.sub(lambda found: found[0] if found[0].startswith('"') else "", text)


def test_there_is_an_example_of_every_tag_and_of_what_chooses_rows() -> None:
    assert set(EXAMPLES) == TAGS | {"filters", "soft_delete"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_uses_what_it_is_the_example_of(name: str) -> None:
    assert re.search(rf"^\s*(- )?{name}:", EXAMPLES[name][0], re.MULTILINE)
    assert f"### `{name}`" in GUIDE


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_whole_file_that_an_editor_finds_valid(name: str) -> None:
    node = read_yaml(EXAMPLES[name][0], Problems(name))
    assert node is not None
    jsonschema.validate(to_json(node), index_schema())
    assert index_mapping(
        parse_schema(EXAMPLES[name][0], file=name), text_analysis="builtin", auto_subfields=True
    )


def test_every_key_of_the_file_is_in_its_table() -> None:
    found = re.search(r"## The file\n\n((?:\|.*\n)+)", GUIDE)
    assert found
    assert tuple(re.findall(r"^\| `(\w+)`", found[1], re.MULTILINE)) == KEYS


@pytest.mark.postgres
def test_every_example_builds_the_document_that_it_shows(database: Database) -> None:
    tables = re.search(r"<!-- sql -->\n```sql\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert tables
    database.execute(tables[1])
    built: dict[str, str] = {}
    with database.connect() as conn:
        for name, (text, _) in EXAMPLES.items():
            schema = parse_schema(text, file=name)
            plan = compile_index(name, schema, read_catalog(conn, tables_of(schema)))
            (document,) = read_documents(conn, plan, [("1",)])
            assert document.body is not None, name
            built[name] = _dense(document.body.decode())
    assert built == {name: _dense(document) for name, (_, document) in EXAMPLES.items()}
