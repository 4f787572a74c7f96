"""Draft a schema from what the database says: a tag for each column, a join for each foreign key. Pure.

`flusso init` writes it down. A first version to be edited, so it prefers what is surely wanted: rows that a
row owns, what it refers to, counts. It never returns to a table on its way, goes only a few joins deep, and
says in a note what it leaves out and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flusso.builder.check.fit import unfollowable
from flusso.builder.check.kinds import are_comparable
from flusso.catalog import Column, Table, TableName
from flusso.postgres.survey import ForeignKey, Survey
from flusso.schema.model import Columns, Json

_TAGS = {
    "bool": "boolean",
    "int2": "short",
    "int4": "integer",
    "int8": "long",
    "float4": "float",
    "float8": "double",
    "numeric": "decimal",
    "money": "decimal",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "uuid": "uuid",
    "bytea": "binary",
    "json": "json",
    "jsonb": "json",
    "text": "text",
    "varchar": "text",
    "bpchar": "keyword",
    "citext": "text",
    "name": "keyword",
    "time": "keyword",
    "timetz": "keyword",
    "interval": "keyword",
    "inet": "keyword",
    "cidr": "keyword",
    "macaddr": "keyword",
    "macaddr8": "keyword",
    "bit": "keyword",
    "varbit": "keyword",
    "int4range": "keyword",
    "int8range": "keyword",
    "numrange": "keyword",
    "daterange": "keyword",
    "tsrange": "keyword",
    "tstzrange": "keyword",
    "oid": "keyword",
    "ltree": "keyword",
}
_SECRET = re.compile(r"passw|secret|token|(^|_)salt$|api_?key|private_?key|credential", re.IGNORECASE)
_DELETED = re.compile(r"^(is_)?(soft_)?deleted(_at|_on)?$|^(removed|archived)_at$", re.IGNORECASE)
_STAMPS = re.compile(r"^(created|updated|inserted|modified|added)(_?(at|on))?$", re.IGNORECASE)

_MAX_TO_MANY_DEPTH = 2
_MAX_TO_ONE_STEPS = 2
"""References followed one after the other: an item's product, and the product's category."""
_MAX_RELATIONS = 10
_MAX_FAN_OUT = 1000
"""Related rows of an average row, above which a document counts them instead of having them."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell whoever reads the draft."""

    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One field: its tag and name, what else it carries, and the fields below it."""

    tag: str
    name: str
    carries: dict[str, Json] = field(default_factory=dict)
    fields: tuple[Entry | Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A schema that has yet to be written down."""

    table: Table
    rows: int | None
    fields: tuple[Entry | Note, ...]
    deleted_column: str | None
    """What looks like a mark of deleted rows."""


def draft_schema(survey: Survey, root: TableName) -> Draft:
    """Draft the schema of an index whose documents are the rows of this table."""
    table = survey.catalog.tables[root]
    deleted = next((name for name in table.columns if _DELETED.search(name)), None)
    fields = tuple(_Drafter(survey, root.schema).level(table, (root,), frozenset(), 0))
    return Draft(table, survey.rows.get(root), fields, deleted)


def unfit_root(survey: Survey, name: TableName) -> str | None:
    """Say why a table cannot be the root of an index, or None."""
    table = survey.catalog.tables[name]
    for reason, _ in unfollowable(table):
        return reason
    if name in survey.unreadable:
        return "may not be read by this role"
    return None if table.primary_key else "has no primary key"


class _Drafter:
    """One walk from the root along the foreign keys."""

    def __init__(self, survey: Survey, schema: str) -> None:
        self._survey = survey
        self._schema = schema

    def level(
        self, table: Table, path: tuple[TableName, ...], used: frozenset[str], depth: int, steps: int = 0
    ) -> Iterator[Entry | Note]:
        """Draft the fields of one table: columns, then what it refers to, then what refers to it.

        `used` are columns that lead back to where the walk came from; `steps` are the references followed
        since the last row that is owned. What is only referred to brings none of its own rows along.
        """
        joins = list(self._referred(table, path, used, depth, steps)) if steps < _MAX_TO_ONE_STEPS else []
        if depth < _MAX_TO_MANY_DEPTH and not steps:
            joins += self._referring(table, path, depth)
        told = {name for _, columns in joins for name in columns}
        names = _Names(is_root=depth == 0)
        for column in table.columns.values():
            if column.name not in used | told:
                yield self._leaf(table, column, names)
        for join, _ in joins:
            yield _named(join, names) if isinstance(join, Entry) else join

    def _leaf(self, table: Table, column: Column, names: _Names) -> Entry | Note:
        if _SECRET.search(column.name):
            return Note(f"{column.name} looks like a secret, and is left out")
        carries: dict[str, Json] = {}
        if column.is_enum:
            tag = "enum"
            carries["variants"] = list(self._survey.labels.get(column.type.removesuffix("[]"), ()))
        elif column.base == "point" and not column.is_array:
            tag = "geo"
        elif column.base in _TAGS:
            tag = self._tag(table, column)
        else:
            return Note(f"{column.name} is {column.type}, and is left out; keyword would take its text")
        name = names.take(column.name)
        if name != column.name:
            carries["column"] = column.name
        return Entry(tag, name, carries)

    def _tag(self, table: Table, column: Column) -> str:
        """What identifies a row is matched whole, other text is searched by word."""
        tag = _TAGS[column.base]
        keys = self._survey.unique_keys.get(table.name, ())
        foreign = (key.columns for key in self._survey.foreign_keys if key.table == table.name)
        is_key = any(column.name in key for key in (*keys, *foreign))
        return "keyword" if tag == "text" and is_key else tag

    def _referred(
        self, table: Table, path: tuple[TableName, ...], used: frozenset[str], depth: int, steps: int
    ) -> Iterator[tuple[Entry | Note, Columns]]:
        """What this table's own foreign keys lead to, with the columns that the join makes redundant."""
        for key in self._survey.foreign_keys:
            if key.table != table.name or set(key.columns) & used or not self._is_usable(key, key.target):
                continue
            target = self._survey.catalog.tables[key.target]
            if key.target not in path:
                fields = tuple(self.level(target, (*path, key.target), frozenset(), depth + 1, steps + 1))
            elif depth == 0:
                fields = self._in_short(target)
            else:
                continue
            carries = self._place(target)
            if set(key.target_columns) == set(target.primary_key):
                carries["column"] = _one_or_list(_in_order_of(target.primary_key, key))
            else:
                carries |= {
                    "column": _one_or_list(key.columns),
                    "primary_key": _one_or_list(key.target_columns),
                }
            if _has_entry(fields):
                # The root's own key stays in sight: it is what the document is known by.
                told = tuple(name for name in key.columns if depth or name not in table.primary_key)
                yield Entry("belongs_to", _reference_name(key, key.target), carries, fields), told

    def _referring(
        self, table: Table, path: tuple[TableName, ...], depth: int
    ) -> Iterator[tuple[Entry | Note, Columns]]:
        """What other tables' foreign keys lead here from: one row, many, or a junction to a third table."""
        keys = [key for key in self._survey.foreign_keys if key.target == table.name]
        usable = [key for key in keys if self._is_usable(key, key.table)]
        usable = [key for key in usable if set(key.target_columns) == set(table.primary_key)]
        count = 0
        for key in usable:
            if count >= _MAX_RELATIONS:
                where = _shown(key.table, self._schema)
                yield Note(f"{where} refers to this table too, by {', '.join(key.columns)}"), ()
                continue
            made = list(self._related(key, table, path, depth, usable))
            count += bool(made)
            yield from ((item, ()) for item in made)

    def _related(
        self,
        key: ForeignKey,
        table: Table,
        path: tuple[TableName, ...],
        depth: int,
        siblings: Sequence[ForeignKey],
    ) -> Iterator[Entry | Note]:
        child = self._survey.catalog.tables[key.table]
        columns = _in_order_of(table.primary_key, key)
        alike = sum(other.table == key.table for other in siblings)
        name = key.table.name if alike == 1 else f"{key.table.name}_by_{'_'.join(key.columns)}"
        reach = self._place(child) | {"foreign_key": _one_or_list(columns)}
        if (other := self._junction(child, key)) is not None:
            yield from self._many_to_many(key, other, table, path, depth)
            return
        if child.name in path:
            if depth == 0:
                yield Entry("count", f"{name}_count", reach)
            return
        if any(set(unique) <= set(key.columns) for unique in self._survey.unique_keys.get(child.name, ())):
            fields = tuple(self.level(child, (*path, child.name), frozenset(key.columns), depth + 1))
            if _has_entry(fields):
                yield Entry("has_one", name, reach, fields)
            return
        if self._fan_out(child.name, table.name) > _MAX_FAN_OUT:
            yield Note(f"a row has many {name}: they are counted; has_many with a limit would take some")
        else:
            fields = tuple(self.level(child, (*path, child.name), frozenset(key.columns), depth + 1))
            if _has_entry(fields):
                yield Entry("has_many", name, reach, fields)
        if depth == 0:
            yield Entry("count", f"{name}_count", reach)

    def _many_to_many(
        self, left: ForeignKey, right: ForeignKey, table: Table, path: tuple[TableName, ...], depth: int
    ) -> Iterator[Entry | Note]:
        target = self._survey.catalog.tables[right.target]
        if target.name in path and depth > 0:
            return
        junction = self._survey.catalog.tables[left.table]
        is_self = target.name == table.name
        fields = self._in_short(target) if is_self else self._columns(target)
        through: dict[str, Json] = self._place(junction) | {
            "left_key": _one_or_list(_in_order_of(table.primary_key, left)),
            "right_key": _one_or_list(_in_order_of(target.primary_key, right)),
        }
        name = _reference_name(right, junction.name) if is_self else target.name.name
        if _has_entry(fields):
            yield Entry("many_to_many", name, self._place(target) | {"through": through}, fields)

    def _junction(self, table: Table, left: ForeignKey) -> ForeignKey | None:
        """Give the other foreign key of a table that does nothing but connect two, or None."""
        for right in self._survey.foreign_keys:
            if right.table != table.name or right == left or not self._is_usable(right, right.target):
                continue
            both = (*left.columns, *right.columns)
            rest = [name for name in table.columns if name not in both and not _STAMPS.search(name)]
            target = self._survey.catalog.tables[right.target]
            is_whole_key = len(both) == len(set(both)) and set(both) == set(table.primary_key)
            if is_whole_key and not rest and set(right.target_columns) == set(target.primary_key):
                return right
        return None

    def _columns(self, table: Table) -> tuple[Entry | Note, ...]:
        names = _Names(is_root=False)
        return tuple(self._leaf(table, column, names) for column in table.columns.values())

    def _in_short(self, table: Table) -> tuple[Entry | Note, ...]:
        """Tell a row of the root's own table by its key and its texts: the whole is a document already."""
        key = set(table.primary_key)
        return tuple(
            item
            for item in self._columns(table)
            if isinstance(item, Entry)
            and (item.tag == "text" or item.carries.get("column", item.name) in key)
        )

    def _is_usable(self, key: ForeignKey, other: TableName) -> bool:
        """Whether the table at the other end can be read and followed, and the columns be compared."""
        tables = self._survey.catalog.tables
        if key.table not in tables or key.target not in tables:
            return False
        table, target = tables[key.table], tables[key.target]
        is_comparable = all(
            are_comparable(table.columns[name], target.columns[to])
            for name, to in zip(key.columns, key.target_columns, strict=True)
        )
        return is_comparable and unfit_root(self._survey, other) is None

    def _fan_out(self, child: TableName, parent: TableName) -> float:
        return (self._survey.rows.get(child) or 0) / max(1, self._survey.rows.get(parent) or 1)

    def _place(self, table: Table) -> dict[str, Json]:
        own: dict[str, Json] = {"schema": table.name.schema} if table.name.schema != self._schema else {}
        return {"table": table.name.name} | own


class _Names:
    """Keys of one level of a document: legal, and each once."""

    def __init__(self, *, is_root: bool) -> None:
        self._taken: set[str] = set()
        self._is_root = is_root

    def take(self, wanted: str) -> str:
        name = wanted.replace(".", "_").strip() or "field"
        if self._is_root and name.startswith("_"):
            name = name.lstrip("_") or "field"
        made, number = name, 2
        while made in self._taken:
            made, number = f"{name}_{number}", number + 1
        self._taken.add(made)
        return made


def _named(entry: Entry, names: _Names) -> Entry:
    return Entry(entry.tag, names.take(entry.name), entry.carries, entry.fields)


def _has_entry(fields: Sequence[Entry | Note]) -> bool:
    return any(isinstance(item, Entry) for item in fields)


def _reference_name(key: ForeignKey, otherwise: TableName) -> str:
    """`customer_id` leads to the customer; without such an ending a table gives its name."""
    if len(key.columns) == 1:
        name = re.sub(r"(_id|Id|_fk|_key)$", "", key.columns[0])
        if name and name != key.columns[0]:
            return name
    return otherwise.name


def _in_order_of(columns: Columns, key: ForeignKey) -> Columns:
    """Give the referring columns in the order of the columns that they refer to."""
    pairs = dict(zip(key.target_columns, key.columns, strict=True))
    return tuple(pairs[name] for name in columns)


def _one_or_list(columns: Columns) -> Json:
    return columns[0] if len(columns) == 1 else list(columns)


def _shown(table: TableName, schema: str) -> str:
    return table.name if table.schema == schema else str(table)
