"""The documents tell the truth: their links resolve, what they name exists, their example builds."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer

from fix_postgres import Database
from flusso import errors
from flusso.builder.plan import IndexPlan, compile_index, watched_tables
from flusso.builder.ranges import plan_ranges, read_range
from flusso.builder.read import read_documents
from flusso.builder.references import find_references
from flusso.capture.coverage import inspect_coverage
from flusso.catalog import Catalog, TableName
from flusso.cli.main import app
from flusso.config.deployment import (
    BatchSettings,
    Deployment,
    ElasticsearchSettings,
    IndexSettings,
    OpenSearchSettings,
    SourceSettings,
    SparkSettings,
    SqliteSettings,
    StdoutSettings,
)
from flusso.config.load import load_deployment
from flusso.diagnostic import Code
from flusso.postgres.introspect import read_catalog
from flusso.schema.model import IndexSchema, tables_of
from flusso.schema.parse import parse_schema
from test_configuration_guide import leaf_commands
from test_layers import MAY_IMPORT, NOUNS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
_NOT_OURS = {".venv", "node_modules", ".git", ".pytest_cache"}
PAGES = sorted(page for page in ROOT.rglob("*.md") if not _NOT_OURS & set(page.relative_to(ROOT).parts))
ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_INDENT = re.compile(r'"(?:[^"\\]|\\.)*"|\s+')


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _example(kind: str) -> str:
    """Give the code block that follows the mark of this name in the README."""
    found = re.search(rf"<!-- example: {kind} -->\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"the README has no example of {kind}"
    return found[1]


def _table(name: str) -> list[list[str]]:
    """Give the rows of a marked table in the README, without its two head lines."""
    found = re.search(rf"<!-- table: {name} -->\n((?:\|.*\n)+)", README)
    assert found, f"the README has no table of {name}"
    return _rows(found[1])


def _rows(table: str) -> list[list[str]]:
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in lines]


def _plain(cell: str) -> str:
    return cell.strip("` ")


def _commands() -> dict[str, set[str]]:
    """Every command of the application with its flags."""
    group = typer.main.get_command(app)
    return {name: _flags(command) for name, command in group.commands.items()}  # type: ignore[attr-defined]


def _flags(command: Any) -> set[str]:
    """The flags of a command, or of all commands in a group."""
    own = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*(_flags(inner) for inner in getattr(command, "commands", {}).values()))


def _named_calls(text: str) -> Iterator[tuple[str, str]]:
    """Find `flusso <command> …` in code spans and code blocks: the command, and what follows it."""
    blocks = [line for block in _FENCE.findall(text) for line in block.splitlines()]
    spans = _CODE.findall(_FENCE.sub("", text))
    for code in (*blocks, *spans):
        found = re.match(r"(?:\S*/)?flusso ([a-z]+)([^#|]*)", code.strip())
        if found:
            yield found[1], found[2]


# Links


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} is not there"
        assert file.is_relative_to(ROOT), f"{target} leads out of the project"
        if anchor:
            assert anchor in _anchors(file), f"{target} names no heading"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_make_task_that_a_page_names_is_in_the_makefile(page: Path) -> None:
    tasks = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    named = set(re.findall(r"`make ([a-z]+)`", text))
    for block in _FENCE.findall(text):
        named |= set(re.findall(r"^make ([a-z]+)", block, re.MULTILINE))
    assert named <= tasks


# Commands


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_and_flag_that_a_page_names_exists(page: Path) -> None:
    known = _commands()
    groups = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for command, rest in _named_calls(page.read_text()):
        assert command in known, f"flusso {command}"
        inner = getattr(groups[command], "commands", {})
        assert not inner or not rest.split() or rest.split()[0] in inner, f"flusso {command}{rest}"
        for flag in re.findall(r"--[a-z-]+", rest):
            assert flag in known[command], f"flusso {command} {flag}"


def test_the_readme_lists_every_command_and_no_other() -> None:
    assert [_plain(row[0]) for row in _table("commands")] == [f"flusso {name}" for name in _commands()]


def test_every_flag_in_the_readme_belongs_to_a_command() -> None:
    known = set().union(*_commands().values())
    assert {flag for code in _CODE.findall(README) for flag in re.findall(r"^--[a-z-]+", code)} <= known


def test_every_flag_has_a_twin_in_the_environment() -> None:
    group = typer.main.get_command(app)
    for name, command in leaf_commands(group):
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert str(parameter.envvar).startswith("FLUSSO_"), f"{name} {parameter.name}"


def test_the_exit_codes_in_the_readme_are_those_of_the_errors() -> None:
    branches: list[type[errors.FlussoError]] = [errors.FlussoError, *errors.FlussoError.__subclasses__()]
    rows = {(int(row[0]), _plain(row[1])) for row in _table("exit codes")}
    assert rows == {(0, "")} | {(branch.exit_code, branch.__name__) for branch in branches}


def test_the_guide_lists_every_code_of_a_finding_with_its_severity() -> None:
    page = (ROOT / "docs" / "guides" / "diagnostics.md").read_text()
    found = re.search(r"<!-- table: codes -->\n((?:\|.*\n)+)", page)
    assert found
    rows = [(_plain(row[0]), row[1]) for row in _rows(found[1])]
    assert rows == [(code.value, code.severity.value) for code in Code]


# Configuration


_SECTIONS: dict[str, type] = {
    "": Deployment,
    "source.": SourceSettings,
    "spark.": SparkSettings,
    "batch.": BatchSettings,
    "index.": IndexSettings,
}
_NOT_KEYS = {"warnings", "source", "spark", "batch", "sinks", "indexes", "index.schema_path"}
_WRITTEN = {"source.connection": "source.connection_url"}
_ONLY_IN_THE_FILE = {("on_error", "stop"), ("keep_generations", "0"), ("source.type", "")}
"""Settled while reading: a default for every index, and a word that has one value."""


def _shown(default: object) -> str:
    match default:
        case bool():
            return str(default).lower()
        case Enum():
            return str(default.value)
        case float():
            return f"{default:g}"
        case int() | str():
            return str(default)
        case _:
            return ""


def _keys_of(settings: type, prefix: str = "") -> set[tuple[str, str]]:
    found = {(prefix + item.name, _shown(item.default)) for item in dataclasses.fields(settings)}
    return {(_WRITTEN.get(name, name), default) for name, default in found if name not in _NOT_KEYS}


def test_the_readme_lists_every_key_of_the_configuration_with_its_default() -> None:
    expected = _ONLY_IN_THE_FILE.union(*(_keys_of(kind, prefix) for prefix, kind in _SECTIONS.items()))
    assert {(_plain(row[0]), _plain(row[1])) for row in _table("keys")} == expected


def test_the_readme_lists_every_key_of_every_sink_with_its_default() -> None:
    both = "opensearch`, `elasticsearch"
    assert _keys_of(OpenSearchSettings) == _keys_of(ElasticsearchSettings)
    kinds = {both: OpenSearchSettings, "sqlite": SqliteSettings, "stdout": StdoutSettings}
    expected = {
        (kind, *key) for kind, settings in kinds.items() for key in _keys_of(settings) if key[0] != "name"
    }
    found: set[tuple[str, str, str]] = set()
    kind = ""
    for row in _table("sinks"):
        kind = _plain(row[0]) or kind
        found.add((kind, _plain(row[1]), _plain(row[2])))
    assert found == expected


def test_the_configuration_in_the_readme_loads(tmp_path: Path) -> None:
    (tmp_path / "flusso.toml").write_text(_example("config"))
    (tmp_path / "customers.schema.yml").write_text(_example("schema"))
    given = {
        "DATABASE_URL": "postgresql://h/shop",
        "SEARCH_OPENSEARCH_USERNAME": "me",
        "SEARCH_OPENSEARCH_PASSWORD": "mine",
    }
    deployment = load_deployment(tmp_path / "flusso.toml", env=given)
    assert [index.name for index in deployment.indexes] == ["customers"]


# The example


def _schema() -> IndexSchema:
    return parse_schema(_example("schema"), file="README.md")


def _compiled(database: Database) -> tuple[IndexPlan, Catalog]:
    database.execute(_example("sql"))
    with database.connect() as conn:
        catalog = read_catalog(conn, tables_of(_schema()))
    return compile_index("customers", _schema(), catalog), catalog


def test_the_schema_in_the_readme_parses() -> None:
    assert [item.name for item in _schema().fields] == [
        *("id", "name", "email", "orders", "orderCount", "lifetimeValue", "tags")
    ]


@pytest.mark.postgres
def test_the_document_in_the_readme_is_what_its_rows_become(database: Database) -> None:
    plan, _ = _compiled(database)
    with database.connect() as conn:
        (built,) = read_documents(conn, plan, [("7",)])
    written = _INDENT.sub(lambda found: found[0] if found[0].startswith('"') else "", _example("document"))
    assert built.id == "7"
    assert built.body == written.encode()


@pytest.mark.postgres
def test_the_example_of_the_readme_is_the_same_by_key_and_by_range(database: Database) -> None:
    plan, _ = _compiled(database)
    with database.connect() as conn:
        by_key = read_documents(conn, plan, [("7",)])
        ranges = plan_ranges(conn, plan, 8)
        by_range = [
            built for block_range in ranges for part in read_range(conn, plan, block_range) for built in part
        ]
    assert by_range == by_key


@pytest.mark.postgres
def test_what_is_blind_in_the_example_is_kept_exact_by_references(database: Database) -> None:
    plan, catalog = _compiled(database)
    with database.connect() as conn:
        blind = inspect_coverage(conn, "flusso", watched_tables([plan])).identities
    kept = {reference.table for reference in find_references(plan.paths, catalog)}
    assert {need.table for need in blind} == kept == {TableName("public", "orders")}


# The other pages


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_folder_of_tests_that_a_page_names_is_there(page: Path) -> None:
    for folder in re.findall(r"`(tests/[a-z0-9_]+)/`", page.read_text()):
        assert any((ROOT / folder).glob("test_*.py")), folder


def test_the_architecture_fits_two_hundred_lines() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 200


def test_the_layer_table_of_the_architecture_is_the_one_that_is_kept() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    found = re.search(r"\| package \| may import.*\n((?:\|.*\n)+)", text)
    assert found
    kept = {layer: allowed for layer, allowed in MAY_IMPORT.items() if allowed is not None}
    written: dict[str, set[str]] = {}
    for row in _rows("|\n" + found[1]):
        words = set(_CODE.findall(row[1])) | (NOUNS if "nouns" in row[1] else set())
        written[_plain(row[0])] = words
    assert {layer: written[layer] for layer in kept} == kept
    assert set(written) == set(MAY_IMPORT) | {"the nouns"}


@pytest.mark.parametrize("page", ADRS, ids=_name)
def test_a_decision_has_its_four_parts_and_fits_a_page(page: Path) -> None:
    text = page.read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Context", "Options", "Decision", "Where it is enforced"]
    assert len(text.splitlines()) <= 70


@pytest.mark.parametrize("page", ADRS, ids=_name)
def test_a_decision_is_in_the_index_under_its_title(page: Path) -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    number, title = re.match(r"# (\d+)\. (.+)", page.read_text()).groups()  # type: ignore[union-attr]
    assert page.name.startswith(f"{int(number):04}-")
    row = re.search(rf"\| \[{int(number):04}\]\({re.escape(page.name)}\) \| (.+) \|", index)
    assert row
    assert row[1] == title


@pytest.mark.parametrize("page", ADRS, ids=_name)
def test_every_function_that_a_decision_names_is_in_a_file_that_it_links(page: Path) -> None:
    _, _, enforced = page.read_text().partition("## Where it is enforced")
    files = [page.parent / target for target in _LINK.findall(enforced) if target.endswith(".py")]
    assert files
    source = "\n".join(file.read_text() for file in files)
    for code in _CODE.findall(_LINK.sub("", enforced)):
        if re.fullmatch(r"[A-Za-z_]+(\.[a-z_]+)?", code) and code not in ("synchronous_standby_names",):
            assert code.rpartition(".")[2] in source, code


@pytest.mark.parametrize("path", FRAGMENTS, ids=_name)
def test_a_change_fragment_is_named_by_its_kind_and_is_short(path: Path) -> None:
    assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md", path.name)
    text = path.read_text()
    assert 1 <= len(text.splitlines()) <= 5
    assert not text.startswith("#")
