"""The tables of a schema as a check meets them: each place with its table, its key and its parent.

Pure. A place whose table the database does not have, or only as a view, is left out with all below it:
`fit` says so. What is found of the others is found all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flusso.builder.check.spot import Spot
from flusso.catalog import Catalog, Table, TableKind, TableName
from flusso.schema.model import (
    Aggregate,
    Columns,
    Field,
    Filter,
    Group,
    IndexSchema,
    Join,
    Scalar,
)


@dataclass(frozen=True, slots=True)
class Level:
    """The root, a join or an aggregate."""

    spot: Spot
    item: IndexSchema | Join | Aggregate
    table: Table
    parent: Level | None = None
    junction: Table | None = None

    @property
    def key(self) -> Columns:
        """The declared key, else the catalog's."""
        return self.item.primary_key or self.table.primary_key

    @property
    def filters(self) -> list[tuple[str, Filter]]:
        """All conditions on its rows, each with the key that it stands at."""
        found = [(f"filters[{place}]", item) for place, item in enumerate(self.item.filters)]
        if self.item.soft_delete is not None:
            when = self.item.soft_delete.when
            found += [(f"soft_delete.when[{place}]", item) for place, item in enumerate(when)]
        return found


def levels(index: str, schema: IndexSchema, catalog: Catalog) -> Iterator[Level]:
    """Go through all tables of a schema, parents before children."""
    table = _find(catalog, schema.table)
    if table is not None:
        root = Level(Spot(index), schema, table)
        yield root
        yield from _below(schema.fields, root.spot, root, catalog)


def _below(fields: tuple[Field, ...], spot: Spot, parent: Level, catalog: Catalog) -> Iterator[Level]:
    for item in fields:
        inner = spot.into(item.name)
        if isinstance(item, Group):
            yield from _below(item.fields, inner, parent, catalog)
        elif isinstance(item, Join | Aggregate):
            table = _find(catalog, item.table)
            junction = _find(catalog, item.through.table) if item.through is not None else None
            if table is None or (item.through is not None and junction is None):
                continue
            level = Level(inner, item, table, parent, junction)
            yield level
            if isinstance(item, Join):
                yield from _below(item.fields, inner, level, catalog)


def _find(catalog: Catalog, name: TableName) -> Table | None:
    table = catalog.get(name)
    return table if table is not None and table.kind in (TableKind.TABLE, TableKind.PARTITIONED) else None


def scalars(level: Level) -> Iterator[tuple[Spot, Scalar]]:
    """Go through the scalar fields that the rows of a level fill, groups included."""
    if not isinstance(level.item, Aggregate):
        yield from _scalars(level.item.fields, level.spot)


def _scalars(fields: tuple[Field, ...], spot: Spot) -> Iterator[tuple[Spot, Scalar]]:
    for item in fields:
        if isinstance(item, Scalar):
            yield spot.into(item.name), item
        elif isinstance(item, Group):
            yield from _scalars(item.fields, spot.into(item.name))
