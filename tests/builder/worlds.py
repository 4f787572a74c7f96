"""All worlds of the resolution matrix: chains of relations, and what is special."""

from __future__ import annotations

from chains import BELONGS_TO, DEFAULT, FULL, HAS_MANY, INDEX, MANY_TO_MANY, chain
from matrix import OWED, World, world

from sizes import IS_FULL

CHAINS = (
    chain((), FULL),
    chain((), INDEX),
    chain((), DEFAULT),
    chain((HAS_MANY,)),
    chain((BELONGS_TO,)),
    chain((MANY_TO_MANY,)),
    chain((HAS_MANY,), INDEX),
    chain((HAS_MANY, BELONGS_TO)),
    chain((MANY_TO_MANY, HAS_MANY)),
    chain((HAS_MANY, HAS_MANY, HAS_MANY)),
    chain((BELONGS_TO, HAS_MANY, MANY_TO_MANY)),
)
FURTHER_CHAINS = (
    chain((BELONGS_TO,), DEFAULT),
    chain((MANY_TO_MANY,), INDEX),
    chain((BELONGS_TO, MANY_TO_MANY)),
    chain((BELONGS_TO, BELONGS_TO)),
    chain((MANY_TO_MANY, MANY_TO_MANY)),
    chain((BELONGS_TO, BELONGS_TO, BELONGS_TO)),
    chain((MANY_TO_MANY, BELONGS_TO, HAS_MANY)),
    chain((HAS_MANY, MANY_TO_MANY, BELONGS_TO)),
)

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


def _by_unique_column(identity: str) -> World:
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
    create table @child (id int, parent int, day int, v int default 1, unique (day, v, id))
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
        },
        "has_many child, identity default": {
            "update, link kept and not in the log": ("update @blind set v = 9 where id = 1", "1"),
            "updated, then deleted": (
                "update @root set v = 9 where id = 1; update @blind set v = 9 where id = 2",
                "1 2",
            ),
        },
    },
)

WORLDS = (
    *CHAINS,
    *(FURTHER_CHAINS if IS_FULL else ()),
    COMPOSITE,
    _by_unique_column(FULL),
    _by_unique_column(INDEX),
    SELF,
    SEVERAL,
    PARTITIONED,
    ODD,
    LONG,
)
