"""Estimate how many rows a document contains at each place, as far as statistics tell. Pure.

It is what references cost there: one for each row. Nothing known is zero.
"""

from __future__ import annotations

from flusso.builder.check.facts import Facts
from flusso.builder.check.levels import Level, levels
from flusso.builder.check.lookups import rows_for_each
from flusso.catalog import Catalog, Table
from flusso.schema.model import Aggregate, AggregateKind, Columns, IndexSchema, Join, JoinKind

_EXTREMES = (AggregateKind.MIN, AggregateKind.MAX)


def count_rows(index: str, schema: IndexSchema, catalog: Catalog, facts: Facts) -> dict[str, float]:
    """Give by field, dotted, how many related rows a document has there; the root is empty and one."""
    return {level.spot.field: _rows(level, facts) for level in levels(index, schema, catalog)}


def _rows(level: Level, facts: Facts) -> float:
    item = level.item
    if level.parent is None or isinstance(item, IndexSchema):
        return 1
    above = _rows(level.parent, facts)
    if isinstance(item, Join) and item.kind in (JoinKind.BELONGS_TO, JoinKind.HAS_ONE):
        return above
    if isinstance(item, Aggregate) and item.kind in _EXTREMES:
        return above
    if item.through is not None and level.junction is not None:
        each = _each(level.junction, item.through.left_key, facts)
    else:
        each = _each(level.table, item.foreign_key, facts)
    limit = item.limit if isinstance(item, Join) else None
    return above * (each if limit is None else min(each, limit))


def _each(table: Table, columns: Columns, facts: Facts) -> float:
    known = facts.tables[table.name]
    is_known = known.rows > 0 and any(known.distinct.get(name) for name in columns)
    return rows_for_each(table, columns, facts) if is_known else 0
