"""Which columns of which tables the documents of an index are made from.

Pure. Whoever watches the catalog asks this: a change of any other column cannot matter. A raw filter may use
any column of its table, so there all of them count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from flusso.catalog import Catalog, Table, TableName
from flusso.schema.model import (
    Aggregate,
    ColumnFilter,
    Custom,
    Field,
    Filter,
    Geo,
    Group,
    IndexSchema,
    Join,
    Map,
    RawFilter,
    Scalar,
    SoftDelete,
    Through,
)


def columns_read(schema: IndexSchema, catalog: Catalog) -> dict[TableName, frozenset[str]]:
    """List the columns that a completed schema reads, by table."""
    reads = _Reads(catalog)
    reads.add(schema.table, schema.primary_key)
    reads.add_rows(schema.table, schema.filters, schema.soft_delete)
    reads.add_fields(schema.fields, schema.table)
    return {table: frozenset(columns) for table, columns in reads.found.items()}


def stored_columns(table: Table, names: Collection[str]) -> frozenset[str]:
    """Give the columns that decide over others: the primary key, which orders rows, among them.

    A generated one is not in the WAL. It is made from columns of its row, so there all of them count.
    """
    stored = frozenset(name for name, column in table.columns.items() if not column.is_generated)
    wanted = frozenset((*names, *table.primary_key))
    return wanted if wanted <= stored else stored


class _Reads:
    """One walk over the schema."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.found: dict[TableName, set[str]] = {}

    def add(self, table: TableName, columns: Iterable[str]) -> None:
        self.found.setdefault(table, set()).update(column for column in columns if column)

    def add_rows(self, table: TableName, filters: Iterable[Filter], soft_delete: SoftDelete | None) -> None:
        """What decides whether a row counts."""
        if soft_delete is not None:
            self.add(table, (soft_delete.column,))
            filters = (*filters, *soft_delete.when)
        for item in filters:
            if isinstance(item, ColumnFilter):
                self.add(table, (item.column,))
            elif isinstance(item, RawFilter):
                self.add(table, self._catalog.tables[table].columns)

    def add_fields(self, fields: Iterable[Field], table: TableName) -> None:
        for item in fields:
            match item:
                case Scalar() | Custom() | Map():
                    self.add(table, (item.column,))
                case Geo():
                    self.add(table, (item.column, item.lat, item.lon))
                case Group():
                    self.add_fields(item.fields, table)
                case Join():
                    self.add(table, item.column)
                    self._add_related(item)
                    self.add(item.table, (order.column for order in item.order_by))
                    self.add_fields(item.fields, item.table)
                case Aggregate():
                    self._add_related(item)
                    self.add(item.table, (item.column or "",))

    def _add_related(self, item: Join | Aggregate) -> None:
        self.add(item.table, (*item.primary_key, *item.foreign_key))
        self.add_rows(item.table, item.filters, item.soft_delete)
        if item.through is not None:
            self._add_junction(item.through)

    def _add_junction(self, through: Through) -> None:
        self.add(through.table, (*through.left_key, *through.right_key))
        self.add_rows(through.table, through.filters, None)
