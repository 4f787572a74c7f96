"""Every type that Postgres has, with its extremes: what goes in, and what each kind makes of it.

A value is given as the type reads it, then as Postgres prints it (which is what the kinds of text show), then
as the JSON of each other kind that takes the type.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from citext import CITEXT


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a type."""

    text: str
    """As the type reads it."""
    printed: str | None = None
    """As a kind of text shows it; None for the same."""
    by_kind: dict[str, str] = field(default_factory=dict)
    """JSON by kind."""

    @property
    def shown(self) -> str:
        return self.text if self.printed is None else self.printed


def _v(text: str, printed: str | None = None, **by_kind: str) -> Value:
    return Value(text, printed, by_kind)


def _integers(kinds: tuple[str, ...], *texts: str) -> list[Value]:
    return [_v(text, None, **dict.fromkeys(kinds, text)) for text in texts]


def _texts(*texts: str) -> list[Value]:
    return [_v(text) for text in texts]


def _numeric(text: str, json: str, as_float: str | None = None) -> Value:
    return _v(text, None, decimal=json, double=json, float=json if as_float is None else as_float)


_BYTES = b"\x00\xff" + b"\n" * 100
_FRACTION = "0." + "3" * 2000
_LARGEST = "9" * 131072
_SMALLEST = "0." + "0" * 16382 + "1"

STRINGS = [
    "",
    "plain",
    "Ünïcödé 漢字 \U0001f600 \u202eא \u00e9 e\u0301 \uffff \ufeff \u2028",
    "\x01\x02\x1f\x7f\b\f\n\r\t",
    '"quoted" \'quoted\' \\ back\\\\slash \\u0041 \\n / {"a":[1]} <b>&amp;</b> %s $1',
]

TYPES: dict[str, list[Value]] = {
    "bool": [_v("true", boolean="true"), _v("f", "false", boolean="false")],
    "int2": _integers(("short", "integer", "long", "float", "double", "decimal"), "-32768", "0", "32767"),
    "int4": _integers(("integer", "long", "float", "double", "decimal"), "-2147483648", "2147483647"),
    "int8": _integers(("long", "float", "double", "decimal"), "-9223372036854775808", "9223372036854775807"),
    "float4": [
        _v("1.5", float="1.5", double="1.5"),
        _v("-3.4028235e+38", float="-3.4028235e+38", double="-3.4028235e+38"),
        _v("1e-45", float="1e-45", double="1e-45"),
        _v("-0", float="-0", double="-0"),
        _v("NaN", float="null", double="null"),
        _v("Infinity", float="null", double="null"),
        _v("-Infinity", float="null", double="null"),
    ],
    "float8": [
        _v("0.1", float="0.1", double="0.1"),
        _v("3.4028234663852886e+38", float="3.4028234663852886e+38", double="3.4028234663852886e+38"),
        _v("-3.5e+38", float="null", double="-3.5e+38"),
        _v("-1.7976931348623157e+308", float="null", double="-1.7976931348623157e+308"),
        _v("5e-324", float="5e-324", double="5e-324"),
        _v("NaN", float="null", double="null"),
        _v("Infinity", float="null", double="null"),
        _v("-Infinity", float="null", double="null"),
    ],
    "numeric": [
        _numeric("1.00", "1.00"),
        _numeric(
            "-12345678901234567890.123456789012345678900", "-12345678901234567890.123456789012345678900"
        ),
        _numeric("9" * 308, "9" * 308, "null"),
        _numeric("2" + "0" * 308, "null"),
        _numeric(_LARGEST, "null"),
        _numeric("-" + _LARGEST, "null"),
        _numeric("0." + "3" * 680, "0." + "3" * 680),
        _numeric(_FRACTION, f'"{_FRACTION}"'),
        _numeric(_SMALLEST, f'"{_SMALLEST}"'),
        _numeric("NaN", "null"),
        _numeric("Infinity", "null"),
        _numeric("-Infinity", "null"),
    ],
    "money": [
        _v("12.5", "$12.50", decimal="12.50"),
        _v("-92233720368547758.08", "-$92,233,720,368,547,758.08", decimal="-92233720368547758.08"),
        _v("92233720368547758.07", "$92,233,720,368,547,758.07", decimal="92233720368547758.07"),
    ],
    "text": _texts(*STRINGS),
    "varchar": _texts(*STRINGS),
    "bpchar": [_v("ab  ", "ab"), _v("   ", "")],
    "name": _texts(*STRINGS[:4]),
    "char": _texts("", "a", '"', "\\"),
    "uuid": [
        _v(
            "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            uuid='"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"',
        )
    ],
    "date": [
        _v("2024-02-29", date='"2024-02-29"'),
        _v("0001-01-01", date='"0001-01-01"'),
        _v("9999-12-31", date='"9999-12-31"'),
        _v("10000-01-01", date="null"),
        _v("5874897-12-31", date="null"),
        _v("0044-03-15 BC", date="null"),
        _v("4714-11-24 BC", date="null"),
        _v("infinity", date="null"),
        _v("-infinity", date="null"),
    ],
    "timestamp": [
        _v("2024-01-02 03:04:05.6", timestamp='"2024-01-02T03:04:05.6"'),
        _v("0001-01-01 00:00:00", timestamp='"0001-01-01T00:00:00"'),
        _v("9999-12-31 23:59:59.999999", timestamp='"9999-12-31T23:59:59.999999"'),
        _v("10000-01-01 00:00:00", timestamp="null"),
        _v("294276-12-31 23:59:59.999999", timestamp="null"),
        _v("4714-11-24 00:00:00 BC", timestamp="null"),
        _v("infinity", timestamp="null"),
        _v("-infinity", timestamp="null"),
    ],
    "timestamptz": [
        _v("2024-01-02 03:04:05+02", "2024-01-02 01:04:05+00", timestamp='"2024-01-02T01:04:05Z"'),
        _v("2024-01-02 03:04:05.000001+00", timestamp='"2024-01-02T03:04:05.000001Z"'),
        _v("0001-01-01 00:00:00+00", timestamp='"0001-01-01T00:00:00Z"'),
        _v("9999-12-31 23:59:59.999999+00", timestamp='"9999-12-31T23:59:59.999999Z"'),
        _v("10000-01-01 00:00:00+00", timestamp="null"),
        _v("0001-12-31 23:59:59+00 BC", "0001-12-31 23:59:59+00 BC", timestamp="null"),
        _v("infinity", timestamp="null"),
        _v("-infinity", timestamp="null"),
    ],
    "time": [
        _v("00:00:00", timestamp='"00:00:00"'),
        _v("23:59:59.999999", timestamp='"23:59:59.999999"'),
        _v("24:00:00", timestamp='"24:00:00"'),
    ],
    "timetz": [
        _v("12:00:00+02", timestamp='"10:00:00"'),
        _v("23:59:59.999999-15:59", timestamp='"15:58:59.999999"'),
        _v("24:00:00+00", timestamp='"00:00:00"'),
    ],
    "interval": _texts("1 year 2 mons 3 days 04:05:06.789", "-178000000 years", "00:00:00"),
    "bytea": [
        _v("\\x", binary='""'),
        _v("\\x00ff" + "0a" * 100, binary=f'"{base64.b64encode(_BYTES).decode()}"'),
    ],
    "json": [
        _v('{"b":  [1, null, "é\\u00e9"], "a": {"": 1, "x.y": 2, ".": 3}}'),
        _v("null"),
        _v("5"),
        _v('"text"'),
        _v('[1, "x", {"a": [true]}, [2, [3]]]'),
        _v('{"big": 1e400, "digits": 0.10000000000000000000000000001, "n": 12345678901234567890123}'),
        _v('{"long": ' + "1" * 1001 + "}"),
        _v('{"twice": 1, "twice": 2}'),
        _v("[" * 25 + "]" * 25),
        _v('{"deep": ' * 1000 + "1" + "}" * 1000),
        _v('{"nul": "a\\u0000b", "lone": "\\ud800"}'),
        _v("{}"),
    ],
    "jsonb": [
        _v('{"b": [1, null, "é"], "aa": {"": 1, ".": 3, "x.y": 2}}'),
        _v("null"),
        _v("5"),
        _v('"text"'),
        _v('[1, "x", {"a": [true]}, [2, [3]]]'),
        _v('{"n": 12345678901234567890123, "digits": 0.10000000000000000000000000001}'),
        _v('{"long": ' + "1" * 1001 + "}"),
        _v("[" * 25 + "]" * 25),
        _v('{"deep": ' * 1000 + "1" + "}" * 1000),
        _v("{}"),
    ],
    "jsonpath": _texts('$."a"[*]?(@ > 1)'),
    "inet": _texts("10.0.0.1", "10.0.0.0/8", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "cidr": _texts("10.0.0.0/8", "::/0"),
    "macaddr": _texts("08:00:2b:01:02:03"),
    "macaddr8": _texts("08:00:2b:01:02:03:04:05"),
    "bit": _texts("1"),
    "varbit": _texts("", "10110"),
    "point": _texts("(1,-2.5)", "(Infinity,NaN)"),
    "line": _texts("{1,-1,0}"),
    "lseg": _texts("[(1,2),(3,4)]"),
    "box": _texts("(3,4),(1,2)"),
    "path": _texts("((1,2),(3,4))", "[(1,2),(3,4)]"),
    "polygon": _texts("((1,2),(3,4),(5,0))"),
    "circle": _texts("<(1,2),3>"),
    "tsvector": _texts("'cat':3 'fat':2A", ""),
    "tsquery": _texts("'fat' & ( 'rat' | 'cat' )"),
    "pg_lsn": _texts("0/0", "FFFFFFFF/FFFFFFFF"),
    "oid": _texts("0", "4294967295"),
    "xid": _texts("4294967295"),
    "xid8": _texts("18446744073709551615"),
    "cid": _texts("4294967295"),
    "tid": _texts("(4294967295,65535)"),
    "txid_snapshot": _texts("10:20:10,14"),
    "pg_snapshot": _texts("10:20:10,14"),
    "refcursor": _texts("a cursor"),
    "aclitem": _texts("=r/pg_monitor"),
    "regclass": _texts("pg_class"),
    "regcollation": _texts('"C"'),
    "regconfig": _texts("simple"),
    "regdictionary": _texts("simple"),
    "regnamespace": _texts("pg_catalog"),
    "regoper": _texts("|/"),
    "regoperator": _texts("+(integer,integer)"),
    "regproc": _texts("now"),
    "regprocedure": _texts("lower(text)"),
    "regrole": _texts("pg_monitor"),
    "regtype": _texts("integer"),
    "int4range": _texts("[1,5)", "empty", "(,)"),
    "int8range": _texts("[1,5)"),
    "numrange": _texts("[1.0,1.50]"),
    "tsrange": _texts('["2024-01-01 00:00:00",infinity)'),
    "tstzrange": _texts('["2024-01-01 00:00:00+00",)'),
    "daterange": _texts("[2024-01-01,2024-02-01)"),
    "int4multirange": _texts("{[1,5),[7,9)}", "{}"),
    "int8multirange": _texts("{[1,5)}"),
    "nummultirange": _texts("{[1.0,1.50]}"),
    "tsmultirange": _texts('{["2024-01-01 00:00:00",infinity)}'),
    "tstzmultirange": _texts('{["2024-01-01 00:00:00+00",)}'),
    "datemultirange": _texts("{[2024-01-01,2024-02-01)}"),
    # Made by the test.
    "public.mood": _texts("sad", 'très "glad"'),
    "public.citext": _texts("MiXed", ""),
    "public.floatrange": _texts("[1.5,Infinity]"),
    "public.pair": _texts('(1,"a ""b"", c")', "(,)"),
}
"""By type its values; the JSON types take the kind `json` as well, with the value as it is."""

MADE = f"""
{CITEXT}
create type mood as enum ('sad', 'très "glad"');
create type floatrange as range (subtype = float8);
create type pair as (n int, t text);
"""

UNFILLABLE = frozenset({
    "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "gtsvector",
    "pg_brin_bloom_summary", "xml", "pg_brin_minmax_multi_summary",
})  # fmt: skip
"""Types of Postgres's own catalogs, whose input refuses every value; `xml`, which the test servers lack."""

UNFIT_JSON = ('{"long"', '{"twice"', "[[[[", '{"deep"')
"""How values begin that a search server keeps as text."""
