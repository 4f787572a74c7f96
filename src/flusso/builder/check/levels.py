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
    Leaf,
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
        when = self.item.soft_delete.when if self.item.soft_delete is not None else ()
        return [*_numbered("filters", self.item.filters), *_numbered("soft_delete.when", when)]

    @property
    def junction_filters(self) -> list[tuple[str, Filter]]:
        """The same of its junction's rows."""
        through = None if isinstance(self.item, IndexSchema) else self.item.through
        return _numbered("through.filters", through.filters if through is not None else ())


def _numbered(key: str, filters: tuple[Filter, ...]) -> list[tuple[str, Filter]]:
    return [(f"{key}[{place}]", item) for place, item in enumerate(filters)]


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


def leaves(level: Level) -> Iterator[tuple[Spot, Leaf]]:
    """Go through the fields that columns of a level fill, groups included."""
    if not isinstance(level.item, Aggregate):
        yield from _leaves(level.item.fields, level.spot)


def _leaves(fields: tuple[Field, ...], spot: Spot) -> Iterator[tuple[Spot, Leaf]]:
    for item in fields:
        inner = spot.into(item.name)
        if isinstance(item, Group):
            yield from _leaves(item.fields, inner)
        elif not isinstance(item, Join | Aggregate):
            yield inner, item
