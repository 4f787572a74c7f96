"""Points and maps: whatever a column holds, the document has one that an index takes, or null."""

from __future__ import annotations

import json
from typing import Any

import pytest
from declared import compiled, documents, followed, root, scalar, seeded

from fix_postgres import Database
from flusso.errors import SchemaError
from flusso.schema.model import Geo, Map, ScalarKind

pytestmark = pytest.mark.postgres

ROME = {"lat": 41.9, "lon": 12.5}

PAIRS: list[tuple[str, str, Any]] = [
    ("41.9", "12.5", ROME),
    ("null", "12.5", None),
    ("41.9", "null", None),
    ("90.1", "0", None),
    ("0", "-180.5", None),
    ("'NaN'", "0", None),
    ("'Infinity'", "0", None),
    ("-90", "180", {"lat": -90, "lon": 180}),
    ("1e-9", "0", {"lat": 1e-9, "lon": 0}),
]


@pytest.mark.parametrize("kind", ["numeric", "float8", "text"])
def test_two_columns_make_a_point_or_null(database18: Database, kind: str) -> None:
    rows = ", ".join(f"({n}, {lat}, {lon})" for n, (lat, lon, _) in enumerate(PAIRS))
    database18.execute(f"create table t (id int primary key, a {kind}, o {kind})")
    database18.execute(
        f"insert into t select id, a::{kind}, o::{kind} from (values {rows}) as v(id, a, o)"
        if kind != "text"
        else "insert into t values "
        + ", ".join(
            f"({n}, {lat if lat[0] in chr(39) + 'n' else repr(lat)}, {lon if lon == 'null' else repr(lon)})"
            for n, (lat, lon, _) in enumerate(PAIRS)
        )
    )
    found = documents(database18, root("t", Geo("place", lat="a", lon="o")))
    assert [found[str(n)]["place"] for n in range(len(PAIRS))] == [point for _, _, point in PAIRS]


def test_a_numeric_coordinate_has_no_more_digits_than_a_server_reads(database18: Database) -> None:
    database18.execute("create table t (id int primary key, a numeric, o numeric)")
    database18.execute("insert into t values (1, ('0.' || repeat('3', 1500))::numeric, 12.50)")
    (built,) = seeded(database18, compiled(database18, root("t", Geo("place", lat="a", lon="o"))))
    assert built.body == b'{"place":{"lat":0.333333333333333,"lon":12.5}}'


TEXTS: list[tuple[str | None, Any]] = [
    (None, None),
    ("41.9,12.5", ROME),
    ("  41.9 , 12.5 ", ROME),
    ("POINT(12.5 41.9)", ROME),
    ("point (12.5  41.9)", ROME),
    ("+4.19e1,.125e2", ROME),
    ("41.9", None),
    ("41.9,12.5,7", None),
    ("north,east", None),
    ("91,0", None),
    ("1e999,0", None),
    ("", None),
    (f"{'9' * 200},1", None),
]
JSONS: list[tuple[str, Any]] = [
    ('{"lat": 41.9, "lon": 12.5}', ROME),
    ('{"lon": "12.5", "lat": "41.9", "more": {}}', ROME),
    ("[12.5, 41.9]", ROME),
    ("[12.5, 41.9, 100]", ROME),
    ('"41.9,12.5"', ROME),
    ('"POINT(12.5 41.9)"', ROME),
    ('{"type": "Point", "coordinates": [12.5, 41.9]}', ROME),
    ("null", None),
    ("{}", None),
    ("[]", None),
    ("7", None),
    ("true", None),
    ('{"lat": 41.9}', None),
    ('{"lat": null, "lon": null}', None),
    ('{"lat": {"a": 1}, "lon": [2]}', None),
    ('{"lat": 100, "lon": 0}', None),
    ('[["a"], "b"]', None),
]
REFUSED_BY_JSONB: list[tuple[str, Any]] = [
    ('{"lat": "\\u0000", "lon": 1}', None),
    ('{"lat": 1, "lon": 1, "a": "\\ud800"}', None),
    ('{"lat": 1, "lon": 1, "a": "\\ud83d\\ude00"}', {"lat": 1, "lon": 1}),
    ('{"lat": 1, "lon": 1, "a": "\\\\u0000 1e99999"}', {"lat": 1, "lon": 1}),
    ('{"lat": 1, "lon": 1, "a": 1e999999}', None),
    ('{"lat":1,\n"lon":1,"lat":2}', {"lat": 2, "lon": 1}),
]


def points(database: Database, kind: str, values: list[Any]) -> list[Any]:
    database.execute(f"create table t (id int primary key, place {kind})")
    for n, value in enumerate(values):
        database.execute("insert into t values (%s, %s)", n, value)
    found = documents(database, root("t", Geo("place", column="place")))
    return [found[str(n)]["place"] for n in range(len(values))]


def test_a_text_column_is_a_point_or_null(database: Database) -> None:
    assert points(database, "text", [text for text, _ in TEXTS]) == [point for _, point in TEXTS]


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_a_json_column_is_a_point_or_null(database18: Database, kind: str) -> None:
    cases = JSONS + (REFUSED_BY_JSONB if kind == "json" else [])
    assert points(database18, kind, [text for text, _ in cases]) == [point for _, point in cases]


def test_a_point_column_has_the_longitude_first(database18: Database) -> None:
    values = ["(12.5,41.9)", None, "(200,0)", "(NaN,0)"]
    assert points(database18, "point", values) == [ROME, None, None, None]


POSTGIS = """
create schema gis;
create type gis.geometry as (kind text, srid int, x float8, y float8);
create type gis.geography as (kind text, srid int, x float8, y float8);
create function gis.to_geometry(g gis.geography) returns gis.geometry language sql
  as $$ select row((g).kind, (g).srid, (g).x, (g).y)::gis.geometry $$;
create cast (gis.geography as gis.geometry) with function gis.to_geometry(gis.geography);
create function gis.st_x(g gis.geometry) returns float8 language plpgsql
  as $$ begin if (g).kind <> 'POINT' then raise 'must be a point'; end if; return (g).x; end $$;
create function gis.st_y(g gis.geometry) returns float8 language sql as $$ select (g).y $$;
create function gis.st_srid(g gis.geometry) returns int language sql as $$ select (g).srid $$;
create function gis.st_isempty(g gis.geometry) returns bool language sql as $$ select (g).x is null $$;
create function gis.geometrytype(g gis.geometry) returns text language sql as $$ select (g).kind $$;
create function gis.st_transform(g gis.geometry, srid int) returns gis.geometry language sql
  as $$ select row((g).kind, srid, (g).x / 1000, (g).y / 1000)::gis.geometry $$;
"""


@pytest.mark.parametrize("kind", ["geometry", "geography"])
def test_a_point_of_postgis_is_asked_for_in_its_own_schema(database18: Database, kind: str) -> None:
    """PostGIS is not at hand: types and functions of its names stand in for it."""
    database18.execute(POSTGIS)
    rows = [
        "(POINT,4326,12.5,41.9)",
        "(POINT,0,12.5,41.9)",
        "(POINT,3857,12500,41900)",
        "(POLYGON,4326,1,1)",
        "(POINT,4326,,)",
        None,
    ]
    assert points(database18, f"gis.{kind}", rows) == [ROME, ROME, ROME, None, None, None]


MAPS: list[tuple[str, str, Any]] = [
    ("text", '{"en": "Hello", "it": "Ciao"}', {"en": "Hello", "it": "Ciao"}),
    ("text", '{"n": 5, "b": true, "nil": null}', {"n": 5, "b": True, "nil": None}),
    ("text", '{"o": {"a": 1}, "l": ["a", "b", {"c": 1}, ["d"]]}', {"o": None, "l": ["a", "b", None, None]}),
    ("text", '{"a.b": 1, "": 2, " ": 3, "ok": 4}', {"ok": 4}),
    ("text", "{}", {}),
    ("text", "[]", None),
    ("text", "7", None),
    ("integer", '{"a": 1, "b": "2", "c": "x", "d": true}', {"a": 1, "b": "2", "c": "x", "d": None}),
    ("double", '{"a": 1.50}', {"a": 1.5}),
    (
        "boolean",
        '{"a": true, "b": "false", "c": 1, "d": "x"}',
        {"a": True, "b": "false", "c": None, "d": None},
    ),
    ("date", '{"a": "2024-01-01", "b": false, "c": 0}', {"a": "2024-01-01", "b": None, "c": 0}),
]


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_a_map_keeps_what_its_kind_can_be(database: Database, kind: str) -> None:
    columns = ", ".join(f"m{n} {kind}" for n in range(len(MAPS)))
    database.execute(f"create table t (id int primary key, {columns})")
    database.execute(
        f"insert into t values (1, {', '.join('%s' for _ in MAPS)})", *(text for _, text, _ in MAPS)
    )
    database.execute("insert into t values (2)")
    fields = [Map(f"m{n}", f"m{n}", ScalarKind(values)) for n, (values, _, _) in enumerate(MAPS)]
    found = documents(database, root("t", *fields))
    assert found["1"] == {f"m{n}": expected for n, (_, _, expected) in enumerate(MAPS)}
    assert set(found["2"].values()) == {None}


def test_a_map_has_the_same_bytes_whichever_way_it_was_written(database18: Database) -> None:
    database18.execute("create table t (id int primary key, m json)")
    database18.execute(
        """insert into t values (1, '{"b":\n1, "aa": "é", "b": 2}'), (2, '{"aa":"\\u00e9","b":2}')"""
    )
    plan = compiled(database18, root("t", Map("m", "m", ScalarKind.KEYWORD)))
    one, two = followed(database18, plan, ("1",), ("2",))
    assert one.body == two.body == '{"m":{"aa":"é","b":2}}'.encode()


def test_a_number_longer_than_a_server_reads_is_null_in_a_map(database18: Database) -> None:
    database18.execute("create table t (id int primary key, m jsonb)")
    database18.execute("insert into t values (1, jsonb_build_object('a', repeat('9', 500)::numeric, 'b', 1))")
    for kind in (ScalarKind.TEXT, ScalarKind.DOUBLE):
        assert documents(database18, root("t", Map("m", "m", kind)))["1"] == {"m": {"a": None, "b": 1}}


def test_a_name_too_long_for_a_field_is_left_out_whatever_the_encoding(latin_database: Database) -> None:
    latin_database.execute("create table t (id int primary key, m jsonb)")
    latin_database.execute(
        "insert into t values (1, jsonb_build_object(repeat('€', 200), 1, repeat('€', 170), 2))"
    )
    found = documents(latin_database, root("t", Map("m", "m", ScalarKind.LONG)))
    assert found["1"] == {"m": {"€" * 170: 2}}


def test_an_hstore_is_a_map_of_texts(database18: Database) -> None:
    """The extension is not at hand: a type of its name with a cast to jsonb stands in for it."""
    database18.execute(
        "create type hstore as (text text);"
        "create function to_jsonb(h hstore) returns jsonb language sql as $$ select (h).text::jsonb $$;"
        "create cast (hstore as jsonb) with function to_jsonb(hstore);"
        "create table t (id int primary key, m hstore);"
    )
    database18.execute(
        "insert into t values (1, row(%s)::hstore), (2, null)", json.dumps({"a": "1", "b": None})
    )
    found = documents(database18, root("t", Map("m", "m", ScalarKind.KEYWORD)))
    assert found == {"1": {"m": {"a": "1", "b": None}}, "2": {"m": None}}


def test_columns_that_make_no_point_or_map_are_refused_with_a_reason(database18: Database) -> None:
    database18.execute("create table t (id int primary key, d date, l point[])")
    fields = [
        Geo("a", column="d"),
        Geo("b", column="l"),
        Geo("c", lat="d", lon="nope"),
        Map("e", "d", ScalarKind.TEXT),
    ]
    with pytest.raises(SchemaError) as raised:
        compiled(database18, root("t", *fields, scalar("id", "integer")))
    for part in ('"a"', '"b"', '"c"', 'no column "nope"', '"e"', "not fit for geo", "not fit for map"):
        assert part in str(raised.value)
