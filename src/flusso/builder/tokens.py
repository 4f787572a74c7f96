"""The SQL that gives a document's tokens: one for each row that it contains at a place with references.

Pure. Only rows that the document was made of count, as filters and limits leave them. A row outside is no
part of it: losing that row changes nothing, and what brings it in is a change whose new link tells. Of `min`
and `max` it is the one row whose value is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from flusso.builder.aggregates import first_in_order
from flusso.builder.level import Level
from flusso.builder.references import Reference, token_sql
from flusso.builder.related import Related, order_and_limit
from flusso.catalog import TableName
from flusso.schema.model import Aggregate, AggregateKind, Columns, Field, Group, Join

_Places: TypeAlias = Mapping[tuple[str, TableName], Columns]


def select_tokens(
    fields: Sequence[Field], root: Level, references: Collection[Reference], related: Related
) -> str:
    """Give the column of tokens, a JSON array, with the comma before it; nothing without references."""
    places = {(each.field, each.table): each.key for each in references}
    selects = list(_below(fields, root, "", places, related))
    if ("", root.table.name) in places:
        selects.insert(0, f"select {token_sql(root.table, places['', root.table.name], root.alias)}")
    return f",\n  to_json(array({_together(selects)}))" if selects else ""


def _below(
    fields: Sequence[Field], parent: Level, path: str, places: _Places, related: Related
) -> Iterator[str]:
    for item in fields:
        name = f"{path}{item.name}"
        if isinstance(item, Group):
            yield from _below(item.fields, parent, f"{name}.", places, related)
        elif isinstance(item, Join | Aggregate):
            yield from _own(item, parent, name, places, related)
            if isinstance(item, Join) and any(field.startswith(f"{name}.") for field, _ in places):
                yield from _inner(item, parent, name, places, related)


def _own(
    item: Join | Aggregate, parent: Level, name: str, places: _Places, related: Related
) -> Iterator[str]:
    key = places.get((name, item.table))
    if key is not None:
        level, _, tail = _rows(item, parent, related)
        yield f"select {token_sql(level.table, key, level.alias)}{tail}"
    link = places.get((name, item.through.table)) if item.through is not None else None
    if link is not None and item.through is not None:
        _, junction, tail = _rows(item, parent, related)
        yield f"select {token_sql(related.catalog.tables[item.through.table], link, junction)}{tail}"


def _inner(item: Join, parent: Level, name: str, places: _Places, related: Related) -> Iterator[str]:
    """Give what lies below the rows of a join, and only below those that the document has."""
    level, _, tail = _rows(item, parent, related)
    inner = list(_below(item.fields, level, f"{name}.", places, related))
    if inner:
        rows = f"(select {level.alias}.*{tail}) as {level.alias}"
        yield f"select c.token from {rows} cross join lateral ({_together(inner)}) as c(token)"


def _rows(item: Join | Aggregate, parent: Level, related: Related) -> tuple[Level, str, str]:
    """Give the related level, the junction's alias, and the rows as the document has them."""
    level = related.level(item, parent)
    # Every junction row counts, also where the document has each related row once.
    plain = replace(item, is_distinct=False) if isinstance(item, Aggregate) else item
    rows = related.rows(plain, level, parent)
    if not level.table.primary_key:
        # Without a key of its own to order by, two selects may take different rows: then all of them.
        return level, rows.junction, rows.tail
    if isinstance(item, Join):
        return level, rows.junction, rows.tail + order_and_limit(item, level)
    if item.kind in (AggregateKind.MIN, AggregateKind.MAX):
        return level, rows.junction, rows.tail + first_in_order(item, level)
    return level, rows.junction, rows.tail


def _together(selects: Sequence[str]) -> str:
    # Several relations may have the same row of the same table.
    return "\n  union\n  ".join(f"({select})" for select in selects) if len(selects) > 1 else selects[0]
