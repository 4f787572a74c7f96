from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import types as t

from flusso.capture.columns import SentColumn
from flusso.capture.rows import RowChange, Shape, ShapeColumn
from flusso.catalog import TableName
from flusso.change import UNCHANGED, Values
from flusso.engine.standalone.columns import JSON_SCHEMA, check_schema, row_schema, spark_type
from flusso.engine.standalone.render import Renderer, reader_of, to_json
from flusso.errors import ConfigError, SourceRefused
from flusso.lsn import Lsn

SHAPE = Shape(
    TableName("public", "users"),
    (ShapeColumn("id", 23, True), ShapeColumn("na me", 25, False), ShapeColumn("note", 25, False)),
    ("id",),
)


def change(
    operation: str, old: Values | None, new: Values | None, *, is_whole_old: bool = False
) -> RowChange:
    return RowChange(SHAPE, operation, is_whole_old, old, new, Lsn(7), 1, 0, 9)


def rendered(made: RowChange, schema: t.StructType = JSON_SCHEMA) -> dict[str, Any]:
    (row,) = Renderer(schema).render([made]).to_pylist()
    return dict(row)


def test_a_row_is_json_with_the_key_beside_it() -> None:
    row = rendered(change("i", None, ("1", 'A"nn', None)))
    assert json.loads(row["after"]) == {"id": 1, "na me": 'A"nn', "note": None}
    assert (row["before"], row["key"], row["unchanged"]) == (None, '{"id":1}', [])
    assert (row["operation"], row["commit_lsn"], row["ordinal"], row["xid"]) == ("insert", 7, 1, 9)
    assert row["commit_time"].isoformat() == "2000-01-01T00:00:00+00:00"


def test_an_untouched_value_is_listed_and_not_invented() -> None:
    row = rendered(change("u", None, ("1", "Ann", UNCHANGED)))
    assert (json.loads(row["after"]), row["unchanged"]) == ({"id": 1, "na me": "Ann"}, ["note"])


def test_an_untouched_value_comes_from_a_whole_old_row() -> None:
    row = rendered(change("u", ("1", "Ann", "big"), ("1", "Bob", UNCHANGED), is_whole_old=True))
    assert (json.loads(row["after"])["note"], row["unchanged"]) == ("big", [])


def test_an_old_key_shows_the_identity_and_no_nulls_for_the_rest() -> None:
    assert rendered(change("d", ("1", None, None), None))["before"] == '{"id":1}'


def test_a_truncate_has_neither_key_nor_images() -> None:
    row = rendered(change("t", None, None))
    assert (row["operation"], row["key"], row["before"], row["after"]) == ("truncate", None, None, None)


@pytest.mark.parametrize(
    ("value", "type_oid", "written"),
    [
        (None, 25, "null"),
        ("12345678901234567890.100", 1700, "12345678901234567890.100"),
        ("NaN", 1700, '"NaN"'),
        ("-Infinity", 701, '"-Infinity"'),
        ("1e+20", 701, "1e+20"),
        ("t", 16, "true"),
        ("f", 16, "false"),
        ('{"a": [1]}', 114, '{"a": [1]}'),
        ("\\xdead", 17, '"\\\\xdead"'),
        ("{1,NULL}", 1007, "[1,null]"),
        ("{{t},{f}}", 1000, "[[true],[false]]"),
        ('{"a b",NULL}', 1009, '["a b",null]'),
        ('{"{\\"a\\": 1}"}', 3807, '[{"a": 1}]'),
        ("2024-01-01", 1082, '"2024-01-01"'),
        ("12", 99999, '"12"'),
    ],
)
def test_a_value_takes_the_form_that_json_has_for_its_type(value: str, type_oid: int, written: str) -> None:
    assert to_json(value, type_oid) == written


def typed(**fields: t.DataType) -> t.StructType:
    return row_schema(t.StructType([t.StructField(name, type_) for name, type_ in fields.items()]))


TYPED = typed(id=t.IntegerType(), note=t.StringType())


def test_typed_fields_are_found_by_name_and_an_unknown_one_is_null() -> None:
    schema = typed(gone=t.LongType(), id=t.LongType())
    assert rendered(change("i", None, ("1", "Ann", "x")), schema)["after"] == {"gone": None, "id": 1}


def test_a_typed_truncate_has_no_images() -> None:
    row = rendered(change("t", None, None), TYPED)
    assert (row["before"], row["after"]) == (None, None)


def test_a_value_of_another_type_is_refused_by_the_name_of_its_column_and_not_shown() -> None:
    schema = typed(**{"na me": t.IntegerType()})
    with pytest.raises(SourceRefused, match=r'"na me" of public\.users.*int') as caught:
        rendered(change("i", None, ("1", "secretive", None)), schema)
    assert "secretive" not in str(caught.value)


def test_a_number_that_is_too_large_for_its_type_is_refused() -> None:
    schema = typed(**{"na me": t.ShortType()})
    with pytest.raises(SourceRefused):
        rendered(change("i", None, ("1", "99999", None)), schema)


@pytest.mark.parametrize(
    "text", ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "294276-12-31 23:59:59.999999"]
)
@pytest.mark.parametrize("type_", [t.DateType(), t.TimestampType(), t.TimestampNTZType()])
def test_a_time_beyond_the_calendar_is_null(text: str, type_: t.DataType) -> None:
    assert reader_of(type_)(text) is None


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (SentColumn("c", 1700, "numeric", False, ((10 << 16) | 2) + 4), t.DecimalType(10, 2)),
        (SentColumn("c", 1700, "numeric", False, -1), t.StringType()),
        (SentColumn("c", 1700, "numeric", False, ((39 << 16) | 2) + 4), t.StringType()),
        (SentColumn("c", 1700, "numeric", False, ((5 << 16) | 0x7FE) + 4), t.StringType()),
        (SentColumn("c", 1231, "numeric", True, ((4 << 16) | 1) + 4), t.ArrayType(t.DecimalType(4, 1))),
        (SentColumn("c", 1184, "timestamptz", False, -1), t.TimestampType()),
        (SentColumn("c", 77777, "mood", False, -1), t.StringType()),
    ],
)
def test_a_column_has_the_type_that_holds_all_its_values(column: SentColumn, type_: t.DataType) -> None:
    assert spark_type(column) == type_


def test_other_columns_than_those_of_the_source_are_refused() -> None:
    check_schema(JSON_SCHEMA, is_typed=False)
    check_schema(TYPED, is_typed=True)
    for schema, is_typed in ((TYPED, False), (JSON_SCHEMA, True), (t.StructType([]), True)):
        with pytest.raises(ConfigError):
            check_schema(schema, is_typed=is_typed)
