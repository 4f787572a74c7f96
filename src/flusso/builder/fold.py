"""Find the columns that a schema names only by the name of a field.

Pure. `fullName` means the column "fullName" if there is one, else `fullname`: what an unquoted name in SQL
would mean.
"""

from __future__ import annotations

from dataclasses import replace

from flusso.catalog import Catalog, Table
from flusso.schema.model import Custom, Field, Geo, Group, IndexSchema, Join, Map, Scalar, SoftDelete


def fold_columns(schema: IndexSchema, catalog: Catalog) -> IndexSchema:
    """Let a field without a column of its exact name take the one that Postgres folds the name to."""
    table = catalog.get(schema.table)
    return replace(
        schema,
        fields=_fields(schema.fields, table, catalog),
        soft_delete=_soft_delete(schema.soft_delete, table),
    )


def _fields(fields: tuple[Field, ...], table: Table | None, catalog: Catalog) -> tuple[Field, ...]:
    return fields if table is None else tuple(_field(item, table, catalog) for item in fields)


def _field(item: Field, table: Table, catalog: Catalog) -> Field:
    match item:
        case Scalar() | Custom() | Map() | Geo() if item.column == item.name:
            return replace(item, column=_folded(item.column, table))
        case Group():
            return replace(item, fields=_fields(item.fields, table, catalog))
        case Join():
            is_own = item.column == (item.name,)
            related = catalog.get(item.table)
            return replace(
                item,
                column=(_folded(item.name, table),) if is_own else item.column,
                fields=_fields(item.fields, related, catalog),
                soft_delete=_soft_delete(item.soft_delete, related),
            )
        case _:
            return item


def _soft_delete(item: SoftDelete | None, table: Table | None) -> SoftDelete | None:
    """What is named by a field has the column of that field."""
    if item is None or table is None:
        return item
    return replace(item, column=_folded(item.column, table))


def _folded(name: str, table: Table) -> str:
    return name.lower() if name not in table.columns and name.lower() in table.columns else name
