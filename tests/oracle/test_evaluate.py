"""The oracle's own answers, where they can be told by hand."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from ruamel.yaml import YAML

from fix_postgres import Database
from oracle.compare import differences
from oracle.evaluate import Rows, evaluate, parse_body
from oracle.tables import Column, Table
from oracle.values import Number, document_id, mean

PEOPLE = Table(
    "people",
    "public",
    (Column("id", "int"), Column("name", "text"), Column("boss", "int"), Column("gone", "bool")),
    ("id",),
)
ORDERS = Table(
    "orders",
    "public",
    (Column("nr", "int"), Column("person", "int"), Column("total", "numeric(8,2)"), Column("day", "text")),
    ("nr",),
)
LIKES = Table("likes", "public", (Column("who", "int"), Column("whom", "int")), ("who", "whom"))
_YAML = YAML(typ="safe", pure=True)
ROWS = {
    ("public", "people"): Rows(
        PEOPLE,
        [
            {"id": 1, "name": " Ada ", "boss": None, "gone": False},
            {"id": 2, "name": "Bo", "boss": 1, "gone": None},
            {"id": 3, "name": None, "boss": 1, "gone": True},
        ],
    ),
    ("public", "orders"): Rows(
        ORDERS,
        [
            {"nr": 10, "person": 1, "total": Decimal("2.50"), "day": "b"},
            {"nr": 11, "person": 1, "total": Decimal("5.00"), "day": None},
            {"nr": 12, "person": 1, "total": None, "day": "c"},
            {"nr": 13, "person": None, "total": Decimal("9.99"), "day": "a"},
        ],
    ),
    ("public", "likes"): Rows(LIKES, [{"who": 1, "whom": 3}, {"who": 1, "whom": 2}, {"who": 2, "whom": 9}]),
}


def _documents(fields: str, more: str = "") -> dict[str, object]:
    return evaluate(_YAML.load(f"version: 1\ntable: people\n{more}\nfields:\n{fields}"), ROWS)


def test_a_row_without_its_other_end_has_null_or_an_empty_array() -> None:
    found = _documents(
        """
        - {belongs_to: boss, table: people, column: boss, fields: [{keyword: name, column: name}]}
        - {has_many: orders, table: orders, foreign_key: person, fields: [{integer: nr, column: nr}]}
        """
    )
    assert found["1"] == {"boss": None, "orders": [{"nr": 10}, {"nr": 11}, {"nr": 12}]}
    assert found["2"] == {"boss": {"name": " Ada "}, "orders": []}


@pytest.mark.parametrize(("direction", "order"), [("asc", [10, 12, 11]), ("desc", [12, 10, 11])])
def test_an_order_has_nulls_last_either_way(direction: str, order: list[int]) -> None:
    found = _documents(
        f"""
        - has_many: orders
          table: orders
          foreign_key: person
          order_by: [{{column: day, direction: {direction}}}]
          fields: [{{integer: nr, column: nr}}]
        """
    )
    assert found["1"] == {"orders": [{"nr": nr} for nr in order]}


def test_aggregates_leave_out_nulls_and_keep_their_digits() -> None:
    found = _documents(
        """
        - {count: count, table: orders, foreign_key: person}
        - {sum: sum, table: orders, foreign_key: person, column: total, value_type: decimal}
        - {avg: avg, table: orders, foreign_key: person, column: total}
        - {min: min, table: orders, foreign_key: person, column: total, value_type: decimal}
        - {ids: ids, table: orders, foreign_key: person, element_type: integer}
        """
    )
    assert found["1"] == {
        "count": 3,
        "sum": Number("7.50"),
        "avg": Number("3.75"),
        "min": Number("2.50"),
        "ids": [10, 11, 12],
    }
    assert found["2"] == {"count": 0, "sum": None, "avg": None, "min": None, "ids": []}


def test_a_junction_leads_to_rows_that_are_there_and_count() -> None:
    found = _documents(
        """
        - many_to_many: likes
          table: people
          through: {table: likes, left_key: who, right_key: whom}
          soft_delete: {column: gone}
          fields: [{integer: id, column: id}]
        - ids: ids
          table: people
          through: {table: likes, left_key: who, right_key: whom}
          element_type: integer
        """
    )
    assert found["1"] == {"likes": [{"id": 2}], "ids": [2, 3]}
    assert found["2"] == {"likes": [], "ids": []}


def test_filters_and_soft_deletion_choose_rows_as_sql_does() -> None:
    not_ada = "filters: [{column: name, op: neq, value: ' Ada '}]"
    assert sorted(_documents("- {integer: id, column: id}", not_ada)) == ["2"]
    assert sorted(_documents("- {integer: id, column: id}", "soft_delete: {column: gone}")) == ["1", "2"]
    when = "soft_delete: {column: gone, when: [{column: name, op: eq, value: x}]}"
    assert sorted(_documents("- {integer: id, column: id}", when)) == ["1", "2", "3"]


def test_texts_are_transformed_and_defaults_stand_for_nulls() -> None:
    found = _documents("- {text: name, column: name, transforms: [trim, lowercase], default: nobody}")
    assert [found[id_] for id_ in "123"] == [{"name": "ada"}, {"name": "bo"}, {"name": "nobody"}]


@pytest.mark.parametrize(
    ("key", "id_"),
    [
        ((7,), "7"),
        (("",), "~"),
        (("~x",), "~~x"),
        (("a|b", "c\\d"), r"a\|b|c\\d"),
        ((Decimal("1.00"),), "1.00"),
    ],
)
def test_ids_are_those_of_the_guide(key: tuple[object, ...], id_: str) -> None:
    assert document_id(key) == id_  # type: ignore[arg-type]


@pytest.mark.postgres
def test_a_mean_has_the_digits_that_postgres_gives_it(database18: Database) -> None:
    rng = random.Random(1)
    lists = [[-1, 1], [1, 1, 2], [10**18, 1], [9 * 10**18] * 3 + [7], [0, 0, 0]]
    lists += [
        [rng.randrange(-(10 ** rng.randrange(1, 19)), 10**6) for _ in range(rng.randint(1, 9))]
        for _ in range(200)
    ]
    means = [
        database18.execute("select trim_scale(avg(v)) from unnest(%s::int8[]) as v", values)[0][0]
        for values in lists
    ]
    assert [format(mean(values), "f") for values in lists] == [format(found, "f") for found in means]


def test_comparing_tells_what_is_missing_too_much_or_different_in_a_digit() -> None:
    expected: dict[str, dict[str, object]] = {"i": {"1": {"a": Number("1.50")}, "2": {"a": 1}, "3": {"a": 1}}}
    held = {"i": {"1": b'{"a": 1.5}', "2": b'{"a": true}', "4": b'{"a": 1}'}}
    assert [each.id for each in differences(expected, held)] == ["1", "2", "3", "4"]
    same = {"i": {"1": b'{"a":1.50}', "2": b'{"a":1}', "3": b'{"a":1}'}}
    assert not differences(expected, same)
    assert parse_body(b"1.50") == Number("1.50")
