"""The layers of ARCHITECTURE.md, kept by looking at the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "flusso"
NOUNS = {"diagnostic", "errors", "lsn", "catalog", "change", "debt", "document", "seeding"}
MAY_IMPORT = {
    "schema": NOUNS,
    "config": NOUNS | {"schema"},
    "postgres": NOUNS | {"schema"},
    "capture": NOUNS | {"postgres"},
    "builder": NOUNS | {"schema", "postgres"},
    "sinks": NOUNS | {"schema"},
    "engine": NOUNS | {"schema", "postgres", "capture", "builder", "sinks.base"},
    "ops": NOUNS | {"schema", "engine.events"},
    "demo": NOUNS | {"cli", "config", "engine", "postgres", "capture", "sinks", "schema"},
    "spark": {"engine"},
    "cli": None,
}
NOUN_IMPORTS = {
    "diagnostic": set(),
    "errors": {"diagnostic"},
    "lsn": {"errors"},
    "catalog": {"errors", "lsn"},
    "change": {"errors", "lsn", "catalog"},
    "debt": {"lsn"},
    "document": {"debt", "errors", "lsn"},
    "seeding": set(),
}
LIVES_IN = {
    "pyspark": {"engine"},
    "psycopg": {"postgres", "capture", "builder", "engine"},
    "ruamel": {"schema"},
    "pydantic": {"schema", "config"},
    "opensearchpy": {"sinks"},
    "elasticsearch": {"sinks"},
    "elastic_transport": {"sinks"},
    "typer": {"cli"},
    "rich": {"cli", "demo"},
    "sqlite3": {"sinks"},
}
PURE = [
    "capture/protocol.py",
    "capture/pgoutput.py",
    "capture/transactions.py",
    "capture/rows.py",
    "builder/statement.py",
    "builder/paths.py",
    "builder/plan.py",
    "builder/check/fit.py",
    "builder/check/kinds.py",
    "schema/mapping.py",
    "schema/digest.py",
    "schema/parse.py",
    "engine/policy.py",
    "engine/pace.py",
    "engine/filling.py",
    "seeding.py",
    "engine/blind.py",
    "engine/verify/compare.py",
    "engine/verify/judge.py",
    "engine/offsets.py",
    "engine/standalone/offsets.py",
    "postgres/array_text.py",
]
IMPURE_MODULES = {
    "socket",
    "time",
    "threading",
    "psycopg",
    "subprocess",
    "sqlite3",
    "requests",
    "opensearchpy",
    "elasticsearch",
}
LONGEST = 500

MODULES = sorted(SRC.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(SRC))


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _own(path: Path) -> set[str]:
    """Imported parts of flusso, as `package.module.name` without the leading `flusso.`."""
    return {name.removeprefix("flusso.") for name in _imports(path) if name.startswith("flusso.")}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    parts = path.relative_to(SRC).parts
    layer = parts[0] if len(parts) > 1 else path.stem
    if layer == "__init__":
        return
    allowed = NOUN_IMPORTS[layer] if layer in NOUN_IMPORTS else MAY_IMPORT[layer]
    if allowed is None:
        return
    for name in _own(path):
        top, two = name.split(".")[0], ".".join(name.split(".")[:2])
        assert top == layer or top in allowed or two in allowed or top == "__version__", (
            f"{layer} may not import {name}"
        )


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_library_is_imported_only_where_it_lives(path: Path) -> None:
    layer = path.relative_to(SRC).parts[0]
    for name in _imports(path):
        home = LIVES_IN.get(name.split(".")[0])
        assert home is None or layer in home, f"{name} lives in {home}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_is_not_longer_than_a_reader_bears(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_opens_with_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_touches_no_socket_clock_or_connection(name: str) -> None:
    tops = {imported.split(".")[0] for imported in _imports(SRC / name)}
    assert not tops & IMPURE_MODULES
    assert not {own for own in _own(SRC / name) if own.startswith("postgres.connect")}


def test_stages_do_not_import_each_other_in_a_circle() -> None:
    graph = {
        _name(path): {
            _name(target)
            for own in _own(path)
            for target in MODULES
            if own == ".".join(target.relative_to(SRC).with_suffix("").parts)
            or own.rpartition(".")[0] == ".".join(target.relative_to(SRC).with_suffix("").parts)
        }
        for path in MODULES
    }
    done: set[str] = set()

    def visit(node: str, trail: tuple[str, ...]) -> None:
        assert node not in trail, " → ".join((*trail, node))
        if node not in done:
            for target in graph[node] - {node}:
                visit(target, (*trail, node))
            done.add(node)

    for node in graph:
        visit(node, ())
