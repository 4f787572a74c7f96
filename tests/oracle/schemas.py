"""Random index schemas over random tables, as the YAML that a user would write.

Relations of every kind to a depth of four, aggregates direct and through a junction, filters, soft deletion,
orders and limits, groups, keys that are not the table's own.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oracle.conditions import random_filters, random_soft_delete
from oracle.tables import Column, Columns, Link, Table

Node = dict[str, Any]
DEEPEST = 4
_RELATIONS = 16
"""So many has one index at most."""
_KINDS = {
    "int": ("integer", "long", "double", "keyword"),
    "bigint": ("long", "decimal", "keyword"),
    "text": ("text", "keyword", "identifier"),
    "uuid": ("uuid", "keyword"),
    "date": ("date", "keyword"),
    "numeric(8,2)": ("decimal", "double", "keyword"),
    "bool": ("boolean", "keyword"),
    "timestamptz": ("timestamp", "keyword"),
}
_VALUE_TYPES = {
    "int": "integer",
    "bigint": "long",
    "text": "keyword",
    "uuid": "uuid",
    "date": "date",
    "numeric(8,2)": "decimal",
    "bool": "boolean",
    "timestamptz": "timestamp",
}
_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
"""What YAML does not take for a text."""
_SUMS = {"int": "long", "bigint": "decimal", "numeric(8,2)": "decimal"}


@dataclass(frozen=True, slots=True)
class _Way:
    """How one reaches rows from a level: by their own link, through a junction, or by the level's link."""

    table: Table
    key: Columns
    """What identifies a row at the other end, for what refers to it."""
    belongs_by: Link | None = None
    child_by: Link | None = None
    junction: Table | None = None
    left: Columns = ()
    right: Columns = ()


class _Maker:
    """Makes one schema, and counts what it has."""

    def __init__(self, rng: random.Random, tables: Sequence[Table], schema: str) -> None:
        self._rng = rng
        self._tables = tables
        self._schema = schema
        self._names = itertools.count(1)
        self._left = _RELATIONS

    def fields(self, table: Table, key: Columns, depth: int) -> list[Node]:
        """Fill a level: columns, then relations, some of it in a group."""
        found = self._leaves(table) + self._relations(table, key, depth)
        if self._rng.random() < 0.1:
            found.append({"constant": self._name("k"), "value": self._rng.choice((1, "x", None, [True]))})
        if len(found) > 2 and self._rng.random() < 0.15:
            cut = self._rng.randrange(1, len(found))
            found = [*found[:cut], {"object": self._name("o"), "fields": found[cut:]}]
        return found

    def _name(self, prefix: str) -> str:
        return f"{prefix}{next(self._names)}"

    def _leaves(self, table: Table) -> list[Node]:
        count = self._rng.randint(1, min(4, len(table.columns)))
        return [self._leaf(column) for column in self._rng.sample(table.columns, count)]

    def _leaf(self, column: Column) -> Node:
        kind = self._rng.choice(_KINDS[column.type])
        node: Node = {kind: self._name("f"), "column": column.name}
        if column.type == "text" and self._rng.random() < 0.3:
            node["transforms"] = self._rng.sample(["lowercase", "trim"], self._rng.randint(1, 2))
        if column.type == "text" and self._rng.random() < 0.2:
            node["default"] = "nothing"
        return node

    def _relations(self, table: Table, key: Columns, depth: int) -> list[Node]:
        wanted = {0: (2, 3, 4), 1: (1, 2, 2), 2: (0, 1, 2), 3: (0, 1)}.get(depth, (0,))
        ways = list(_ways(self._tables, table, key))
        found: list[Node] = []
        for _ in range(self._rng.choice(wanted)):
            if ways and self._left:
                self._left -= 1
                found.append(self._relation(self._rng.choice(ways), depth))
        return found

    def _relation(self, way: _Way, depth: int) -> Node:
        if way.belongs_by is not None:
            node: Node = {"belongs_to": self._name("b"), "column": _spelled(way.belongs_by.columns)}
            return self._join(node, way, way.key, depth)
        if self._rng.random() < 0.4:
            return self._aggregate(way)
        if way.junction is not None:
            node = {"many_to_many": self._name("m"), "through": self._through(way)}
            self._order(node, way.table, can_limit=True)
            return self._join(node, way, way.key, depth)
        assert way.child_by is not None
        kind = self._rng.choice(("has_many", "has_many", "has_one"))
        node = {kind: self._name("h"), "foreign_key": _spelled(way.child_by.columns)}
        self._order(node, way.table, can_limit=kind == "has_many")
        has_other_key = way.table.unique and self._rng.random() < 0.3
        return self._join(node, way, way.table.unique if has_other_key else way.key, depth)

    def _join(self, node: Node, way: _Way, key: Columns, depth: int) -> Node:
        self._place(node, way.table, key)
        node["fields"] = self.fields(way.table, key, depth + 1)
        self._narrow(node, way.table)
        return node

    def _place(self, node: Node, table: Table, key: Columns) -> None:
        node["table"] = table.name
        if table.schema != self._schema:
            node["schema"] = table.schema
        if key != table.key or self._rng.random() < 0.2:
            node["primary_key"] = _spelled(key)

    def _narrow(self, node: Node, table: Table) -> None:
        if self._rng.random() < 0.25:
            node["filters"] = random_filters(self._rng, table)
        if self._rng.random() < 0.2:
            node["soft_delete"] = random_soft_delete(self._rng, table, node.get("fields", []))

    def _through(self, way: _Way) -> Node:
        assert way.junction is not None
        node: Node = {"table": way.junction.name}
        if way.junction.schema != self._schema:
            node["schema"] = way.junction.schema
        node |= {"left_key": _spelled(way.left), "right_key": _spelled(way.right)}
        if self._rng.random() < 0.2:
            node["filters"] = random_filters(self._rng, way.junction)
        return node

    def _order(self, node: Node, table: Table, *, can_limit: bool) -> None:
        if self._rng.random() < 0.4:
            columns = self._rng.sample(table.columns, self._rng.randint(1, 2))
            node["order_by"] = [
                {"column": column.name} | ({"direction": "desc"} if self._rng.random() < 0.5 else {})
                for column in columns
            ]
        if can_limit and self._rng.random() < 0.25:
            node["limit"] = self._rng.randint(1, 3)

    def _aggregate(self, way: _Way) -> Node:
        columns = [column for column in way.table.columns if column.type in _SUMS]
        kinds = ["count", "ids", "min", "max", *(["sum", "avg"] * bool(columns))]
        kind = self._rng.choice(kinds)
        node: Node = {kind: self._name("a")}
        self._place(node, way.table, way.key)
        if way.junction is not None:
            node["through"] = self._through(way)
            if self._rng.random() < 0.4:
                node["distinct"] = True
        else:
            assert way.child_by is not None
            node["foreign_key"] = _spelled(way.child_by.columns)
        if kind == "ids":
            is_single = len(way.key) == 1
            node["element_type"] = _VALUE_TYPES[way.table.type_of(way.key[0])] if is_single else "keyword"
        elif kind in ("sum", "avg"):
            column = self._rng.choice(columns)
            node["column"] = column.name
            if kind == "sum":
                node["value_type"] = _SUMS[column.type]
        elif kind in ("min", "max"):
            column = self._rng.choice(way.table.columns)
            node |= {"column": column.name, "value_type": _VALUE_TYPES[column.type]}
        self._narrow(node, way.table)
        return node


def _ways(tables: Sequence[Table], table: Table, key: Columns) -> Iterator[_Way]:
    """List all ways from the rows of a table, known by this key, to others."""
    by_name = {each.name: each for each in tables}
    for link in table.links:
        yield _Way(by_name[link.table], link.target, belongs_by=link)
    for other in tables:
        leading = [link for link in other.links if (link.table, link.target) == (table.name, key)]
        for link in leading:
            yield _Way(other, other.key, child_by=link)
            for far in other.links:
                if far != link:
                    target = by_name[far.table]
                    yield _Way(target, far.target, junction=other, left=link.columns, right=far.columns)


def random_index(rng: random.Random, tables: Sequence[Table]) -> Node:
    """Make one schema."""
    linked = [table for table in tables if any(_ways(tables, table, table.key))]
    root = rng.choice(linked or list(tables))
    key = root.key
    node: Node = {"version": 1, "table": root.name}
    if root.schema != "public":
        node["schema"] = root.schema
    if root.unique and not _is_nullable(root, root.unique) and rng.random() < 0.4:
        key = root.unique
    if key != root.key or rng.random() < 0.3:
        node["primary_key"] = _spelled(key)
    maker = _Maker(rng, tables, root.schema)
    fields = maker.fields(root, key, 0)
    if rng.random() < 0.15:
        node["filters"] = random_filters(rng, root)
    if rng.random() < 0.15:
        node["soft_delete"] = random_soft_delete(rng, root, fields)
    node["fields"] = fields
    return node


def _is_nullable(table: Table, names: Columns) -> bool:
    return any(column.is_nullable for column in table.columns if column.name in names)


def _spelled(columns: Columns) -> str | list[str]:
    return columns[0] if len(columns) == 1 else list(columns)


def dump_yaml(node: Node) -> str:
    """Write a schema file: blocks, and within them values as JSON, which is YAML too."""
    return "".join(f"{line}\n" for line in _lines(node))


def _lines(node: Node) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield f"{key}:"
            yield from (f"  {line}" for line in _lines(value))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{key}:"
            for item in value:
                first, *rest = _lines(item)
                yield f"  - {first}"
                yield from (f"    {line}" for line in rest)
        else:
            yield f"{key}: {_spell(value)}"


def _spell(value: object) -> str:
    is_plain = isinstance(value, str) and value.replace("_", "a").isalnum() and not value[0].isdigit()
    return str(value) if is_plain and value not in _WORDS else json.dumps(value, ensure_ascii=False)
