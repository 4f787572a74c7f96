"""The SQL of a point: `{"lat": …, "lon": …}`, or null for what is no point on earth.

Pure. A search server refuses the whole document for a point that it cannot read, so everything is looked
at here: numbers out of range, half a point, and whatever else a json or text column may hold become null.

One column may be `json` or `jsonb` (`{"lat", "lon"}`, `[lon, lat]`, a GeoJSON point, a text as below),
text (`lat,lon` or `POINT(lon lat)`), Postgres's `point` (x is the longitude, y the latitude), or a point
of PostGIS.
"""

from __future__ import annotations

from flusso.builder.level import Level
from flusso.catalog import Column
from flusso.postgres.json_text import as_jsonb
from flusso.schema.model import Geo

_NUMBER = r"[-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?"
_ALONE = f"'^ *{_NUMBER} *$'"
_PAIR = f"'^ *({_NUMBER}) *, *({_NUMBER}) *$'"
_WELL_KNOWN = f"'^ *point *[(] *({_NUMBER}) +({_NUMBER}) *[)] *$'"
_WHOLE_TEXT = "j.v #>> '{}'"
_FLOATS = ("float4", "float8")
_WHOLE = ("int2", "int4", "int8")

POINT_TYPES = frozenset(
    {"json", "jsonb", "text", "varchar", "bpchar", "citext", "name", "point", "geometry", "geography"}
)
COORDINATE_TYPES = frozenset({*_WHOLE, *_FLOATS, "numeric", "text", "varchar", "bpchar"})


def point_value(item: Geo, level: Level) -> str:
    """Give the expression of a point."""
    if item.lat:
        pairs = [level.column(item.lat), level.column(item.lon)]
        lat, lon = (_coordinate(column, name) for column, name in pairs)
        return _checked(f"select {lat} as lat, {lon} as lon")
    column, name = level.column(item.column)
    match column.base:
        case "point":
            return _checked(f"select {name}[1] as lat, {name}[0] as lon")
        case "json" | "jsonb":
            return _of_json(as_jsonb(column, name))
        case "geometry" | "geography":
            return _of_postgis(column, name)
        case _:
            return _of_texts(f"select {_texts(f'{name}::text')}")


def _checked(pair: str) -> str:
    """Make the object of a select that gives lat and lon, when both are numbers on earth."""
    return (
        f"(select row_to_json(p.*) from ({pair}) as p"
        " where p.lat between -90 and 90 and p.lon between -180 and 180)"
    )


def _coordinate(column: Column, name: str) -> str:
    if column.base in _WHOLE or column.base in _FLOATS:
        return name
    if column.base == "numeric":
        return _shortened(name)
    return _number(f"{name}::text")


def _shortened(numeric: str) -> str:
    """Cut a numeric to a nanometre: it may have more digits than a search server reads."""
    return f"trim_scale(round({numeric}, 15))"


def _number(text: str) -> str:
    return f"case when {text} ~ {_ALONE} then {_shortened(f'{text}::numeric')} end"


def _of_texts(texts: str) -> str:
    """Make the point of a select that gives the two coordinates as texts, `a` for lat and `o` for lon."""
    return _checked(f"select {_number('g.a')} as lat, {_number('g.o')} as lon from ({texts}) as g")


def _texts(text: str) -> str:
    pair, known = f"regexp_match({text}, {_PAIR})", f"regexp_match({text}, {_WELL_KNOWN}, 'i')"
    return f"coalesce(({pair})[1], ({known})[2]) as a, coalesce(({pair})[2], ({known})[1]) as o"


def _of_json(document: str) -> str:
    coordinates = "coalesce(j.v -> 'coordinates', j.v)"
    return _of_texts(
        "select case jsonb_typeof(j.v)"
        f" when 'string' then q.a when 'object' then coalesce(j.v ->> 'lat', {coordinates} ->> 1)"
        " else j.v ->> 1 end as a,"
        f" case jsonb_typeof(j.v)"
        f" when 'string' then q.o when 'object' then coalesce(j.v ->> 'lon', {coordinates} ->> 0)"
        " else j.v ->> 0 end as o"
        f" from (select {document} as v) as j, lateral (select {_texts(_WHOLE_TEXT)}) as q"
    )


def _of_postgis(column: Column, name: str) -> str:
    """Ask PostGIS, in whatever schema it lives; only 4326 has degrees, and 0 is taken for it."""
    schema = column.type.rpartition(".")[0]
    call = f"{schema}." if schema else ""
    return _checked(
        f"select {call}st_y(m.g) as lat, {call}st_x(m.g) as lon from (select"
        f" case when {call}st_srid(n.g) in (0, 4326) then n.g else {call}st_transform(n.g, 4326) end as g"
        f" from (select {name}::{call}geometry as g) as n"
        f" where {call}geometrytype(n.g) = 'POINT' and not {call}st_isempty(n.g)) as m"
    )
