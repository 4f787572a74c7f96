"""Worlds whose tables are special, met again on the way, on several paths, in leaves."""

from __future__ import annotations

from matrix import OWED, world

SELF = world(
    "self-reference and the way back to the root's table",
    """
    create table @person (id int primary key, boss int, v int default 1, gone bool);
    create table @task (id int primary key, owner int, reviewer int, v int default 1);
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
"""
    },
    """
    insert into @person values (1, null), (2, 1), (3, 2), (4, 3), (5, null), (6, null);
    insert into @task values (11, 4, 1), (12, 5, 6);
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
            "update": ("update @person set v = 9 where id = 6", "5 6"),
            "key changed": ("update @person set id = 9 where id = 6", "5 6 9"),
            "delete": ("delete from @person where id = 6", "5 6"),
            "delete with the row in between": (
                "delete from @task; delete from @person where id = 6",
                "4 5 6",
            ),
            "link moved": ("update @task set reviewer = 6 where id = 11", "4"),
            "row in between moved": ("update @task set owner = 5 where id = 11", "4 5"),
        },
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
    insert into @customer values (11, 1), (12, 2);
    insert into @orders values (21, 11, 1, 2), (22, 11, 3, 3), (23, 12, 4, 4);
    insert into @visit values (31, 11, 3), (32, 12, 4);
    """,
    {
        "one table on several paths": {
            "insert": ("insert into @address values (6)", "addresses:6"),
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
                "insert into @orders values (24, 12, 1, 1)",
                "orders:24 addresses:1",
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

PARTITIONED = world(
    "partitions",
    """
    create table @root (id int, region text, v int default 1, target int, primary key (region, id))
      partition by list (region);
    create table @root_a partition of @root for values in ('a');
    create table @root_b partition of @root for values in ('b');
    create table @child (id int, parent int, day int, v int default 1, primary key (day, v, id))
      partition by range (day);
    create table @child_1 partition of @child for values from (1) to (2);
    create table @child_2 partition of @child for values from (2) to (3) partition by list (v);
    create table @child_2x partition of @child_2 for values in (1);
    create table @child_2y partition of @child_2 default;
    create table @target (id int, kind text, v int default 1, primary key (id, kind))
      partition by list (kind);
    create table @target_k partition of @target for values in ('k');
    create table @target_l partition of @target default;
    create table @link (l int, r int, v int default 1, primary key (l, r)) partition by hash (l);
    create table @link_0 partition of @link for values with (modulus 2, remainder 0);
    create table @link_1 partition of @link for values with (modulus 2, remainder 1);
    create table @far (id int primary key, v int default 1);
    alter table @root_a replica identity full;
    alter table @root_b replica identity full;
    alter table @child_1 replica identity full;
    alter table @child_2x replica identity full;
    alter table @child_2y replica identity full;
    """,
    {
        "": """
version: 1
table: "@root"
primary_key: id
fields:
- integer: v
- keyword: region
- belongs_to: target
  table: "@target"
  primary_key: id
  column: target
  fields: [{ integer: v }, { keyword: kind }]
- has_many: children
  table: "@child"
  primary_key: id
  foreign_key: parent
  order_by: [{ column: day }]
  fields: [{ integer: v }, { integer: day }]
- many_to_many: far
  table: "@far"
  through: { table: "@link", left_key: l, right_key: r }
  fields: [{ integer: v }]
"""
    },
    """
    insert into @root values (1, 'a', 1, 51), (2, 'b', 1, 52), (3, 'a', 1, 53);
    insert into @child values (61, 1, 1), (62, 2, 2), (63, 3, 1);
    insert into @target values (51, 'k'), (53, 'k');
    insert into @far values (81), (83), (84);
    insert into @link values (1, 81), (2, 82), (3, 83);
    """,
    {
        "partitioned root": {
            "insert": ("insert into @root values (4, 'b')", "4"),
            "row moves between partitions": ("update @root set region = 'b' where id = 1", "1"),
            "row moves and its key changes": ("update @root set region = 'b', id = 9 where id = 1", "1 9"),
            "delete": ("delete from @root where id = 1", "1"),
            "truncate": ("truncate @root", OWED),
            "truncate of a partition": ("truncate @root_a", OWED),
        },
        "partitioned child": {
            "insert": ("insert into @child values (64, 1, 2)", "1"),
            "update, link kept": ("update @child set v = 9 where id = 61", "1"),
            "row moves between partitions": ("update @child set day = 2 where id = 61", "1"),
            "row moves between partitions of a partition": ("update @child set v = 5 where id = 62", "2"),
            "row moves and so does its link": ("update @child set day = 2, parent = 2 where id = 61", "1 2"),
            "link moved": ("update @child set parent = 2 where id = 61", "1 2"),
            "key changed": ("update @child set id = 69 where id = 61", "1"),
            "delete": ("delete from @child where id = 61", "1"),
            "truncate": ("truncate @child", OWED),
            "truncate of a partition": ("truncate @child_1", OWED),
        },
        "partitioned belongs_to target": {
            "insert": ("insert into @target values (52, 'l')", "2"),
            "row moves between partitions": ("update @target set kind = 'l' where id = 51", "1"),
            "key changed": ("update @target set id = 52 where id = 51", "1 2"),
            "delete": ("delete from @target where id = 51", "1"),
            "truncate of a partition": ("truncate @target_k", OWED),
        },
        "partitioned junction": {
            "left link moved to another partition": ("update @link set l = 2 where l = 1", "1 2"),
            "right link moved": ("update @link set r = 84 where l = 1", "1"),
            "delete": ("delete from @link where l = 1", "1"),
            "truncate": ("truncate @link", OWED),
        },
    },
)

MIXED = world(
    "partitions of which some show the link",
    """
    create table @root (id int primary key, v int default 1);
    create table @child (id int, parent int, day int, v int default 1, primary key (day, id))
      partition by range (day);
    create table @child_1 partition of @child for values from (1) to (2);
    create table @child_2 partition of @child for values from (2) to (3);
    create table @child_3 partition of @child for values from (3) to (4);
    alter table @child_1 replica identity full;
    alter table @child_2 replica identity full;
    alter table @child_3 replica identity full;
    """,
    {
        "": """
version: 1
table: "@root"
fields:
- integer: v
- has_many: children
  table: "@child"
  primary_key: [day, id]
  foreign_key: parent
  order_by: [{ column: day }, { column: id }]
  fields: [{ integer: v }, { integer: day }]
- count: counted
  table: "@child"
  primary_key: [day, id]
  foreign_key: parent
"""
    },
    """
    insert into @root values (1), (2), (3);
    insert into @child values (61, 1, 1), (62, 2, 2), (63, 3, 1), (64, 3, 2), (65, 1, 3);
    """,
    {
        f"child whose partition shows its {shown}": {
            "insert": (f"insert into @child values (69, 1, {day})", "1"),
            "update, link kept": (f"update @child set v = 9 where id = {id_}", own),
            "link moved": (f"update @child set parent = 3 where id = {id_}", f"{own} 3"),
            "key changed": (f"update @child set id = 69 where id = {id_}", own),
            "row moves to the other kind": (f"update @child set day = {other} where id = {id_}", own),
            "row moves and so does its link": (
                f"update @child set day = {other}, parent = 3 where id = {id_}",
                f"{own} 3",
            ),
            "delete": (f"delete from @child where id = {id_}", own),
            "truncate of the partition": (f"truncate @child_{day}", OWED),
        }
        for shown, id_, day, other, own in (
            ("row", 61, 1, 2, "1"),
            ("key", 62, 2, 1, "2"),
            ("index", 65, 3, 2, "1"),
        )
    },
    as_it_comes="""
    alter table @child_1 replica identity full;
    alter table @child_3 alter parent set not null;
    create unique index @child_3_shown on @child_3 (day, id, parent);
    alter table @child_3 replica identity using index @child_3_shown;
    """,
)
