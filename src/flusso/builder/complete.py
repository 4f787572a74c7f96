"""Fill in what a schema leaves to the catalog: primary keys that the file does not name.

Pure. After this every root, join and aggregate has its key, so what compiles the schema need not ask.
"""

from __future__ import annotations

from dataclasses import replace

from flusso.catalog import Catalog, TableName
from flusso.schema.model import Aggregate, Columns, Field, Group, IndexSchema, Join


def complete(schema: IndexSchema, catalog: Catalog) -> IndexSchema:
    """Give the schema with every key named."""
    return replace(
        schema,
        primary_key=_key(schema.table, schema.primary_key, catalog),
        fields=_complete_fields(schema.fields, catalog),
    )


def _complete_fields(fields: tuple[Field, ...], catalog: Catalog) -> tuple[Field, ...]:
    return tuple(_complete_field(item, catalog) for item in fields)


def _complete_field(item: Field, catalog: Catalog) -> Field:
    if isinstance(item, Group):
        return replace(item, fields=_complete_fields(item.fields, catalog))
    if isinstance(item, Join):
        return replace(
            item,
            primary_key=_key(item.table, item.primary_key, catalog),
            fields=_complete_fields(item.fields, catalog),
        )
    if isinstance(item, Aggregate):
        return replace(item, primary_key=_key(item.table, item.primary_key, catalog))
    return item


def _key(table: TableName, declared: Columns, catalog: Catalog) -> Columns:
    found = catalog.get(table)
    return declared or (found.primary_key if found else ())
