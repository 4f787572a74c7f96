"""Worlds made of a chain of relations with every kind of relation at its end."""

from __future__ import annotations

from matrix import OWED, Columns, World, world

BELONGS_TO, HAS_MANY, MANY_TO_MANY = "belongs_to", "has_many", "many_to_many"
FULL, INDEX, DEFAULT = "full", "using index", "default"
ALONE = "="
"""Before an id: root 4 does not share it."""

_AGGREGATES = """
- count: {name}Count
  {rest}
- sum: {name}Sum
  column: v
  value_type: long
  {rest}
- avg: {name}Avg
  column: v
  {rest}
- min: {name}Min
  column: v
  value_type: integer
  {rest}
- max: {name}Max
  column: v
  value_type: integer
  {rest}
- ids: {name}Ids
  element_type: integer
  primary_key: id
  {rest}
"""
_LAST = """
- belongs_to: target
  table: "@target"
  column: target
  fields: [{ integer: v }]
- has_one: one
  table: "@one"
  primary_key: id
  foreign_key: parent
  filters: [{ column: v, op: gt, value: 0 }]
  soft_delete: { column: gone }
  fields: [{ integer: id }, { integer: v }]
- has_many: many
  table: "@many"
  primary_key: id
  foreign_key: parent
  filters: [{ column: v, op: gt, value: 0 }]
  soft_delete: { column: gone }
  order_by: [{ column: v }]
  fields: [{ integer: id }, { integer: v }]
- many_to_many: far
  table: "@far"
  through: { table: "@link", left_key: l, right_key: r, filters: [{ column: v, op: gt, value: 0 }] }
  fields: [{ integer: id }, { integer: v }]
- many_to_many: pairedFar
  table: "@paired_far"
  through: { table: "@pair", left_key: l, right_key: r, filters: [{ column: v, op: gt, value: 0 }] }
  filters: [{ column: v, op: gt, value: 0 }]
  fields: [{ integer: id }, { integer: v }]
"""


def chain(prefix: tuple[str, ...], identity: str = FULL) -> World:
    """Make a world whose relations of every kind hang on the end of a chain of relations.

    Roots 1 and 2 have rows of their own at each level, root 3 too, and no cell may touch it. Root 4 shows
    what root 1 shows, where the first relation of the chain lets it. Root 5 lacks the last row of the chain,
    and where a link would lead to it, has that link. Keys differ from level to level, so that
    none stands for another by chance. What does not depend on the depth is tried at the first two alone.
    """
    return _Chain(prefix, identity).world()


class _Chain:
    def __init__(self, prefix: tuple[str, ...], identity: str) -> None:
        self._prefix = prefix
        self._identity = identity
        self._tables = [_level("@root", identity)]
        self._rows: list[str] = []
        self._is_shared = bool(prefix) and prefix[0] != HAS_MANY
        self._is_shallow = len(prefix) < 2

    def world(self) -> World:
        self._make_levels()
        self._make_last()
        chained = f" below {' '.join(self._prefix)}" if self._prefix else ""
        return world(
            f"depth {len(self._prefix) + 1}{chained}, identity {self._identity}",
            "\n".join(self._tables),
            {"": self._schema()},
            "\n".join(self._rows),
            {row: self._filled(columns) for row, columns in self._cells().items()},
        )

    def _cells(self) -> dict[str, Columns]:
        above = self._between() if self._prefix else {"root": ROOT}
        children = {
            row: self._children(table)
            for row, table in (
                ("has_one child", "@one"),
                ("has_many child", "@many"),
                ("aggregate, direct", "@agg"),
            )
        }
        through: dict[str, Columns] = {}
        for kind, junction, far in (
            ("surrogate key", "@link", "@far"),
            ("composite key", "@pair", "@paired_far"),
            ("of aggregates", "@agg_link", "@agg_far"),
        ):
            through[f"junction, {kind}"] = self._junction(junction)
            through[f"far side, {kind}"] = self._far(far, junction)
        found = {**above, "belongs_to target": self._target(), **children, **through}
        for row, columns in self._with_between().items():
            found[row] = {**found[row], **columns}
        return found

    def _filled(self, columns: Columns) -> Columns:
        """Put keys into statements, and root 4 where root 1 is."""
        values = {**self._parents, "P": _name(len(self._prefix))}
        filled: Columns = {}
        for column, (sql, touched) in columns.items():
            parts = (sql,) if isinstance(sql, str) else sql
            if self._is_shared and touched != OWED:
                touched = touched.replace("1", "1 4").replace(ALONE + "1 4", "1")
            filled[column] = tuple(part.format(**values) for part in parts), touched.replace(ALONE, "")
        return filled

    def _key(self, level: int, root: int) -> int:
        return level * 10 + root

    @property
    def _parents(self) -> dict[str, int]:
        return {f"P{n}": self._key(len(self._prefix), n) for n in (1, 2, 3)}

    def _make_levels(self) -> None:
        downs: dict[tuple[int, int], int] = {}
        ups: dict[tuple[int, int], int] = {}
        pairs: list[str] = []
        for level, kind in enumerate(self._prefix, 1):
            name = f"@l{level}"
            self._tables.append(_level(name, self._identity))
            roots = (1, 2, 3, 4, 5) if level == 1 and self._is_shared else (1, 2, 3, 5)
            for n in roots:
                above, below = self._key(level - 1, n), self._key(level, 1 if n == 4 else n)
                if kind == BELONGS_TO:
                    downs[level - 1, n] = below
                elif kind == HAS_MANY:
                    ups[level, n] = above
                else:
                    pairs.append(f"insert into @j{level} values ({above}, {below});")
            if kind == MANY_TO_MANY:
                self._tables.append(f"create table @j{level} (l int, r int, primary key (l, r));")
        for level in range(len(self._prefix) + 1):
            lacking = (5,) if level < len(self._prefix) else ()
            for n in (*((1, 2, 3, 4) if level == 0 else (1, 2, 3)), *lacking):
                up, down = ups.get((level, n), 0), downs.get((level, n), 0)
                target = 50 + n if n < 4 and level == len(self._prefix) else 0
                name = "@root" if level == 0 else f"@l{level}"
                self._rows.append(
                    f"insert into {name} values ({self._key(level, n)}, {up}, {down}, {target});"
                )
        self._rows += pairs

    def _make_last(self) -> None:
        parents = self._parents
        self._add("target", "id int primary key, v int default 1", "(51), (53), (54)", key="id")
        for name in ("one", "many", "agg"):
            columns = "id int not null, parent int, v int default 1, gone bool default false"
            rows = (
                "(61, {P1}, 5), (62, {P2}, 6), (63, {P3}, 7), (65, {P2}, -1), (66, {P2}, 4, true)"
            ).format(**parents)
            self._add(name, columns, rows, link=("parent",))
        for name, far in (("link", "far"), ("agg_link", "agg_far")):
            rows = "(71, {P1}, 81), (72, {P2}, 82), (73, {P3}, 83)".format(**parents)
            self._add(name, "id int not null, l int, r int, v int default 1", rows, link=("l", "r"))
            self._add(far, "id int primary key, v int default 1", "(81), (83), (84)", key="id")
        rows = "({P1}, 81), ({P2}, 82), ({P3}, 83)".format(**parents)
        self._add("pair", "l int, r int, v int default 1, primary key (l, r)", rows, key="l, r")
        self._add("paired_far", "id int primary key, v int default 1", "(81), (83), (84)", key="id")

    def _add(self, name: str, columns: str, rows: str, *, key: str = "", link: tuple[str, ...] = ()) -> None:
        """Make a table whose identity shows its key and its links."""
        self._tables.append(_table(f"@{name}", columns, key, link, self._identity))
        for row in rows.split("), ("):
            values = row.strip("()")
            named = ", ".join(part.split()[0] for part in columns.split(", ")[: values.count(",") + 1])
            self._rows.append(f"insert into @{name} ({named}) values ({values});")

    def _schema(self) -> str:
        counted = "filters: [{ column: v, op: gt, value: 0 }]"
        through = f'through: {{ table: "@agg_link", left_key: l, right_key: r, {counted} }}'
        direct = f'table: "@agg"\n  foreign_key: parent\n  {counted}\n  soft_delete: {{ column: gone }}'
        fields = (
            _LAST
            + _AGGREGATES.format(name="direct", rest=direct)
            + _AGGREGATES.format(name="through", rest='table: "@agg_far"\n  ' + through)
        )
        for level in range(len(self._prefix), 0, -1):
            head = [f"- {self._prefix[level - 1]}: level{level}", f'  table: "@l{level}"']
            match self._prefix[level - 1]:
                case "belongs_to":
                    head.append("  column: down")
                case "has_many":
                    head.append("  foreign_key: up")
                case _:
                    head.append(f'  through: {{ table: "@j{level}", left_key: l, right_key: r }}')
            fields = "\n".join([*head, "  fields:", "  - integer: v", *_indented(fields, 2)])
        return (
            'version: 1\ntable: "@root"\nfilters: [{ column: v, op: gt, value: 0 }]\n'
            f"soft_delete: {{ column: gone }}\nfields:\n- integer: v\n{fields}"
        )

    def _move(self) -> tuple[str, str]:
        """Move the row that the last relations hang on from root 1 to root 2, and say what that touches."""
        level = len(self._prefix)
        one, two = (self._key(level - 1, n) for n in (1, 2))
        match self._prefix[-1]:
            case "has_many":
                return f"update {{P}} set up = {two} where id = {{P1}}", "1 2"
            case "belongs_to":
                return f"update {_name(level - 1)} set down = {{P2}} where id = {one}", "1"
            case _:
                return f"update @j{level} set l = {two} where l = {one} and r = {{P1}}", "1 2"

    def _between(self) -> dict[str, Columns]:
        """Change the row that the last relations hang on."""
        move, moved = self._move()
        chained = [
            f"delete from {_name(n)} where id = {self._key(n, 1)}" for n in range(len(self._prefix), 0, -1)
        ]
        child = "delete from @many where id = 61"
        # At the first level the link that moves is root 1's own.
        is_own = len(self._prefix) == 1
        level = len(self._prefix)
        new = f"{self._key(level, 5)}, {self._key(level - 1, 5)}"
        return {
            f"row in between by {self._prefix[-1]}": {
                "insert": (f"insert into {{P}} values ({new})", "5"),
                "update, link kept": ("update {P} set v = 9 where id = {P1}", "1"),
                "link moved": (move, moved.replace("1", ALONE + "1") if is_own else moved),
                "key changed": ("update {P} set id = 99 where id = {P1}", "1"),
                "delete": ("delete from {P} where id = {P1}", "1"),
                "delete of the whole chain": ("; ".join([child, *chained]), "1"),
                "delete of the whole chain from its head": ("; ".join([*reversed(chained), child]), "1"),
                "truncate": ("truncate {P}", OWED),
            }
        }

    def _with_between(self) -> dict[str, Columns]:
        """Delete what hangs on a row together with the row."""
        if not self._prefix:
            return {}
        between = "delete from {P} where id = {P1}"
        move, moved = self._move()
        return {
            row: {
                "delete with the row in between": (f"{delete}; {between}", "1"),
                "delete, the row in between later": ((delete, between), "1"),
                "delete, and the row in between moves": (f"{delete}; {move}", moved),
            }
            for row, delete in (
                ("belongs_to target", "delete from @target where id = 51"),
                ("has_one child", "delete from @one where id = 61"),
                ("has_many child", "delete from @many where id = 61"),
                ("aggregate, direct", "delete from @agg where id = 61"),
                ("junction, surrogate key", "delete from @link where id = 71"),
                ("junction, composite key", "delete from @pair where l = {P1}"),
                ("junction, of aggregates", "delete from @agg_link where id = 71"),
                ("far side, surrogate key", "delete from @far where id = 81"),
                ("far side, of aggregates", "delete from @agg_far where id = 81"),
            )
        }

    def _target(self) -> Columns:
        found: Columns = {
            "insert": ("insert into @target values (52)", "2"),
            "update": ("update @target set v = 9 where id = 51", "1"),
            "link moved": ("update {P} set target = 53 where id = {P1}", "1"),
            "key changed": ("update @target set id = 52 where id = 51", "1 2"),
            "delete": ("delete from @target where id = 51", "1"),
            "truncate": ("truncate @target", OWED),
        }
        if self._is_shallow:
            found["link to nothing"] = ("update {P} set target = null where id = {P1}", "1")
            found["nobody refers to it"] = ("update @target set v = 9 where id = 54", "")
        return found

    def _children(self, table: str) -> Columns:
        there = f"update {table} set parent = {{P2}} where id = 61"
        back = f"update {table} set parent = {{P1}} where id = 61"
        found: Columns = {
            "insert": (f"insert into {table} values (64, {{P1}}, 1)", "1"),
            "update, link kept": (f"update {table} set v = 9 where id = 61", "1"),
            "link moved": (there, "1 2"),
            "key changed": (f"update {table} set id = 69 where id = 61", "1"),
            "delete": (f"delete from {table} where id = 61", "1"),
            "truncate": (f"truncate {table}", OWED),
        }
        if not self._is_shallow:
            return found
        # A child of the root names its document without a look; deeper, nobody is found.
        nobody = "" if self._prefix else "999"
        found |= {
            "insert for nobody": (f"insert into {table} values (64, 999, 1)", nobody),
            "link moved there and back": ((there, back), "1 2"),
            "link moved and deleted": (f"{there}; delete from {table} where id = 61", "1 2"),
            "key changed and link moved": (
                f"update {table} set id = 69, parent = {{P2}} where id = 61",
                "1 2",
            ),
            "leaves by a filter": (f"update {table} set v = -1 where id = 61", "1"),
            "comes by a filter": (f"update {table} set v = 1 where id = 65", "2"),
            "is deleted softly": (f"update {table} set gone = true where id = 61", "1"),
            "is restored": (f"update {table} set gone = false where id = 66", "2"),
        }
        if self._identity == FULL:
            found["link to nothing"] = (f"update {table} set parent = null where id = 61", "1")
        return found

    def _junction(self, table: str) -> Columns:
        has_id = table != "@pair"
        one = "id = 71" if has_id else "l = {P1}"
        found: Columns = {
            "insert": (f"insert into {table} values ({'74, ' if has_id else ''}{{P1}}, 84)", "1"),
            "update, link kept": (f"update {table} set v = 9 where {one}", "1"),
            "left link moved": (f"update {table} set l = {{P2}} where {one}", "1 2"),
            "right link moved": (f"update {table} set r = 84 where {one}", "1"),
            "delete": (f"delete from {table} where {one}", "1"),
            "truncate": (f"truncate {table}", OWED),
        }
        if has_id:
            found["key changed"] = (f"update {table} set id = 79 where {one}", "1")
        if self._is_shallow:
            found["both links moved"] = (f"update {table} set l = {{P2}}, r = 84 where {one}", "1 2")
            found["leaves by a filter"] = (f"update {table} set v = -1 where {one}", "1")
        return found

    def _far(self, table: str, junction: str) -> Columns:
        found: Columns = {
            "insert after its junction row": (f"insert into {table} values (82)", "2"),
            "update": (f"update {table} set v = 9 where id = 81", "1"),
            "key changed": (f"update {table} set id = 82 where id = 81", "1 2"),
            "delete": (f"delete from {table} where id = 81", "1"),
            "truncate": (f"truncate {table}", OWED),
        }
        if self._is_shallow:
            found |= {
                "insert with its junction row": (
                    f"insert into {table} values (85); update {junction} set r = 85 where r = 81",
                    "1",
                ),
                "delete with its junction row": (
                    f"delete from {junction} where r = 81; delete from {table} where id = 81",
                    "1",
                ),
                "nobody is linked to it": (f"update {table} set v = 9 where id = 84", ""),
            }
        return found


ROOT: Columns = {
    "insert": ("insert into @root values (5)", "5"),
    "update": ("update @root set v = 9 where id = 1", "1"),
    "key changed": ("update @root set id = 9 where id = 1", "1 9"),
    "key changed to one that was": (
        "delete from @root where id = 2; update @root set id = 2 where id = 1",
        "1 2",
    ),
    "delete": ("delete from @root where id = 1", "1"),
    "truncate": ("truncate @root", OWED),
    "leaves by a filter": ("update @root set v = -1 where id = 1", "1"),
    "comes by a filter": (
        ("update @root set v = -1 where id = 1", "update @root set v = 1 where id = 1"),
        "1",
    ),
    "is deleted softly": ("update @root set gone = true where id = 1", "1"),
    "comes and goes": ("insert into @root values (5); delete from @root where id = 5", "5"),
}


def _name(level: int) -> str:
    return f"@l{level}" if level else "@root"


def _level(name: str, identity: str) -> str:
    columns = (
        "id int primary key, up int not null default 0, down int, target int, v int default 1,"
        " gone bool default false"
    )
    if identity == INDEX:
        return (
            f"create table {name} ({columns}, unique (id, up));\n"
            f"alter table {name} replica identity using index {name}_id_up_key;"
        )
    # A chain needs the old link of its rows, and no key of theirs contains it.
    return f"create table {name} ({columns});\nalter table {name} replica identity full;"


def _table(name: str, columns: str, key: str, link: tuple[str, ...], identity: str) -> str:
    if key:
        made = f"create table {name} ({columns});"
        return made + (f"\nalter table {name} replica identity full;" if identity == FULL else "")
    links = ", ".join(link)
    match identity:
        case "full":
            return (
                f"create table {name} ({columns}, primary key (id));\n"
                f"alter table {name} replica identity full;"
            )
        case "using index":
            unique = "".join(f", alter {each} set not null" for each in link)
            return (
                f"create table {name} ({columns}, primary key (id));\n"
                f"alter table {name}{unique[1:]};\n"
                f"create unique index {name}_identity on {name} ({links}, id);\n"
                f"alter table {name} replica identity using index {name}_identity;"
            )
        case _:
            return f"create table {name} ({columns}, primary key ({links}, id));"


def _indented(text: str, by: int) -> list[str]:
    return [" " * by + line if line.strip() else line for line in text.splitlines()]
