"""Every built-in type, its array, and domains over both: built, and written under the strict mapping."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from declared import compiled, has_one, root, scalar, seeded

from fix_postgres import Database
from flusso.builder.check.kinds import fits
from flusso.builder.complete import complete
from flusso.builder.read import Built
from flusso.catalog import Column
from flusso.document import Write
from flusso.postgres.introspect import read_catalog
from flusso.postgres.values import TEXT_KINDS
from flusso.schema.mapping import text_field_names
from flusso.schema.model import IndexSchema, ScalarKind, tables_of
from flusso.sinks.base import IndexTarget, Sink
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec
from typematrix import MADE, TYPES, UNFILLABLE, UNFIT_JSON, Value

pytestmark = pytest.mark.postgres

_BUILT_IN = """
select typname::text
from pg_type
where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'r', 'm') and typcategory <> 'A'
"""
FORMS = ("plain", "domains", "arrays", "domains_of_arrays", "arrays_of_domains")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value in a column: its SQL, and the JSON that a kind makes of it."""

    sql: str
    json: Callable[[str], str]


def test_no_built_in_type_is_forgotten(database: Database) -> None:
    known = {str(name) for (name,) in database.execute(_BUILT_IN)}
    assert known - UNFILLABLE == {name for name in TYPES if not name.startswith("public.")}


def test_no_kind_that_takes_a_type_is_forgotten() -> None:
    for name, values in TYPES.items():
        for value in values:
            expected = {kind for kind in ScalarKind if fits(_column(name), kind)}
            assert {*_kinds(name), *TEXT_KINDS} == expected, name
            assert all(_shown(value, name, kind) for kind in _kinds(name))


def test_every_type_renders_as_documented(database: Database) -> None:
    schema = _create(database)
    expected = {id_: _document(row) for id_, row in _rows()}
    found = {built.id: _text(built) for built in seeded(database, compiled(database, schema))}
    assert found.keys() == expected.keys()
    for id_, document in expected.items():
        _assert_same(found[id_], document)


def test_every_type_is_taken_by_an_embedded_index_as_it_is(database18: Database, tmp_path: Path) -> None:
    schema = _create(database18)
    target = IndexTarget("things", "a" * 64, 1, text_field_names(schema))
    sink = SqliteSpec("local", tmp_path / "index.db").open()
    sink.ensure(target, schema)
    built = seeded(database18, compiled(database18, schema))
    result = sink.write(target, [Write(each.id, 5, each.body) for each in built], refresh=True)
    stored = sink.read(target, [each.id for each in built])
    sink.close()
    assert (result.written, result.refusals) == (len(built), ())
    assert all(stored[each.id].body == each.body for each in built)


@pytest.mark.opensearch
def test_every_type_is_taken_by_a_strict_index_and_comes_back(
    database18: Database, opensearch_url: str
) -> None:
    schema = _create(database18)
    with database18.connect() as conn:
        whole = complete(schema, read_catalog(conn, tables_of(schema)))
    spec = OpenSearchSpec("search", (opensearch_url,), prefix="typematrix_", number_of_replicas=0)
    target = IndexTarget("things", "a" * 64, 1)
    sink = spec.open()
    try:
        sink.ensure(target, whole)
        built = seeded(database18, compiled(database18, schema))
        _assert_comes_back(sink, target, built)
    finally:
        sink._server.request("DELETE", "/typematrix_*")  # type: ignore[attr-defined]
        sink.close()


def _assert_comes_back(sink: Sink, target: IndexTarget, built: list[Built]) -> None:
    result = sink.write(target, [Write(each.id, 5, each.body) for each in built], refresh=True)
    assert result.refusals == ()
    assert result.written == len(built)
    stored = sink.read(target, [each.id for each in built])
    for id_, row in _rows():
        _assert_same(stored[id_].body.decode(), _document(row, is_in_index=True))


def _assert_same(found: str, expected: str) -> None:
    """Compare long texts without handing both to pytest, which would compute their difference for minutes."""
    if found != expected:
        at = next(n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b)
        pytest.fail(f"at {at}: {found[max(0, at - 200) : at + 80]} instead of …{expected[at : at + 80]}")


# The tables: one for each form, all hanging on one root, so that a document has them all.


def _create(database: Database) -> IndexSchema:
    database.execute(MADE)
    rows = list(_rows())
    database.execute("create table things (id int primary key)")
    for name in TYPES:
        database.execute(
            f'create domain "d {name}" as {_sql(name)}; create domain "a {name}" as {_sql(name)}[]'
        )
    for form in FORMS:
        columns = ", ".join(f'"{name}" {_form_type(form, name)}' for name in TYPES)
        unfillable = ", ".join(f'"{name}" {name}' for name in sorted(UNFILLABLE)) if form == "plain" else ""
        database.execute(
            f"create table {form} (id int primary key, {columns}{', ' * bool(unfillable)}{unfillable})"
        )
    for id_, row in rows:
        database.execute(f"insert into things values ({id_})")
        for form, cells in row.items():
            names = ", ".join(f'"{name}"' for name in cells)
            values = ", ".join(cell.sql for cell in cells.values())
            if cells:
                database.execute(f"insert into {form} (id, {names}) values ({id_}, {values})")
    return root("things", *(_join(form) for form in FORMS))


def _join(form: str):  # type: ignore[no-untyped-def]
    fields = [scalar(_field(name, kind), kind, name) for name in TYPES for kind in _kinds(name)]
    if form == "plain":
        fields += [scalar(name, "keyword") for name in sorted(UNFILLABLE)]
    return has_one(form, form, ("id",), *fields)


def _rows() -> Iterator[tuple[str, dict[str, dict[str, Cell]]]]:
    """By id what each form's table holds; the first row has no values at all."""
    count = max(map(len, TYPES.values()))
    for n in range(-1, count):
        yield str(n + 1), {form: _cells(form, n) for form in FORMS}


def _cells(form: str, n: int) -> dict[str, Cell]:
    cells = {}
    for name, values in TYPES.items():
        if form in ("plain", "domains"):
            if 0 <= n < len(values):
                cells[name] = _single(name, values[n])
        elif 0 <= n < 3:
            cells[name] = _array(form, name, values, n)
    return cells


def _single(name: str, value: Value) -> Cell:
    return Cell(f"{_quoted(value.text)}::{_sql(name)}", lambda kind: _shown(value, name, kind))


def _array(form: str, name: str, values: list[Value], n: int) -> Cell:
    """All values and a null; then two dimensions; then nothing."""
    few = (
        [value for value in values if not value.text.startswith(UNFIT_JSON)]
        if name in ("json", "jsonb")
        else values
    )
    rows: list[list[Value | None]] = [[*few, None]] if n == 0 else [[few[0], None], [few[-1], few[0]]]
    rows = [] if n == 2 else rows
    texts = [[_quoted(value.text) if value else "null" for value in row] for row in rows]
    inner = ", ".join(f"array[{', '.join(row)}]" if n else ", ".join(row) for row in texts)
    element = f'public."d {name}"' if form == "arrays_of_domains" else _sql(name)
    flat = [value for row in rows for value in row]
    return Cell(
        f"array[{inner}]::{element}[]",
        lambda kind: "[" + ",".join(_shown(value, name, kind) if value else "null" for value in flat) + "]",
    )


def _document(row: dict[str, dict[str, Cell]], *, is_in_index: bool = False) -> str:
    return "{" + ",".join(f'"{form}":{_object(form, row[form], is_in_index)}' for form in FORMS) + "}"


def _object(form: str, cells: dict[str, Cell], is_in_index: bool) -> str:
    if not cells:
        return "null"
    members = []
    for name in TYPES:
        for kind in _kinds(name):
            shown = cells[name].json(kind) if name in cells else "null"
            if is_in_index and kind == "json" and shown.startswith(UNFIT_JSON):
                shown = json.dumps(shown, ensure_ascii=False)
            members.append(f'"{_field(name, kind)}":{shown}')
    if form == "plain":
        members += [f'"{name}":null' for name in sorted(UNFILLABLE)]
    return "{" + ",".join(members) + "}"


def _shown(value: Value, name: str, kind: str) -> str:
    if kind in ("text", "identifier", "keyword", "enum"):
        return json.dumps(value.shown, ensure_ascii=False)
    return value.text if kind == "json" else value.by_kind[kind]


def _kinds(name: str) -> list[str]:
    """The kinds that take a type; those of text differ in the mapping alone, so most types show one."""
    texts = ["text", "identifier", "keyword", "enum"] if name in ("text", "public.mood") else ["keyword"]
    if name in ("json", "jsonb"):
        return [*texts, "json"]
    return texts + sorted(TYPES[name][0].by_kind)


def _field(name: str, kind: str) -> str:
    return f"{name.removeprefix('public.')} {kind}"


def _column(name: str) -> Column:
    bare = name.removeprefix("public.")
    return Column("c", name, bare)


def _form_type(form: str, name: str) -> str:
    match form:
        case "plain":
            return _sql(name)
        case "arrays":
            return f"{_sql(name)}[]"
        case "domains":
            return f'"d {name}"'
        case "domains_of_arrays":
            return f'"a {name}"'
        case _:
            return f'"d {name}"[]'


def _sql(name: str) -> str:
    return '"char"' if name == "char" else name


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _text(built: Built) -> str:
    assert built.body is not None
    return built.body.decode()
