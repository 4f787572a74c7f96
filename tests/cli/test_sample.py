"""`flusso sample`: one document, as a seed or a change would write it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fix_postgres import Database
from flusso.builder.plan import compile_index
from flusso.builder.read import read_documents
from flusso.cli.main import app
from flusso.document import id_text
from flusso.errors import ConfigError, DocumentMissing, SchemaError
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import tables_of
from flusso.schema.parse import parse_schema
from flusso.sinks.stdout import indented

pytestmark = pytest.mark.postgres

TABLES = """
create table people (id int primary key, name text, price numeric, gone boolean not null default false);
insert into people values (1, 'Ada "A" Rossi', 1.50, false), (2, 'Bo', null, true);
create table stock (shop text, "Item" int, n int, primary key (shop, "Item"));
insert into stock values ('a|b', 7, 3);
create table empty (id uuid primary key);
create table texts (k text primary key);
insert into texts values (''), (repeat('long', 200)), ('~');
create table prices (p numeric primary key);
insert into prices values (1.00);
"""
PEOPLE = """
version: 1
table: people
soft_delete: { column: gone }
fields: [{ integer: id }, { text: name }, { decimal: price }]
"""
STOCK = "version: 1\ntable: stock\nfields: [{ integer: n }]\n"
SCHEMAS = {
    "people": PEOPLE,
    "stock": STOCK,
    "empty": "version: 1\ntable: empty\nfields: [{ uuid: id }]\n",
    "texts": "version: 1\ntable: texts\nfields: [{ keyword: k }]\n",
    "prices": "version: 1\ntable: prices\nfields: [{ decimal: p }]\n",
}
CONFIG = """
[source]
type = "postgres"
[sinks.search]
type = "opensearch"
url = "http://127.0.0.1:1"
""" + "".join(
    f'[[index]]\nname = "{name}"\nschema = "{name}.yml"\nenabled = {str(name != "stock").lower()}\n'
    for name in SCHEMAS
)

Sample = Callable[..., Result]


@pytest.fixture
def sample(database18: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    database18.execute(TABLES)
    for name, text in SCHEMAS.items():
        (tmp_path / f"{name}.yml").write_text(text)
    (tmp_path / "flusso.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database18.dsn.text)
    return lambda *arguments: CliRunner().invoke(app, ["sample", *arguments])


def _missing(result: Result) -> DocumentMissing:
    assert isinstance(result.exception, DocumentMissing)
    return result.exception


def test_it_prints_the_bytes_that_would_be_written(sample: Sample, database18: Database) -> None:
    schema = parse_schema(PEOPLE, file="people.yml")
    with database18.connect() as conn:
        plan = compile_index("people", schema, read_catalog(conn, tables_of(schema)))
        (built,) = read_documents(conn, plan, [("1",)])
    assert built.body is not None
    assert sample("people", "1").stdout_bytes == built.body + b"\n"


def test_without_an_id_it_shows_some_document(sample: Sample) -> None:
    assert json.loads(sample("people").stdout)["name"] == 'Ada "A" Rossi'


def test_as_json_the_document_stands_in_a_frame_and_keeps_its_digits(sample: Sample) -> None:
    found = sample("people", "1", "--format", "json").stdout
    assert json.loads(found) | {"document": 0} == {"index": "people", "id": "1", "document": 0}
    assert '"price":1.50}}' in found


def test_on_a_terminal_it_is_laid_out(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sample("people", "1").stdout
    monkeypatch.setattr("flusso.cli.sample._is_terminal", lambda: True)
    assert sample("people", "1").stdout == indented(plain) + "\n"


def test_a_composite_id_is_given_as_the_index_has_it(sample: Sample) -> None:
    shown = json.loads(sample("stock", "--format", "json").stdout)
    assert shown["id"] == r"a\|b|7"
    assert json.loads(sample("stock", shown["id"]).stdout) == {"n": 3}


def test_empty_and_hashed_ids_are_given_as_the_index_has_them(sample: Sample) -> None:
    assert json.loads(sample("texts", "~").stdout) == {"k": ""}
    assert json.loads(sample("texts", "~~").stdout) == {"k": "~"}
    hashed = id_text(("long" * 200,))
    assert hashed.startswith("~sha256-")
    assert json.loads(sample("texts", hashed).stdout) == {"k": "long" * 200}
    assert "no such row" in str(_missing(sample("texts", hashed[:-1] + "x")))


def test_an_id_that_is_the_key_but_not_its_text_is_missing(sample: Sample) -> None:
    assert 'the row of this key is document "1.00"' in str(_missing(sample("prices", "1.0")))


def test_an_id_without_a_row_is_missing(sample: Sample) -> None:
    error = _missing(sample("people", "9"))
    assert str(error) == 'index "people" has no document "9": public.people has no such row'
    assert error.exit_code == 1


def test_a_row_that_is_left_out_is_missing_and_says_why(sample: Sample) -> None:
    assert "soft_delete" in str(_missing(sample("people", "2")))


def test_an_id_that_cannot_be_a_key_says_what_the_key_is(sample: Sample) -> None:
    assert "id (integer)" in str(_missing(sample("people", "ada")))
    assert "2 parts" in str(_missing(sample("stock", "a")))


def test_an_index_without_any_document_says_so(sample: Sample) -> None:
    assert "public.empty is empty" in str(_missing(sample("empty")))


def test_an_unknown_index_names_the_known_ones(sample: Sample) -> None:
    error = sample("persons").exception
    assert isinstance(error, ConfigError)
    assert error.hint == "one of: people, stock, empty, texts, prices"


def test_a_schema_that_does_not_fit_is_told_before_any_document(sample: Sample, database18: Database) -> None:
    database18.execute("alter table people drop column price")
    assert isinstance(sample("people").exception, SchemaError)
