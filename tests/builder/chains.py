"""Worlds made of a chain of relations with every kind of relation at its end."""

from __future__ import annotations

from cells import Child, Junction, Referred, child_cells, junction_cells, referred_cells
from matrix import FULL, OWED, Columns, World, table, world

from sizes import IS_FULL

BELONGS_TO, HAS_MANY, MANY_TO_MANY = "belongs_to", "has_many", "many_to_many"
_AT_EVERY_DEPTH = {
    *("insert", "insert after its junction row", "insert with its junction row"),
    *("update", "update, link kept", "update of one that several show"),
    *("link moved", "left link moved", "right link moved", "key changed", "delete", "truncate"),
    *("delete of the whole chain", "delete of the whole chain from its head"),
    *("delete with the row in between", "delete, the row in between later"),
    *("delete, and the row in between moves", "leaves by a filter"),
}
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
_COUNTED = "filters: [{ column: v, op: gt, value: 0 }]"
_SHOWN = (
    _COUNTED
    + """
  soft_delete: { column: gone }
  fields: [{ integer: id }, { integer: v }]"""
)
_THROUGH = (
    'through: {{ table: "@{}", left_key: l, right_key: r, '
    + _COUNTED.replace("{", "{{").replace("}", "}}")
    + " }}"
)
_LAST = f"""
- belongs_to: target
  table: "@target"
  column: target
  {_SHOWN}
- belongs_to: shared
  table: "@target"
  column: down
  {_SHOWN}
- belongs_to: hidden
  table: "@target"
  column: other
  {_SHOWN}
- has_one: one
  table: "@one"
  primary_key: id
  foreign_key: parent
  {_SHOWN}
- has_many: many
  table: "@many"
  primary_key: id
  foreign_key: parent
  order_by: [{{ column: v }}]
  {_SHOWN}
- many_to_many: far
  table: "@far"
  {_THROUGH.format("link")}
  {_SHOWN}
- many_to_many: pairedFar
  table: "@paired_far"
  {_THROUGH.format("pair")}
  {_SHOWN}
"""


def chain(prefix: tuple[str, ...], identity: str = FULL) -> World:
    """Make a world whose relations of every kind hang on the end of a chain of relations.

    Roots 1 and 2 have rows of their own at each level, root 3 too, and no cell may touch it. Root 4 shows
    what root 1 shows, where the first relation of the chain lets it. Root 5 lacks the last row of the chain,
    and where a link would lead to it, has that link. The last row of root 6 is left out by a filter, that of
    root 7 is deleted softly. Keys differ from level to level, so that none stands for another by chance.
    What does not depend on the depth is tried at the first two alone; in `make stress` everywhere.
    """
    return _Chain(prefix, identity).world()


class _Chain:
    def __init__(self, prefix: tuple[str, ...], identity: str) -> None:
        self._prefix = prefix
        self._identity = identity
        self._tables = [_level("@root", identity)]
        self._rows: list[str] = []
        self._is_shared = bool(prefix) and prefix[0] != HAS_MANY
        self._has_all = len(prefix) < 2 or IS_FULL

    def world(self) -> World:
        self._make_levels()
        self._make_last()
        chained = f" below {' '.join(self._prefix)}" if self._prefix else ""
        return world(
            f"depth {len(self._prefix) + 1}{chained}",
            "\n".join(self._tables),
            {"": self._schema()},
            "\n".join(self._rows),
            {row: self._filled(columns) for row, columns in self._cells().items()},
            identity=self._identity,
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
            through[f"junction, {kind}"] = _junction(junction)
            through[f"far side, {kind}"] = _far(far, junction)
        found = {**above, "belongs_to target": _target(), **children, **through}
        for row, columns in self._with_between().items():
            found[row] = {**found[row], **columns}
        return found

    def _filled(self, columns: Columns) -> Columns:
        """Put keys into statements, and root 4 where root 1 is."""
        values = {**self._parents, "P": _name(len(self._prefix))}
        filled: Columns = {}
        for column, (sql, touched) in columns.items():
            if not self._has_all and column not in _AT_EVERY_DEPTH:
                continue
            parts = (sql,) if isinstance(sql, str) else sql
            if self._is_shared and touched != OWED:
                touched = touched.replace("1", "1 4").replace(ALONE + "1 4", "1")
            filled[column] = tuple(part.format(**values) for part in parts), touched.replace(ALONE, "")
        return filled

    def _key(self, level: int, root: int) -> int:
        return level * 10 + root

    @property
    def _parents(self) -> dict[str, int]:
        return {f"P{n}": self._key(len(self._prefix), n) for n in (1, 2, 3, 6, 7)}

    def _make_levels(self) -> None:
        downs: dict[tuple[int, int], int] = {(len(self._prefix), n): 57 for n in (1, 2)}
        ups: dict[tuple[int, int], int] = {}
        pairs: list[str] = []
        for level, kind in enumerate(self._prefix, 1):
            self._tables.append(_level(_name(level), self._identity))
            for n in (1, 2, 3, *((4,) if level == 1 and self._is_shared else ()), 5, 6, 7):
                above, below = self._key(level - 1, n), self._key(level, 1 if n == 4 else n)
                if kind == BELONGS_TO:
                    downs[level - 1, n] = below
                elif kind == HAS_MANY:
                    ups[level, n] = above
                else:
                    pairs.append(f"insert into @j{level} values ({above}, {below});")
            if kind == MANY_TO_MANY:
                columns = "l int, r int, v int default 1"
                self._tables.append(table(f"@j{level}", columns, "l, r", identity=self._identity))
        for level in range(len(self._prefix) + 1):
            self._make_rows(level, ups, downs)
        self._rows += pairs

    def _make_rows(
        self, level: int, ups: dict[tuple[int, int], int], downs: dict[tuple[int, int], int]
    ) -> None:
        is_last = level == len(self._prefix)
        for n in (1, 2, 3, *((4,) if level == 0 else ()), *(() if is_last else (5,)), 6, 7):
            target = 50 + n if is_last and n < 4 else 0
            other = {1: 56, 2: 55}.get(n, 0) if is_last else 0
            v, gone = (-1 if is_last and n == 6 else 1), is_last and n == 7
            values = (ups.get((level, n), 0), downs.get((level, n), 0), target, other, v, gone)
            row = ", ".join(map(str, (self._key(level, n), *values)))
            self._rows.append(f"insert into {_name(level)} values ({row});")

    def _make_last(self) -> None:
        hidden = "v int default 1, gone bool default false"
        self._add("target", f"id int, {hidden}", "(51), (53), (54), (55, -1), (56, 1, true), (57)")
        for name in ("one", "many", "agg"):
            rows = "(61, {P1}, 5), (62, {P2}, 6), (63, {P3}, 7), (65, {P2}, -1), (66, {P2}, 4, true)"
            self._add(name, f"id int, parent int, {hidden}", rows, links="parent")
        links = (
            *("{P1}, 81", "{P2}, 82", "{P3}, 83", "{P1}, 85", "{P2}, 85", "{P2}, 86", "{P2}, 87"),
            "{P2}, 89, -1",
        )
        numbered = [f"{n}, {each}" for n, each in enumerate(links, 71)]
        for name, far in (("link", "far"), ("pair", "paired_far"), ("agg_link", "agg_far")):
            if name == "pair":
                self._add(name, "l int, r int, v int default 1", f"({'), ('.join(links)})", key="l, r")
            else:
                rows = f"({'), ('.join(numbered)})"
                self._add(name, "id int, l int, r int, v int default 1", rows, links="l, r")
            self._add(far, f"id int, {hidden}", "(81), (83), (84), (85), (86, -1), (87, 1, true), (89)")

    def _add(self, name: str, columns: str, rows: str, *, key: str = "id", links: str = "") -> None:
        """Make a table whose identity shows its key and its links."""
        self._tables.append(table(f"@{name}", columns, key, links, identity=self._identity))
        names = [part.split()[0] for part in columns.split(", ")]
        for row in rows.format(**self._parents).split("), ("):
            values = row.strip("()")
            named = ", ".join(names[: values.count(",") + 1])
            self._rows.append(f"insert into @{name} ({named}) values ({values});")

    def _schema(self) -> str:
        rest = f"{_COUNTED}\n  soft_delete: {{ column: gone }}"
        fields = (
            _LAST
            + _AGGREGATES.format(name="direct", rest=f'table: "@agg"\n  foreign_key: parent\n  {rest}')
            + _AGGREGATES.format(
                name="through", rest=f'table: "@agg_far"\n  {_THROUGH.format("agg_link")}\n  {rest}'
            )
        )
        for level in range(len(self._prefix), 0, -1):
            head = [
                f"- {self._prefix[level - 1]}: level{level}",
                f'  table: "@l{level}"',
                "  primary_key: id",
            ]
            match self._prefix[level - 1]:
                case "belongs_to":
                    head.append("  column: down")
                case "has_many":
                    head.append("  foreign_key: up")
                case _:
                    head.append("  " + _THROUGH.format(f"j{level}"))
            fields = "\n".join([*head, f"  {rest}", "  fields:", "  - integer: v", *_indented(fields, 2)])
        return (
            f'version: 1\ntable: "@root"\n{_COUNTED}\n'
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
        """Change the row that the last relations hang on, and the junction that leads to it."""
        move, moved = self._move()
        chained = [
            f"delete from {_name(n)} where id = {self._key(n, 1)}" for n in range(len(self._prefix), 0, -1)
        ]
        child = "delete from @many where id = 61"
        # At the first level the link that moves is root 1's own.
        own = ALONE + "1" if len(self._prefix) == 1 else "1"
        level = len(self._prefix)
        new = f"{self._key(level, 5)}, {self._key(level - 1, 5)}"
        found: dict[str, Columns] = {
            f"row in between by {self._prefix[-1]}": {
                "insert": (f"insert into {{P}} values ({new})", "5"),
                "update, link kept": ("update {P} set v = 9 where id = {P1}", "1"),
                "link moved": (move, moved.replace("1", own)),
                "key changed": ("update {P} set id = 99 where id = {P1}", "1"),
                "delete": ("delete from {P} where id = {P1}", "1"),
                "delete of the whole chain": ("; ".join([child, *chained]), "1"),
                "delete of the whole chain from its head": ("; ".join([*reversed(chained), child]), "1"),
                "truncate": ("truncate {P}", OWED),
                "leaves by a filter": ("update {P} set v = -1 where id = {P1}", "1"),
                "comes by a filter": ("update {P} set v = 1 where id = {P6}", "6"),
                "is deleted softly": ("update {P} set gone = true where id = {P1}", "1"),
                "is restored": ("update {P} set gone = false where id = {P7}", "7"),
            }
        }
        if self._prefix[-1] == MANY_TO_MANY:
            one, two = (self._key(level - 1, n) for n in (1, 2))
            junction = Junction(
                f"@j{level}",
                row=f"l = {one} and r = {{P1}}",
                new=f"{one}, {{P3}}",
                left=f"l = {two}",
                right="r = {P3}",
            )
            found["junction in between"] = {
                **junction_cells(junction, own=own),
                "leaves by a filter": (f"update @j{level} set v = -1 where l = {one} and r = {{P1}}", own),
            }
        return found

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
                ("junction, composite key", "delete from @pair where l = {P1} and r = 81"),
                ("junction, of aggregates", "delete from @agg_link where id = 71"),
                ("far side, surrogate key", "delete from @far where id = 81"),
                ("far side, composite key", "delete from @paired_far where id = 81"),
                ("far side, of aggregates", "delete from @agg_far where id = 81"),
            )
        }

    def _children(self, name: str) -> Columns:
        there = f"update {name} set parent = {{P2}} where id = 61"
        back = f"update {name} set parent = {{P1}} where id = 61"
        # A child of the root names its document without a look; deeper, nobody is found.
        nobody = "" if self._prefix else "999"
        child = Child(
            name,
            row="id = 61",
            new="64, {P1}, 1",
            moved="parent = {P2}",
            key="id = 69",
            hidden="id = 65",
            gone="id = 66",
        )
        found: Columns = child_cells(child) | {
            "insert for nobody": (f"insert into {name} values (64, 999, 1)", nobody),
            "link moved there and back": ((there, back), "1 2"),
            "link moved and deleted": (f"{there}; delete from {name} where id = 61", "1 2"),
        }
        if self._identity == FULL:
            found["link to nothing"] = (f"update {name} set parent = null where id = 61", "1")
        return found


def _target() -> Columns:
    target = Referred(
        "@target",
        row="id = 51",
        new="52",
        key="id = 52",
        shared="id = 57",
        hidden="id = 55",
    )
    return referred_cells(target) | {
        "is deleted softly": ("update @target set gone = true where id = 51", "1"),
        "is restored": ("update @target set gone = false where id = 56", "1"),
        "link moved": ("update {P} set target = 53 where id = {P1}", "1"),
        "link to nothing": ("update {P} set target = null where id = {P1}", "1"),
        "nobody refers to it": ("update @target set v = 9 where id = 54", ""),
    }


def _junction(name: str) -> Columns:
    has_id = name != "@pair"
    return junction_cells(
        Junction(
            name,
            row="id = 71" if has_id else "l = {P1} and r = 81",
            new="70, {P1}, 84" if has_id else "{P1}, 84",
            left="l = {P2}",
            right="r = 84",
            key="id = 70" if has_id else "",
            hidden="r = 89",
        )
    )


def _far(name: str, junction: str) -> Columns:
    far = Referred(
        name,
        row="id = 81",
        new="82",
        key="id = 82",
        shared="id = 85",
        hidden="id = 86",
        gone="id = 87",
    )
    return referred_cells(far, insert="insert after its junction row") | {
        "insert with its junction row": (
            f"insert into {name} values (88); update {junction} set r = 88 where r = 81",
            "1",
        ),
        "delete with its junction row": (
            f"delete from {junction} where r = 81; delete from {name} where id = 81",
            "1",
        ),
        "nobody is linked to it": (f"update {name} set v = 9 where id = 84", ""),
    }


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
    "comes by a filter": ("update @root set v = 1 where id = 6", "6"),
    "leaves and comes by a filter": (
        ("update @root set v = -1 where id = 1", "update @root set v = 1 where id = 1"),
        "1",
    ),
    "is deleted softly": ("update @root set gone = true where id = 1", "1"),
    "is restored": ("update @root set gone = false where id = 7", "7"),
    "comes and goes": ("insert into @root values (5); delete from @root where id = 5", "5"),
}


def _name(level: int) -> str:
    return f"@l{level}" if level else "@root"


def _level(name: str, identity: str) -> str:
    columns = (
        "id int, up int not null default 0, down int, target int, other int, v int default 1,"
        " gone bool default false"
    )
    return table(name, columns, "id", "" if name == "@root" else "up", identity=identity)


def _indented(text: str, by: int) -> list[str]:
    return [" " * by + line if line.strip() else line for line in text.splitlines()]
