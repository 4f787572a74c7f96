"""Worlds of the resolution matrix whose keys are special: of several columns, or not what others refer to."""

from __future__ import annotations

from cells import Child, Junction, Referred, child_cells, junction_cells, referred_cells
from matrix import FULL, Columns, World, rows, table, world

_HIDING = "filters: [{ column: v, op: gt, value: 0 }]\n  soft_delete: { column: gone }"
_HIDDEN = "v int default 1, gone bool default false"
_COUNTED = "filters: [{ column: v, op: gt, value: 0 }]"


def composite(identity: str) -> World:
    """Keys and references of two columns, at the first level and at the second."""
    return world(
        "composite keys",
        _composite_tables(identity),
        {
            "": f"""
version: 1
table: "@root"
{_COUNTED}
soft_delete: {{ column: gone }}
fields:
- integer: v
- belongs_to: target
  table: "@target"
  column: [ta, tb]
  {_HIDING}
  fields: [{{ integer: v }}]
- has_one: one
  table: "@one"
  primary_key: id
  foreign_key: [pa, pb]
  {_HIDING}
  fields: [{{ integer: id }}, {{ integer: v }}]
- has_many: many
  table: "@many"
  primary_key: [a, b]
  foreign_key: [pa, pb]
  {_HIDING}
  fields:
  - keyword: a
  - integer: v
  - sum: grands
    table: "@grand"
    foreign_key: [ca, cb]
    primary_key: [ca, cb, n]
    column: v
    value_type: long
    {_HIDING.replace("  ", "    ")}
- many_to_many: far
  table: "@far"
  through: {{ table: "@link", left_key: [la, lb], right_key: [ra, rb], {_COUNTED} }}
  {_HIDING}
  fields: [{{ integer: v }}]
"""
        },
        rows("""
        @root: ('x', 1, 't', 1), ('x', 2, 't', 2), ('y', 1, 'u', 1), ('z', 1, 'h', 1)
        @root: ('z', 2, 'h', 2), ('z', 3, 't', 1), ('w', 1, '', 0, -1), ('w', 2, '', 0, 1, true)
        @target: ('t', 1), ('u', 1), ('u', 2), ('h', 1, -1), ('h', 2, 1, true)
        @one: (1, 'x', 1), (2, 'x', 2), (3, 'y', 1), (5, 'x', 2, -1), (6, 'x', 2, 1, true)
        @many: ('m', 1, 'x', 1), ('m', 2, 'x', 2), ('n', 1, 'y', 1)
        @many: ('h', 1, 'x', 2, -1), ('h', 2, 'x', 2, 1, true)
        @grand: ('m', 1, 1), ('m', 2, 3), ('n', 1, 1), ('m', 2, 5, -1), ('m', 2, 6, 1, true)
        @link: ('x', 1, 'f', 1), ('x', 2, 'f', 2), ('y', 1, 'g', 1)
        @link: ('x', 1, 's', 1), ('x', 2, 's', 1), ('x', 2, 'h', 1), ('x', 2, 'h', 2), ('x', 2, 'g', 2, -1)
        @far: ('f', 1), ('g', 1), ('g', 2), ('s', 1), ('h', 1, -1), ('h', 2, 1, true)
        """),
        _composite_cells(identity),
        identity=identity,
    )


def _composite_tables(identity: str) -> str:
    link = "la text, lb int, ra text, rb int, v int default 1"
    return "\n".join(
        table(
            f"@{name}", f"{columns}, {_HIDDEN}" if name != "link" else columns, key, links, identity=identity
        )
        for name, columns, key, links in (
            ("root", "a text, b int, ta text, tb int", "a, b", ""),
            ("target", "a text, b int", "a, b", ""),
            ("one", "id int, pa text, pb int", "id", "pa, pb"),
            ("many", "a text, b int, pa text, pb int", "a, b", "pa, pb"),
            ("grand", "ca text, cb int, n int", "ca, cb, n", ""),
            ("link", link, "la, lb, ra, rb", ""),
            ("far", "a text, b int", "a, b", ""),
        )
    )


def _composite_cells(identity: str) -> dict[str, Columns]:
    own, other = "x|1", "x|2"
    link = "la = 'x' and lb = 1 and ra = 'f'"
    found = {
        "root": {
            "insert": ("insert into @root values ('x', 3)", "x|3"),
            "update": ("update @root set v = 9 where a = 'x' and b = 1", own),
            "one part of the key changed": ("update @root set b = 9 where a = 'x' and b = 1", "x|1 x|9"),
            "link moved": ("update @root set tb = 2 where a = 'x' and b = 1", own),
            "delete": ("delete from @root where a = 'x' and b = 1", own),
            "leaves by a filter": ("update @root set v = -1 where a = 'x' and b = 1", own),
            "comes by a filter": ("update @root set v = 1 where a = 'w' and b = 1", "w|1"),
            "is deleted softly": ("update @root set gone = true where a = 'x' and b = 1", own),
            "is restored": ("update @root set gone = false where a = 'w' and b = 2", "w|2"),
        },
        "belongs_to target": {
            **referred_cells(
                Referred("@target", "a = 't' and b = 1", "'t', 2", "b = 2"), own="x|1 z|3", other=other
            ),
            "leaves by a filter": ("update @target set v = -1 where a = 't'", "x|1 z|3"),
            "comes by a filter": ("update @target set v = 1 where a = 'h' and b = 1", "z|1"),
            "is deleted softly": ("update @target set gone = true where a = 't'", "x|1 z|3"),
            "is restored": ("update @target set gone = false where a = 'h' and b = 2", "z|2"),
        },
        "has_one child": child_cells(
            Child("@one", "id = 1", "4, 'x', 1", "pb = 2", "id = 9", "id = 5", "id = 6"), own=own, other=other
        ),
        "has_many child": child_cells(
            Child(
                "@many",
                row="a = 'm' and b = 1",
                new="'m', 4, 'x', 1",
                moved="pb = 2",
                key="b = 9",
                hidden="a = 'h' and b = 1",
                gone="a = 'h' and b = 2",
            ),
            own=own,
            other=other,
        ),
        "aggregate at depth 2": child_cells(
            Child("@grand", "cb = 1 and ca = 'm'", "'m', 1, 2", "cb = 2", "n = 9", "n = 5", "n = 6"),
            own=own,
            other=other,
        ),
        "junction": junction_cells(
            Junction(
                "@link", link, "'x', 1, 'g', 2", "lb = 2", "ra = 'g', rb = 2", hidden="ra = 'g' and rb = 2"
            ),
            own=own,
            other=other,
        ),
        "far side": referred_cells(
            Referred(
                "@far",
                row="a = 'f' and b = 1",
                new="'f', 2",
                key="b = 2",
                shared="a = 's'",
                hidden="a = 'h' and b = 1",
                gone="a = 'h' and b = 2",
            ),
            insert="insert after its junction row",
            own=own,
            other=other,
        ),
    }
    # Both links of the row would be those of one that is there, which a filter leaves out.
    del found["junction"]["both links moved"]
    if identity == FULL:
        found["has_one child"] |= {
            "one part of the link to nothing": ("update @one set pb = null where id = 1", own),
            "the missing part of the link": (
                ("update @one set pb = null where id = 1", "update @one set pb = 2 where id = 1"),
                "x|1 x|2",
            ),
        }
    return found


def by_unique_column(identity: str) -> World:
    """References by a unique column at two levels, and a root whose ids are not its key."""
    return world(
        "references by a unique column",
        _unique_tables(identity),
        {
            "": f"""
version: 1
table: "@root"
primary_key: code
{_COUNTED}
soft_delete: {{ column: gone }}
fields:
- integer: v
- belongs_to: target
  table: "@target"
  primary_key: code
  column: target
  {_HIDING}
  fields: [{{ integer: v }}]
- has_one: one
  table: "@one"
  primary_key: id
  foreign_key: root_code
  {_HIDING}
  fields: [{{ integer: id }}, {{ integer: v }}]
- has_many: many
  table: "@many"
  primary_key: code
  foreign_key: root_code
  {_HIDING}
  fields:
  - integer: v
  - max: grands
    table: "@grand"
    primary_key: id
    foreign_key: many_code
    column: id
    value_type: long
    {_HIDING.replace("  ", "    ")}
- many_to_many: far
  table: "@far"
  primary_key: code
  through: {{ table: "@link", left_key: l, right_key: r, {_COUNTED} }}
  {_HIDING}
  fields: [{{ integer: v }}]
- ids: farIds
  table: "@far"
  primary_key: code
  element_type: keyword
  through: {{ table: "@link", left_key: l, right_key: r, {_COUNTED} }}
  {_HIDING}
"""
        },
        rows("""
        @root: (1, 'a', 't'), (2, 'b', 'u'), (3, 'c', 'w'), (4, 'd', 't'), (5, 'e', 'h'), (6, 'f', 'g')
        @root: (7, 'h', '', -1), (8, 'i', '', 1, true)
        @target: (11, 't'), (13, 'w'), (14, 'h', -1), (15, 'g', 1, true)
        @one: (21, 'a'), (22, 'b'), (23, 'c'), (24, 'b', -1), (25, 'b', 1, true)
        @many: (31, 'ma', 'a'), (32, 'mb', 'b'), (33, 'mc', 'c')
        @many: (34, 'md', 'b', -1), (35, 'me', 'b', 1, true)
        @grand: (41, 'ma'), (42, 'mb'), (43, 'mc'), (44, 'mb', -1), (45, 'mb', 1, true)
        @link: ('a', 'f'), ('b', 'g'), ('c', 'h'), ('a', 's'), ('b', 's')
        @link: ('b', 'x'), ('b', 'y'), ('b', 'z', -1)
        @far: (51, 'f'), (53, 'h'), (54, 's'), (55, 'x', -1), (56, 'y', 1, true), (57, 'z'), (58, 'n')
        """),
        _unique_cells(),
        identity=identity,
    )


def _unique_tables(identity: str) -> str:
    """Make tables whose references go to `code`, which is no part of a key where an identity shows it."""
    return "\n".join(
        table(f"@{name}", f"{columns}, {_HIDDEN}", key, links, identity=identity)
        + (f"\nalter table @{name} add unique (code);" if ", code text" in columns else "")
        for name, columns, key, links in (
            ("root", "id int, code text, target text", "id", "code"),
            ("target", "id int, code text", "id", "code"),
            ("one", "id int, root_code text", "id", "root_code"),
            ("many", "id int, code text, root_code text", "id", "code, root_code"),
            ("grand", "id int, many_code text", "id", "many_code"),
            ("link", "l text, r text", "l, r", ""),
            ("far", "id int, code text", "id", "code"),
        )
    )


def _unique_cells() -> dict[str, Columns]:
    return {
        "root": {
            "insert": ("insert into @root values (9, 'n')", "n"),
            "update": ("update @root set v = 9 where id = 1", "a"),
            "key changed, id kept": ("update @root set id = 99 where id = 1", "a"),
            "id changed": ("update @root set code = 'z' where id = 1", "a z"),
            "ids swapped": (
                "update @root set code = '' where id = 1; update @root set code = 'a' where id = 2;"
                "update @root set code = 'b' where id = 1",
                "a b ~",
            ),
            "delete": ("delete from @root where id = 1", "a"),
            "leaves by a filter": ("update @root set v = -1 where id = 1", "a"),
            "comes by a filter": ("update @root set v = 1 where id = 7", "h"),
            "is deleted softly": ("update @root set gone = true where id = 1", "a"),
            "is restored": ("update @root set gone = false where id = 8", "i"),
        },
        "belongs_to target": {
            **_referred("@target", 11, "12, 'u'", "u", own="a d"),
            "leaves by a filter": ("update @target set v = -1 where id = 11", "a d"),
            "comes by a filter": ("update @target set v = 1 where id = 14", "e"),
            "is deleted softly": ("update @target set gone = true where id = 11", "a d"),
            "is restored": ("update @target set gone = false where id = 15", "f"),
        },
        "has_one child": _child("@one", 21, "26, 'a'"),
        "has_many child": {
            **_child("@many", 31, "36, 'mf', 'a'"),
            "referenced column changed": ("update @many set code = 'mz' where id = 31", "a"),
        },
        "aggregate at depth 2": _child("@grand", 41, "46, 'ma'", "many_code = 'mb'"),
        "junction": junction_cells(
            Junction("@link", "l = 'a' and r = 'f'", "'a', 'n'", "l = 'b'", "r = 'n'", hidden="r = 'z'"),
            own="a",
            other="b",
        ),
        "far side": {
            **_referred("@far", 51, "52, 'g'", "g", insert="insert after its junction row"),
            "update of one that several show": ("update @far set v = 9 where code = 's'", "a b"),
            "leaves by a filter": ("update @far set v = -1 where id = 51", "a"),
            "comes by a filter": ("update @far set v = 1 where id = 55", "b"),
            "is deleted softly": ("update @far set gone = true where id = 51", "a"),
            "is restored": ("update @far set gone = false where id = 56", "b"),
        },
    }


def _child(name: str, id_: int, new: str, moved: str = "root_code = 'b'") -> Columns:
    """Give the cells of a child of root a."""
    child = Child(
        name,
        row=f"id = {id_}",
        new=new,
        moved=moved,
        key=f"id = {id_ + 8}",
        hidden=f"id = {id_ + 3}",
        gone=f"id = {id_ + 4}",
    )
    return child_cells(child, own="a", other="b")


def _referred(name: str, id_: int, new: str, code: str, *, insert: str = "insert", own: str = "a") -> Columns:
    """Give the cells of what root a refers to, by the code that root b waits for."""
    found = referred_cells(
        Referred(name, f"id = {id_}", new, f"code = '{code}'"), insert=insert, own=own, other="b"
    )
    found["referenced column changed"] = found.pop("key changed")
    found["key changed"] = (f"update {name} set id = 99, v = 2 where id = {id_}", own)
    return found
