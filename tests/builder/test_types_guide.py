"""The guide to types is true: every row of its tables."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from declared import compiled, followed, root, scalar

from fix_postgres import Database
from flusso.builder.check.kinds import fits
from flusso.catalog import Column
from flusso.document import id_text
from flusso.schema.mapping import index_mapping
from flusso.schema.model import TEXT_KINDS, ScalarKind
from flusso.sinks.search.mend import mend
from typematrix import TYPES

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "types.md").read_text()
ANY_TYPE = "any type, as its text"
JSON_VALUES = {
    "an object with the same key twice": '{"a":1,"a":2}',
    "a number of more than 1,000 digits": "1" * 1001,
    "arrays directly within arrays, more than 20 with those of the relations around": "[" * 21 + "]" * 21,
    "anything nested so that the document has more than 1,000 levels": '{"a":' * 1000 + "1" + "}" * 1000,
    "a key of more than 50,000 characters": '{"' + "k" * 50_001 + '":1}',
}
LONG = "x" * 513


def _table(name: str) -> list[list[str]]:
    found = re.search(rf"<!-- table: {name} -->\n((?:\|.*\n)+)", GUIDE)
    assert found, name
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in found[1].splitlines()[2:]]


def _code(cell: str) -> str:
    return cell.strip("`")


def test_every_kind_is_listed_with_the_types_it_takes_and_its_mapping() -> None:
    shown = {_code(kind): (types, _code(mapping)) for kind, types, mapping in _table("kinds")}
    assert list(shown) == sorted(shown, key=[str(kind) for kind in ScalarKind].index)
    for kind in ScalarKind:
        types, mapped = shown[kind]
        schema = root("t", scalar("f", kind))
        mappings = index_mapping(schema, text_analysis="builtin", auto_subfields=True)["mappings"]
        assert mappings["properties"]["f"]["type"] == mapped, kind  # type: ignore[call-overload,index]
        if kind in TEXT_KINDS:
            assert types == ANY_TYPE
        else:
            taken = {name for name in TYPES if fits(Column("c", name, name), kind)}
            assert set(re.findall(r"`(\w+)`", types)) == taken, kind


@pytest.mark.postgres
def test_every_value_is_rendered_as_the_guide_says(database: Database) -> None:
    rows = [[_code(cell) for cell in row] for row in _table("renderings")]
    columns = ", ".join(f"c{n} {row[1]}" for n, row in enumerate(rows))
    values = ", ".join(row[2].replace("∥", "||") for row in rows)
    database.execute(f"create table things (id int primary key, {columns})")
    database.execute(f"insert into things values (1, {values})")
    fields = [scalar(f"c{n}", row[0]) for n, row in enumerate(rows)]
    (built,) = followed(database, compiled(database, root("things", *fields)), ("1",))
    text = (built.body or b"").decode()
    for n, (kind, column, value, shown) in enumerate(rows):
        expected = re.escape(f'"c{n}":{shown}').replace("…", ".+")
        end = rf',"c{n + 1}"' if n + 1 < len(rows) else "}$"
        assert re.search(expected + end, text), f"{kind} over {column} of {value} is not {shown}"


def test_json_that_a_search_server_refuses_is_kept_as_its_text() -> None:
    for shown, kept in _table("json"):
        value = JSON_VALUES.get(shown) or _code(shown)
        mended = mend(f'{{"j":{value}}}'.encode(), {"j": None})
        if kept == "as it is":
            assert mended is None, shown
        else:
            assert json.loads(mended or b"{}") == {"j": value}, shown


def test_ids_are_as_the_guide_says() -> None:
    words = {"the empty text": "", "more than 512 bytes": LONG}
    for shown, id_ in _table("ids"):
        parts = [_code(words.get(part, part)).replace("∥", "|") for part in shown.split(" and ")]
        expected = _code(id_).replace("∥", "|").replace("…", hashlib.sha256(LONG.encode()).hexdigest())
        assert id_text(tuple(parts)) == expected, shown
