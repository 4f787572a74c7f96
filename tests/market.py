"""A small market: tables, rows, the schema of its index, and what each document must be.

`expected_documents` computes documents in plain Python from `select *`: an oracle that shares nothing
with flusso's own SQL.
"""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from typing import Any

from fix_postgres import Database
from flusso.schema.model import IndexSchema
from flusso.schema.parse import parse_schema

TABLES = """
create table categories (id int primary key, name text not null);
create table products (id int primary key, name text not null, category_id int references categories);
create table users (id int primary key, name text, email text, deleted_at timestamptz) partition by hash (id);
create table users_0 partition of users for values with (modulus 2, remainder 0);
create table users_1 (deleted_at timestamptz, email text, name text, id int not null);
alter table users attach partition users_1 for values with (modulus 2, remainder 1);
create table orders (id int primary key, user_id int, total numeric(12, 2), status text default 'paid');
create table items (id int primary key, order_id int, product_id int, quantity int not null);
create table tags (id int primary key, name text not null);
create table user_tags (user_id int, tag_id int, primary key (user_id, tag_id));
create index on products (category_id);
create index on orders (user_id);
create index on items (order_id);
create index on items (product_id);
create index on user_tags (tag_id);
alter table orders replica identity full;
alter table items replica identity full;
"""

SCHEMA = """
version: 1
table: users
primary_key: id
soft_delete:
  column: deleted_at
fields:
  - integer: id
  - text: name
  - keyword: email
    transforms: [lowercase]
  - count: orderCount
    table: orders
    foreign_key: user_id
  - sum: spent
    table: orders
    column: total
    value_type: decimal
    foreign_key: user_id
    filters:
      - { column: status, op: eq, value: paid }
  - avg: meanTotal
    table: orders
    column: total
    foreign_key: user_id
  - max: newestOrder
    table: orders
    column: id
    value_type: integer
    foreign_key: user_id
    filters:
      - { column: status, op: in, value: [paid, open] }
  - ids: tagIds
    table: tags
    element_type: integer
    distinct: true
    through: { table: user_tags, left_key: user_id, right_key: tag_id }
  - constant: source
    value: { name: market, version: 1 }
  - has_many: orders
    table: orders
    primary_key: id
    foreign_key: user_id
    order_by:
      - { column: id, direction: desc }
    fields:
      - integer: id
      - decimal: total
      - keyword: status
      - has_many: items
        table: items
        primary_key: id
        foreign_key: order_id
        fields:
          - integer: quantity
          - belongs_to: product
            table: products
            primary_key: id
            column: product_id
            fields:
              - text: name
              - belongs_to: category
                table: categories
                primary_key: id
                column: category_id
                fields:
                  - keyword: name
  - many_to_many: tags
    table: tags
    primary_key: id
    through: { table: user_tags, left_key: user_id, right_key: tag_id }
    fields:
      - keyword: name
"""


def market_schema() -> IndexSchema:
    return parse_schema(SCHEMA, file="market.schema.yml")


def create_market(database: Database, *, users: int = 200) -> None:
    """Make the tables and fill them."""
    database.execute(TABLES)
    fill_market(database, users=users)


def fill_market(database: Database, *, users: int = 200) -> None:
    """Fill empty tables: three orders a user, two items an order."""
    database.execute(
        f"""
        insert into categories select i, 'category ' || i from generate_series(1, 5) as i;
        insert into products select i, 'product ' || i, 1 + i % 5 from generate_series(1, 20) as i;
        insert into users select i, 'user ' || i, 'User' || i || '@Example.org'
        from generate_series(1, {users}) as i;
        insert into orders select i, 1 + i % {users}, i * 1.25, case i % 4 when 0 then 'open' else 'paid' end
        from generate_series(1, {users * 3}) as i;
        insert into items select i, 1 + i % {users * 3}, 1 + i % 20, 1 + i % 7
        from generate_series(1, {users * 6}) as i;
        insert into tags select i, 'tag ' || i from generate_series(1, 10) as i;
        insert into user_tags select i, 1 + i % 10 from generate_series(1, {users}) as i;
        """
    )


def expected_documents(database: Database) -> dict[str, dict[str, Any]]:
    """Compute every document from the plain rows."""
    rows = {name: database.execute(f"select * from {name} order by 1, 2") for name in _TABLE_NAMES}
    categories: dict[Any, Any] = dict(rows["categories"])
    tags: dict[Any, Any] = dict(rows["tags"])
    products = {
        id_: {"name": name, "category": {"name": categories[cat]} if cat in categories else None}
        for id_, name, cat in rows["products"]
    }
    items = defaultdict(list)
    for _, order, product, quantity in rows["items"]:
        items[order].append({"quantity": quantity, "product": products.get(product)})
    orders: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for id_, user, total, status in reversed(rows["orders"]):
        orders[user].append({"id": id_, "total": total, "status": status, "items": items[id_]})
    tagged: dict[Any, list[Any]] = defaultdict(list)
    for user, tag in rows["user_tags"]:
        if tag in tags:
            tagged[user].append(tag)
    return {
        str(id_): {
            "id": id_,
            "name": name,
            "email": email and email.lower(),
            "orderCount": len(orders[id_]),
            "spent": _sum(order["total"] for order in orders[id_] if order["status"] == "paid"),
            "meanTotal": _mean([order["total"] for order in orders[id_]]),
            "newestOrder": max((order["id"] for order in orders[id_]), default=None),
            "tagIds": tagged[id_],
            "source": {"name": "market", "version": 1},
            "orders": orders[id_],
            "tags": [{"name": tags[tag]} for tag in tagged[id_]],
        }
        for id_, name, email, deleted in rows["users"]
        if deleted is None
    }


def parse_document(body: bytes) -> Any:
    """Read a stored document with its numbers exact."""
    return json.loads(body, parse_float=Decimal)


def _mean(values: list[Any]) -> Decimal | None:
    """What Postgres makes of it: sixteen digits or more, here without the zeros at the end."""
    known = [value for value in values if value is not None]
    return (sum(known, Decimal(0)) / len(known)).quantize(Decimal(10) ** -16).normalize() if known else None


def _sum(values: Any) -> Decimal | None:
    known = [value for value in values if value is not None]
    return sum(known, Decimal(0)) if known else None


_TABLE_NAMES = ("categories", "products", "users", "orders", "items", "tags", "user_tags")
