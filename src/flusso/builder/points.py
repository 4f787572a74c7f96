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

_NUMBER = "([-+]?(?:[0-9]{1,30}[.]?[0-9]{0,60}|[.][0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?)"
_PAIR = f"'^ *{_NUMBER} *, *{_NUMBER} *$'"
_WELL_KNOWN = f"'^ *point *[(] *{_NUMBER} +{_NUMBER} *[)] *$'"
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
        return _of_pair(*level.column(item.lat), *level.column(item.lon))
    column, name = level.column(item.column)
    match column.base:
        case "point":
            return _checked(f"select {name}[1] as lat, {name}[0] as lon")
        case "json" | "jsonb":
            return _of_json(as_jsonb(column, name))
        case "geometry" | "geography":
            return _of_postgis(column, name)
        case _:
            return _of_text(_turned(f"{name}::text"))


def _checked(pair: str) -> str:
    """Make the object of a select that gives lat and lon, when both are numbers on earth."""
    return (
        f"(select row_to_json(p.*) from ({pair}) as p"
        " where p.lat between -90 and 90 and p.lon between -180 and 180)"
    )


def _of_pair(lat: Column, lat_name: str, lon: Column, lon_name: str) -> str:
    if not {lat.base, lon.base} <= {*_WHOLE, *_FLOATS, "numeric"}:
        return _of_text(f"{lat_name}::text || ',' || {lon_name}::text")
    return _checked(f"select {_shortened(lat, lat_name)} as lat, {_shortened(lon, lon_name)} as lon")


def _shortened(column: Column, name: str) -> str:
    """Cut a numeric to a nanometre: it may have more digits than a search server reads."""
    return f"trim_scale(round({name}, 15))" if column.base == "numeric" else name


def _of_text(text: str) -> str:
    """Make the point of a text `lat,lon`."""
    lat, lon = (f"trim_scale(round(t.m[{n}]::numeric, 15))" for n in (1, 2))
    found = f"select regexp_match({text}, {_PAIR}) as m"
    return _checked(f"select {lat} as lat, {lon} as lon from ({found}) as t")


def _turned(text: str) -> str:
    """Write `POINT(lon lat)` as `lat,lon`; any other text stays."""
    return f"regexp_replace({text}, {_WELL_KNOWN}, E'\\\\2,\\\\1', 'i')"


def _of_json(document: str) -> str:
    text = (
        f"case jsonb_typeof(j.v) when 'string' then {_turned(_WHOLE_TEXT)}"
        " when 'array' then (j.v ->> 1) || ',' || (j.v ->> 0)"
        " when 'object' then coalesce((j.v ->> 'lat') || ',' || (j.v ->> 'lon'),"
        " (j.v #>> '{coordinates,1}') || ',' || (j.v #>> '{coordinates,0}')) end"
    )
    return _of_text(f"(select {text} from (select {document} as v) as j)")


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
