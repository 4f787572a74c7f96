"""Worlds of the resolution matrix whose links are special: of another type than the key, out of line."""

from __future__ import annotations

from matrix import world

ODD = world(
    "links that print otherwise than the keys they refer to",
    """
    create table @root (id int primary key, v int default 1, name text);
    create table @wide (id int primary key, root bigint, v int default 1);
    create table @exact (id int primary key, root numeric, v int default 1);
    create table @named (id text primary key, v int default 1);
    create table @padded (id int primary key, name char(6), v int default 1);
    create table @deep (id int primary key, padded bigint, v int default 1);
    alter table @root replica identity full;
    alter table @wide replica identity full;
    alter table @exact replica identity full;
    alter table @padded replica identity full;
    alter table @deep replica identity full;
    """,
    {
        "roots": """
version: 1
table: "@root"
fields:
- integer: v
- has_many: wide
  table: "@wide"
  foreign_key: root
  fields: [{ integer: v }]
- has_many: exact
  table: "@exact"
  foreign_key: root
  fields: [{ integer: v }]
- belongs_to: named
  table: "@named"
  column: name
  fields: [{ integer: v }]
""",
        "named": """
version: 1
table: "@named"
fields:
- integer: v
- has_many: padded
  table: "@padded"
  foreign_key: name
  fields:
  - integer: v
  - has_many: deep
    table: "@deep"
    foreign_key: padded
    fields: [{ integer: v }]
""",
    },
    r"""
    insert into @root values (1, 1, 'a"b\'), (2, 1, ''), (3, 1, 'c');
    insert into @wide values (11, 1), (12, 2), (13, 3);
    insert into @exact values (21, 1.00), (22, 2), (23, 3);
    insert into @named values ('a"b\'), (''), ('c'), ('d,{}');
    insert into @padded values (31, 'd,{}'), (32, 'c');
    insert into @deep values (41, 31), (42, 32);
    """,
    {
        "wider integer": {
            "link moved": ("update @wide set root = 2 where id = 11", "roots:1 roots:2"),
            "link beyond the key's range": (
                "update @wide set root = 5000000000 where id = 11",
                "roots:1",
            ),
            "delete from beyond the key's range": (
                "update @wide set root = -5000000000 where id = 11; delete from @wide where id = 11",
                "roots:1",
            ),
        },
        "numeric": {
            "link moved": ("update @exact set root = 2.0 where id = 21", "roots:1 roots:2"),
            "link beyond the key's range": ("update @exact set root = 1e30 where id = 21", "roots:1"),
            "link between two keys": ("update @exact set root = 2.5 where id = 21", "roots:1"),
            "link to no number": ("update @exact set root = 'NaN' where id = 21", "roots:1"),
            "delete": ("delete from @exact where id = 21", "roots:1"),
        },
        "text with quotes": {
            "update": (r"""update @named set v = 9 where id = 'a"b\'""", r'roots:1 named:a"b\ '),
            "key changed": (
                r"""update @named set id = 'null' where id = 'a"b\'""",
                r'roots:1 named:a"b\ named:null',
            ),
            "empty text": ("delete from @named where id = ''", "roots:2 named:~"),
        },
        "padded text": {
            "update": ("update @padded set v = 9 where id = 31", "named:d,{}"),
            "link moved": ("update @padded set name = 'c' where id = 31", "named:d,{} named:c"),
            "delete": ("delete from @padded where id = 31", "named:d,{}"),
            "depth 2 from beyond the key's range": (
                "update @deep set padded = 5000000000 where id = 41",
                "named:d,{}",
            ),
        },
    },
)

LONG = world(
    "links out of line",
    """
    create table @root (id int primary key, key text not null unique, v int default 1);
    create table @child (id int primary key, parent text, v int default 1);
    create table @blind (id int primary key, parent text, v int default 1);
    alter table @root replica identity full;
    alter table @child replica identity full;
    alter table @child alter parent set storage external;
    alter table @blind alter parent set storage external;
    """,
    {
        "": """
version: 1
table: "@root"
fields:
- integer: v
- belongs_to: self
  table: "@root"
  primary_key: key
  column: key
  fields:
  - has_many: children
    table: "@child"
    foreign_key: parent
    fields: [{ integer: v }]
  - has_many: blind
    table: "@blind"
    foreign_key: parent
    fields: [{ integer: v }]
"""
    },
    """
    insert into @root select n, 'k' || n || repeat('x', 2500) from generate_series(1, 3) as n;
    insert into @child select n, 'k' || n || repeat('x', 2500) from generate_series(1, 3) as n;
    insert into @blind select n, 'k' || n || repeat('x', 2500) from generate_series(1, 3) as n;
    """,
    {
        "has_many child, identity full": {
            "update, link kept and not in the log": ("update @child set v = 9 where id = 1", "1"),
            "link moved": ("update @child set parent = 'k2' || repeat('x', 2500) where id = 1", "1 2"),
            "delete": ("delete from @child where id = 1", "1"),
            "updated, then deleted": (
                "update @child set v = 9 where id = 1; delete from @child where id = 1",
                "1",
            ),
        },
        "has_many child, identity default": {
            "update, link kept and not in the log": ("update @blind set v = 9 where id = 1", "1"),
            "updated with its root, then deleted": (
                "update @root set v = 9 where id = 1; update @blind set v = 9 where id = 1;"
                "delete from @blind where id = 1",
                "1",
            ),
        },
    },
)
