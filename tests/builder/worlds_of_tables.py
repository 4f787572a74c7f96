"""Worlds whose tables are special, met again on the way, on several paths, in leaves."""

from __future__ import annotations

from cells import Junction, junction_cells
from matrix import OWED, world

SELF = world(
    "self-reference and the way back to the root's table",
    """
    create table @person (id int primary key, boss int, v int default 1, gone bool);
    create table @task (id int primary key, owner int, reviewer int, v int default 1);
    create table @friend (l int, r int, v int default 1, primary key (l, r));
    alter table @person replica identity full;
    alter table @task replica identity full;
    """,
    {
        "": """
version: 1
table: "@person"
fields:
- integer: v
- belongs_to: boss
  table: "@person"
  column: boss
  soft_delete: { column: gone }
  fields:
  - integer: v
  - belongs_to: boss
    table: "@person"
    column: boss
    fields: [{ integer: v }]
- has_many: reports
  table: "@person"
  foreign_key: boss
  fields: [{ integer: v }]
- has_many: tasks
  table: "@task"
  foreign_key: owner
  fields:
  - integer: v
  - belongs_to: reviewer
    table: "@person"
    column: reviewer
    fields: [{ integer: v }]
- many_to_many: friends
  table: "@person"
  through: { table: "@friend", left_key: l, right_key: r, filters: [{ column: v, op: gt, value: 0 }] }
  fields: [{ integer: v }]
"""
    },
    """
    insert into @person values (1, null), (2, 1), (3, 2), (4, 3), (5, null), (6, null);
    insert into @task values (11, 4, 1), (12, 5, 6), (13, 6, 8);
    insert into @friend values (1, 5), (5, 6);
    """,
    {
        "self-reference": {
            "insert": ("insert into @person values (7, 4)", "7 4"),
            "update": ("update @person set v = 9 where id = 1", "1 2 3 4"),
            "update in the middle": ("update @person set v = 9 where id = 3", "2 3 4"),
            "link moved": ("update @person set boss = 5 where id = 3", "2 3 4 5"),
            "link to nothing": ("update @person set boss = null where id = 3", "2 3 4"),
            "link to itself": ("update @person set boss = 3 where id = 3", "2 3 4"),
            "key changed": ("update @person set id = 9 where id = 2", "1 2 3 4 9"),
            "delete": ("delete from @person where id = 2", "1 2 3 4"),
            "is deleted softly": ("update @person set gone = true where id = 2", "1 2 3 4"),
            "truncate": ("truncate @person", OWED),
            "two bosses change places": (
                "update @person set boss = 3 where id = 2; update @person set boss = 1 where id = 3",
                "1 2 3 4",
            ),
        },
        "way back to the root's table": {
            "insert of whom a row waits for": ("insert into @person values (8)", "8 6"),
            "update": ("update @person set v = 9 where id = 6", "5 6"),
            "row in between deleted": ("delete from @task where id = 12", "5"),
            "truncate of the row in between": ("truncate @task", OWED),
            "key changed": ("update @person set id = 9 where id = 6", "5 6 9"),
            "delete": ("delete from @person where id = 6", "5 6"),
            "delete with the row in between": (
                "delete from @task; delete from @person where id = 6",
                "4 5 6",
            ),
            "link moved": ("update @task set reviewer = 6 where id = 11", "4"),
            "row in between moved": ("update @task set owner = 5 where id = 11", "4 5"),
        },
        "self-reference by a junction": junction_cells(
            Junction("@friend", "l = 1 and r = 5", "1, 4", "l = 2", "r = 4"), own="1"
        ),
    },
)

SEVERAL = world(
    "one table on several paths, and several indexes",
    """
    create table @customer (id int primary key, home int, v int default 1);
    create table @orders (id int primary key, customer int, bill int, ship int, v int default 1);
    create table @address (id int primary key, v int default 1);
    create table @visit (id int primary key, customer int, address int);
    alter table @customer replica identity full;
    alter table @orders replica identity full;
    alter table @visit replica identity full;
    """,
    {
        "orders": """
version: 1
table: "@orders"
fields:
- integer: v
- belongs_to: bill
  table: "@address"
  column: bill
  fields: [{ integer: v }]
- belongs_to: ship
  table: "@address"
  column: ship
  fields: [{ integer: v }]
- belongs_to: customer
  table: "@customer"
  column: customer
  fields:
  - integer: v
  - belongs_to: home
    table: "@address"
    column: home
    fields: [{ integer: v }]
  - many_to_many: visited
    table: "@address"
    through: { table: "@visit", left_key: customer, right_key: address }
    fields: [{ integer: v }]
""",
        "addresses": """
version: 1
table: "@address"
fields:
- integer: v
- has_many: billed
  table: "@orders"
  foreign_key: bill
  fields: [{ integer: v }]
- count: shipped
  table: "@orders"
  foreign_key: ship
- many_to_many: visitors
  table: "@customer"
  through: { table: "@visit", left_key: address, right_key: customer }
  fields: [{ integer: v }]
""",
        "customers": """
version: 1
table: "@customer"
fields: [{ integer: v }]
""",
    },
    """
    insert into @address values (1), (2), (3), (4), (5);
    insert into @customer values (11, 1), (12, 2), (13, 5);
    insert into @orders values (21, 11, 1, 2), (22, 11, 3, 3), (23, 12, 4, 4), (24, 13, 6, 2);
    insert into @visit values (31, 11, 3), (32, 12, 4), (33, 13, 6);
    """,
    {
        "one table on several paths": {
            "insert": ("insert into @address values (7)", "addresses:7"),
            "insert of what two paths wait for": (
                "insert into @address values (6)",
                "addresses:6 orders:24",
            ),
            "update": ("update @address set v = 9 where id = 1", "addresses:1 orders:21 orders:22"),
            "update of what only a junction shows": (
                "update @address set v = 9 where id = 4",
                "addresses:4 orders:23",
            ),
            "update of what two paths show": (
                "update @address set v = 9 where id = 3",
                "addresses:3 orders:21 orders:22",
            ),
            "one of two links moved": (
                "update @orders set ship = 5 where id = 21",
                "orders:21 addresses:1 addresses:2 addresses:5",
            ),
            "key changed": (
                "update @address set id = 9 where id = 3",
                "addresses:3 addresses:9 orders:21 orders:22",
            ),
            "delete": ("delete from @address where id = 3", "addresses:3 orders:21 orders:22"),
            "truncate": ("truncate @address", OWED),
        },
        "several indexes": {
            "insert": (
                "insert into @orders values (25, 12, 1, 1)",
                "orders:25 addresses:1",
            ),
            "update, link kept": (
                "update @orders set v = 9 where id = 23",
                "orders:23 addresses:4",
            ),
            "update of a shared row": (
                "update @customer set v = 9 where id = 11",
                "customers:11 orders:21 orders:22 addresses:3",
            ),
            "link moved": (
                "update @customer set home = 5, v = 2 where id = 11",
                "customers:11 orders:21 orders:22 addresses:3",
            ),
            "junction's both sides": (
                "update @visit set customer = 12, address = 5 where id = 31",
                "orders:21 orders:22 orders:23 addresses:3 addresses:5",
            ),
            "key changed": (
                "update @customer set id = 19 where id = 12",
                "customers:12 customers:19 orders:23 addresses:4",
            ),
            "delete": ("delete from @visit where id = 31", "orders:21 orders:22 addresses:3"),
            "truncate": ("truncate @visit", OWED),
        },
    },
)
