"""Fill in what a schema leaves to the catalog: primary keys that the file does not name, and what a time is.

Pure. After this every root, join and aggregate has its key, so what compiles the schema need not ask; and a
field of times of day is mapped as a keyword, because no index takes one for a date.
"""

from __future__ import annotations

from dataclasses import replace

from flusso.builder.fold import fold_columns
from flusso.catalog import Catalog, TableName
from flusso.schema.model import Aggregate, Columns, Field, Group, IndexSchema, Join, Scalar, ScalarKind

_TIMES = ("time", "timetz")


def complete(schema: IndexSchema, catalog: Catalog) -> IndexSchema:
    """Give the schema with every key named, and every mapping that depends on a column's type."""
    folded = fold_columns(schema, catalog)
    return replace(
        folded,
        primary_key=_key(schema.table, schema.primary_key, catalog),
        fields=_complete_fields(folded.fields, schema.table, catalog),
    )


def _complete_fields(fields: tuple[Field, ...], table: TableName, catalog: Catalog) -> tuple[Field, ...]:
    return tuple(_complete_field(item, table, catalog) for item in fields)


def _complete_field(item: Field, table: TableName, catalog: Catalog) -> Field:
    if isinstance(item, Group):
        return replace(item, fields=_complete_fields(item.fields, table, catalog))
    if isinstance(item, Join):
        return replace(
            item,
            primary_key=_key(item.table, item.primary_key, catalog),
            fields=_complete_fields(item.fields, item.table, catalog),
        )
    if isinstance(item, Aggregate):
        item = replace(item, primary_key=_key(item.table, item.primary_key, catalog))
        is_time = item.value_type is ScalarKind.TIMESTAMP and _is_time(item.column, item.table, catalog)
    else:
        is_time = (
            isinstance(item, Scalar)
            and item.kind is ScalarKind.TIMESTAMP
            and _is_time(item.column, table, catalog)
        )
    return replace(item, options={"type": "keyword", **item.options}) if is_time else item


def _is_time(name: str | None, table: TableName, catalog: Catalog) -> bool:
    found = catalog.get(table)
    column = found.columns.get(name or "") if found else None
    return column is not None and column.base in _TIMES


def _key(table: TableName, declared: Columns, catalog: Catalog) -> Columns:
    found = catalog.get(table)
    return declared or (found.primary_key if found else ())
