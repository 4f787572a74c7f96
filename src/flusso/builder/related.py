"""Which rows of another table belong to a row: FROM, WHERE, ORDER BY and LIMIT of every subselect.

Pure. Documents (`statement`) and their references (`tokens`) are selected from the same rows, by this code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add

from flusso.builder.conditions import Operands, select_rows
from flusso.builder.keys import columns_of, join_keys
from flusso.builder.level import Level, without_index
from flusso.catalog import Catalog
from flusso.postgres.identifiers import quote
from flusso.schema.model import Aggregate, Direction, Join, JoinKind, OrderBy, Through


@dataclass(frozen=True, slots=True)
class Rows:
    """From and where."""

    tail: str
    junction: str = ""
    """The alias of the junction, where there is one in sight."""


class Related:
    """Numbers aliases and operands as the statement grows."""

    def __init__(self, catalog: Catalog, operands: Operands) -> None:
        self.catalog = catalog
        self._operands = operands
        self._aliases = 0

    def level(self, item: Join | Aggregate, parent: Level) -> Level:
        """Name the related table anew."""
        table = self.catalog.tables[item.table]
        return Level(table, self.next_alias(), item.primary_key, parent.depth + 1)

    def next_alias(self) -> str:
        """Give an alias that the statement does not have yet."""
        self._aliases += 1
        return f"t{self._aliases}"

    def rows(self, item: Join | Aggregate, level: Level, parent: Level) -> Rows:
        """Give the rows of a place that belong to one row of the level above."""
        source, where = select_rows(level.table, level.alias, item.filters, item.soft_delete, self._operands)
        if item.through is not None:
            return self._rows_through(item, item.through, level, parent, source, where)
        if isinstance(item, Join) and item.kind is JoinKind.BELONGS_TO:
            link = join_keys(level.alias, columns_of(level.table, level.key), parent.alias, item.column)
        else:
            foreign = columns_of(level.table, item.foreign_key)
            link = join_keys(level.alias, foreign, parent.alias, parent.key)
        return Rows(f"{level.line}from {source}{level.line}where {' and '.join([link, *where])}")

    def _rows_through(
        self,
        item: Join | Aggregate,
        through: Through,
        level: Level,
        parent: Level,
        source: str,
        where: list[str],
    ) -> Rows:
        junction = self.catalog.tables[through.table]
        alias = self.next_alias()
        linking, narrowing = select_rows(junction, alias, through.filters, None, self._operands)
        right = join_keys(level.alias, columns_of(level.table, level.key), alias, through.right_key)
        left = join_keys(alias, columns_of(junction, through.left_key), parent.alias, parent.key)
        if isinstance(item, Aggregate) and item.is_distinct:
            links = f"exists (select from {linking} where {' and '.join([right, left, *narrowing])})"
            return Rows(f"{level.line}from {source}{level.line}where {' and '.join([links, *where])}")
        conditions = " and ".join([left, *narrowing, *where])
        return Rows(
            f"{level.line}from {linking} join {source} on {right}{level.line}where {conditions}", alias
        )


def order_and_limit(item: Join, level: Level) -> str:
    """Order rows fully, so that the same rows always give the same bytes."""
    key = level.table.primary_key
    is_single = item.kind is JoinKind.BELONGS_TO and key and set(key) <= set(item.primary_key)
    if is_single:
        return ""
    named = {entry.column for entry in item.order_by}
    rest = [name for name in dict.fromkeys([*item.primary_key, *key]) if name not in named]
    entries = [*item.order_by, *(OrderBy(name) for name in rest)]
    names = [f"{level.alias}.{quote(entry.column)}" for entry in entries]
    limit = item.limit if item.kind.is_to_many else 1
    if limit is None:
        return f"{level.line}order by {_in_order(names, entries)}"
    names[0] = without_index(names[0])
    return f"{level.line}order by {_in_order(names, entries)}{level.line}limit {limit}"


def _in_order(names: Sequence[str], entries: Sequence[OrderBy]) -> str:
    # Ascending has nulls last by itself; saying so would only lengthen the statement.
    directions = (" desc nulls last" if entry.direction is Direction.DESC else "" for entry in entries)
    return ", ".join(map(add, names, directions))
