"""Worlds of the resolution matrix whose keys and links are special: composite, unique, odd, long."""

from __future__ import annotations

from chains import FULL, INDEX
from matrix import OWED, World, world

COMPOSITE = world(
    "composite keys",
    """
    create table @root (a text, b int, v int default 1, ta text, tb int, primary key (a, b));
    create table @target (a text, b int, v int default 1, primary key (a, b));
    create table @child (id int primary key, pa text, pb int, v int default 1);
    create table @grand (ca int, n int, v int default 1, primary key (ca, n));
    create table @link (la text, lb int, ra text, rb int, primary key (la, lb, ra, rb));
    create table @far (a text, b int, v int default 1, primary key (a, b));
    alter table @child replica identity full;
    """,
    {
        "": """
version: 1
table: "@root"
fields:
- integer: v
- belongs_to: target
  table: "@target"
  column: [ta, tb]
  fields: [{ integer: v }]
- has_many: children
  table: "@child"
  foreign_key: [pa, pb]
  fields:
  - integer: v
  - sum: grands
    table: "@grand"
    foreign_key: ca
    primary_key: [ca, n]
    column: v
    value_type: long
- many_to_many: far
  table: "@far"
  through: { table: "@link", left_key: [la, lb], right_key: [ra, rb] }
  fields: [{ integer: v }]
"""
    },
    """
    insert into @root values ('x', 1, 1, 't', 1), ('x', 2, 1, 't', 2), ('y', 1, 1, 'u', 1);
    insert into @target values ('t', 1), ('u', 1), ('u', 2);
    insert into @child values (1, 'x', 1), (2, 'x', 2), (3, 'y', 1), (4, 'x', null);
    insert into @grand values (1, 1), (2, 1), (3, 1);
    insert into @link values ('x', 1, 'f', 1), ('x', 2, 'f', 2), ('y', 1, 'g', 1);
    insert into @far values ('f', 1), ('g', 1);
    """,
    {
        "root": {
            "one part of the key changed": ("update @root set b = 9 where a = 'x' and b = 1", "x|1 x|9"),
            "delete": ("delete from @root where a = 'x' and b = 1", "x|1"),
        },
        "belongs_to target": {
            "insert": ("insert into @target values ('t', 2)", "x|2"),
            "update": ("update @target set v = 9 where a = 't'", "x|1"),
            "one part of the key changed": ("update @target set b = 2 where a = 't'", "x|1 x|2"),
            "delete": ("delete from @target where a = 't'", "x|1"),
            "truncate": ("truncate @target", OWED),
        },
        "has_many child": {
            "one part of the link moved": ("update @child set pb = 2 where id = 1", "x|1 x|2"),
            "one part of the link to nothing": ("update @child set pb = null where id = 1", "x|1"),
            "the missing part of the link": ("update @child set pb = 1 where id = 4", "x|1"),
            "delete": ("delete from @child where id = 1", "x|1"),
        },
        "aggregate at depth 2": {
            "link moved within the key": ("update @grand set ca = 2, n = 2 where ca = 1", "x|1 x|2"),
            "delete": ("delete from @grand where ca = 1", "x|1"),
        },
        "junction": {
            "left link moved by a part": ("update @link set lb = 2 where lb = 1 and la = 'x'", "x|1 x|2"),
            "right link moved by a part": ("update @link set rb = 2 where lb = 1 and la = 'x'", "x|1"),
            "delete": ("delete from @link where lb = 1 and la = 'x'", "x|1"),
        },
        "far side": {
            "insert after its junction row": ("insert into @far values ('f', 2)", "x|2"),
            "one part of the key changed": ("update @far set b = 2 where a = 'f'", "x|1 x|2"),
            "delete": ("delete from @far where a = 'f'", "x|1"),
        },
    },
)


def by_unique_column(identity: str) -> World:
    """References by a unique column, and a root whose ids are not its key."""
    shown = {FULL: "full", INDEX: "using index @{}_code_key"}[identity]
    identities = "\n".join(
        f"alter table @{name} replica identity {shown.format(name)};" for name in ("root", "target", "far")
    )
    return world(
        f"references by a unique column, identity {identity}",
        f"""
        create table @root (id int primary key, code text not null unique, target text, v int default 1);
        create table @target (id int primary key, code text not null unique, v int default 1);
        create table @child (id int primary key, root_code text, v int default 1);
        create table @link (l text, r text, primary key (l, r));
        create table @far (id int primary key, code text not null unique, v int default 1);
        alter table @child replica identity full;
        {identities}
        """,
        {
            "": """
version: 1
table: "@root"
primary_key: code
fields:
- integer: v
- belongs_to: target
  table: "@target"
  primary_key: code
  column: target
  fields: [{ integer: v }]
- has_many: children
  table: "@child"
  foreign_key: root_code
  fields: [{ integer: v }]
- many_to_many: far
  table: "@far"
  primary_key: code
  through: { table: "@link", left_key: l, right_key: r }
  fields: [{ integer: v }]
- ids: farIds
  table: "@far"
  primary_key: code
  element_type: keyword
  through: { table: "@link", left_key: l, right_key: r }
"""
        },
        """
        insert into @root values (1, 'a', 't'), (2, 'b', 'u'), (3, 'c', 'w');
        insert into @target values (11, 't'), (13, 'w');
        insert into @child values (21, 'a'), (22, 'b'), (23, 'c');
        insert into @link values ('a', 'f'), ('b', 'g'), ('c', 'h');
        insert into @far values (31, 'f'), (33, 'h');
        """,
        {
            "root": {
                "key changed, id kept": ("update @root set id = 9 where id = 1", "a"),
                "id changed": ("update @root set code = 'z' where id = 1", "a z"),
                "ids swapped": (
                    "update @root set code = '' where id = 1; update @root set code = 'a' where id = 2;"
                    "update @root set code = 'b' where id = 1",
                    "a b ~",
                ),
                "delete": ("delete from @root where id = 1", "a"),
            },
            "belongs_to target": {
                "insert": ("insert into @target values (12, 'u')", "b"),
                "update": ("update @target set v = 9 where code = 't'", "a"),
                "referenced column changed": ("update @target set code = 'u' where code = 't'", "a b"),
                "key changed": ("update @target set id = 19, v = 2 where code = 't'", "a"),
                "delete": ("delete from @target where code = 't'", "a"),
                "truncate": ("truncate @target", OWED),
            },
            "has_many child": {
                "link moved": ("update @child set root_code = 'b' where id = 21", "a b"),
                "delete": ("delete from @child where id = 21", "a"),
            },
            "far side": {
                "insert after its junction row": ("insert into @far values (32, 'g')", "b"),
                "update": ("update @far set v = 9 where code = 'f'", "a"),
                "referenced column changed": ("update @far set code = 'g' where code = 'f'", "a b"),
                "delete": ("delete from @far where code = 'f'", "a"),
            },
        },
    )


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
