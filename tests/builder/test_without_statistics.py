"""How the server goes about a document: by the links, also where it knows nothing of the tables yet."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from declared import aggregate, compiled, has_many, has_one, root, scalar

from fix_postgres import Database
from flusso.schema.model import Field, OrderBy, ScalarKind

pytestmark = pytest.mark.postgres

_ORDERS = 300_000
_BY_ID = (OrderBy("id"),)


@pytest.fixture
def unknown(database: Database) -> Database:
    """Many orders, as after a restore: nobody has analyzed them."""
    database.execute(
        f"""
        create table users (id int primary key);
        create table orders (id int primary key, user_id int) with (autovacuum_enabled = off);
        create index on orders (user_id);
        insert into users select i from generate_series(1, 100) as i;
        insert into orders select i, 1 + i / 3 from generate_series(1, {_ORDERS}) as i;
        """
    )
    return database


@pytest.mark.parametrize(
    "field",
    [
        aggregate("last", "max", "orders", ("user_id",), column="id", value_type=ScalarKind.INTEGER),
        aggregate("first", "min", "orders", ("user_id",), column="id", value_type=ScalarKind.INTEGER),
        has_one("oldest", "orders", ("user_id",), scalar("id", "integer"), order_by=_BY_ID),
        has_many("some", "orders", ("user_id",), scalar("id", "integer"), order_by=_BY_ID, limit=2),
    ],
    ids=lambda field: field.name,
)
def test_the_first_rows_in_an_order_are_taken_from_those_of_the_link_alone(
    unknown: Database, field: Field
) -> None:
    plan = compiled(unknown, root("users", scalar("id", "integer"), field))
    with unknown.connect() as conn:
        cursor = psycopg.RawCursor(conn)
        explain = f"explain (analyze, format json) {plan.by_keys.sql}"
        cursor.execute(explain.encode(), [["70", "80"], *plan.by_keys.operands])
        [(shown,)] = cursor.fetchall()
    assert _visited(shown[0]["Plan"]) < 100


def _visited(node: dict[str, Any]) -> int:
    """Count the rows that were looked at, kept or not."""
    rows = int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
    return rows + sum(map(_visited, node.get("Plans", [])))
