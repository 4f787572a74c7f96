"""Worlds of the resolution matrix whose tables are partitioned, with leaves of one or several identities."""

from __future__ import annotations

from cells import Child, Junction, Referred, child_cells, junction_cells, referred_cells
from matrix import DEFAULT, OWED, Columns, World, identify, rows, world

_HIDDEN = "v int default 1, gone bool default false"
_COUNTED = "filters: [{ column: v, op: gt, value: 0 }]"
_HIDING = _COUNTED + "\n  soft_delete: { column: gone }"
_LEAVES = {
    "root": ("root_a", "root_b"),
    "child": ("child_1", "child_2x", "child_2y"),
    "target": ("target_k", "target_l"),
    "link": ("link_0", "link_1"),
    "far": ("far_k", "far_l"),
}


def partitioned(identity: str) -> World:
    """Every place in partitions; their leaves show the links."""
    return world(
        "partitions",
        _tables(identity),
        {
            "": f"""
version: 1
table: "@root"
primary_key: id
{_COUNTED}
soft_delete: {{ column: gone }}
fields:
- integer: v
- keyword: region
- belongs_to: target
  table: "@target"
  primary_key: id
  column: target
  {_HIDING}
  fields: [{{ integer: v }}, {{ keyword: kind }}]
- has_many: children
  table: "@child"
  primary_key: id
  foreign_key: parent
  order_by: [{{ column: day }}]
  {_HIDING}
  fields: [{{ integer: v }}, {{ integer: day }}]
- ids: childIds
  table: "@child"
  primary_key: id
  foreign_key: parent
  element_type: integer
  {_HIDING}
- many_to_many: far
  table: "@far"
  primary_key: id
  through: {{ table: "@link", left_key: l, right_key: r, {_COUNTED} }}
  {_HIDING}
  fields: [{{ integer: v }}, {{ keyword: kind }}]
- sum: farSum
  table: "@far"
  primary_key: id
  through: {{ table: "@link", left_key: l, right_key: r, {_COUNTED} }}
  column: id
  value_type: long
  {_HIDING}
"""
        },
        rows(
            """
            @root: (1, 'a', 51), (2, 'b', 52), (3, 'a', 53), (4, 'b', 51), (5, 'a', 55), (6, 'a', 56)
            @root: (7, 'a', 0, -1), (8, 'b', 0, 1, true)
            @child: (61, 1, 1), (62, 2, 2), (63, 3, 1), (65, 2, 2, -1), (66, 2, 1, 1, true)
            @target: (51, 'k'), (53, 'k'), (55, 'l', -1), (56, 'k', 1, true)
            @far: (81, 'k'), (83, 'k'), (84, 'l'), (85, 'l'), (86, 'k', -1), (87, 'l', 1, true), (89, 'k')
            @link: (1, 81), (2, 82), (3, 83), (1, 85), (2, 85), (2, 86), (2, 87), (2, 89, -1)
            """
        ),
        _cells(),
        identity=identity,
    )


def _tables(identity: str) -> str:
    shown = {
        "root": "region, id",
        "child": "parent, day, v, id",
        "target": "id, kind",
        "link": "l, r",
        "far": "kind, id",
    }
    key = {**shown, "child": shown["child"] if identity == DEFAULT else "day, v, id"}
    identities = [
        sql
        for name, leaves in _LEAVES.items()
        for leaf in leaves
        for sql in identify(f"@{leaf}", shown[name], identity)
    ]
    return f"""
    create table @root (id int, region text, target int, {_HIDDEN}, primary key ({key["root"]}))
      partition by list (region);
    create table @root_a partition of @root for values in ('a');
    create table @root_b partition of @root for values in ('b');
    create table @child (id int, parent int, day int, {_HIDDEN}, primary key ({key["child"]}))
      partition by range (day);
    create table @child_1 partition of @child for values from (1) to (2);
    create table @child_2 partition of @child for values from (2) to (3) partition by list (v);
    create table @child_2x partition of @child_2 for values in (1);
    create table @child_2y partition of @child_2 default;
    create table @target (id int, kind text, {_HIDDEN}, primary key ({key["target"]}))
      partition by list (kind);
    create table @target_k partition of @target for values in ('k');
    create table @target_l partition of @target default;
    create table @link (l int, r int, v int default 1, primary key ({key["link"]})) partition by hash (l);
    create table @link_0 partition of @link for values with (modulus 2, remainder 0);
    create table @link_1 partition of @link for values with (modulus 2, remainder 1);
    create table @far (id int, kind text, {_HIDDEN}, primary key ({key["far"]})) partition by list (kind);
    create table @far_k partition of @far for values in ('k');
    create table @far_l partition of @far default;
    """ + "\n".join(identities)


def _cells() -> dict[str, Columns]:
    child = Child("@child", "id = 61", "64, 1, 2", "parent = 2", "id = 69", "id = 65", "id = 66")
    link = Junction("@link", "l = 1 and r = 81", "1, 84", "l = 2", "r = 84", hidden="r = 89")
    far = Referred(
        "@far", "id = 81", "82, 'l'", "id = 82", shared="id = 85", hidden="id = 86", gone="id = 87"
    )
    return {
        "partitioned root": {
            "insert": ("insert into @root values (9, 'b')", "9"),
            "update": ("update @root set v = 9 where id = 1", "1"),
            "row moves between partitions": ("update @root set region = 'b' where id = 1", "1"),
            "row moves and its key changes": ("update @root set region = 'b', id = 9 where id = 1", "1 9"),
            "key changed": ("update @root set id = 9 where id = 1", "1 9"),
            "delete": ("delete from @root where id = 1", "1"),
            "truncate": ("truncate @root", OWED),
            "truncate of a partition": ("truncate @root_a", OWED),
            "row moves and leaves by a filter": ("update @root set region = 'b', v = -1 where id = 1", "1"),
            "comes by a filter": ("update @root set v = 1 where id = 7", "7"),
            "row moves and is restored": ("update @root set region = 'a', gone = false where id = 8", "8"),
        },
        "partitioned child": child_cells(child)
        | {
            "row moves between partitions": ("update @child set day = 2 where id = 61", "1"),
            "row moves between partitions of a partition": ("update @child set v = 5 where id = 62", "2"),
            "row moves and so does its link": ("update @child set day = 2, parent = 2 where id = 61", "1 2"),
            "row moves and leaves by a filter": ("update @child set day = 2, v = -1 where id = 61", "1"),
            "truncate of a partition": ("truncate @child_1", OWED),
        },
        "partitioned belongs_to target": referred_cells(
            Referred("@target", "id = 51", "52, 'l'", "id = 52"), own="1 4"
        )
        | {
            "row moves between partitions": ("update @target set kind = 'l' where id = 51", "1 4"),
            "row moves and its key changes": (
                "update @target set kind = 'l', id = 52 where id = 51",
                "1 2 4",
            ),
            "leaves by a filter": ("update @target set v = -1 where id = 51", "1 4"),
            "comes by a filter": ("update @target set v = 1 where id = 55", "5"),
            "is deleted softly": ("update @target set gone = true where id = 51", "1 4"),
            "is restored": ("update @target set gone = false where id = 56", "6"),
            "truncate of a partition": ("truncate @target_k", OWED),
        },
        "partitioned junction": junction_cells(link)
        | {"truncate of a partition": ("truncate @link_0", OWED)},
        "partitioned far side": referred_cells(far, insert="insert after its junction row")
        | {
            "row moves between partitions": ("update @far set kind = 'l' where id = 81", "1"),
            "row moves and its key changes": ("update @far set kind = 'l', id = 82 where id = 81", "1 2"),
            "row moves and comes by a filter": ("update @far set kind = 'l', v = 1 where id = 86", "2"),
            "truncate of a partition": ("truncate @far_k", OWED),
        },
    }


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
