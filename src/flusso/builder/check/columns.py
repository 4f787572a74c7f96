"""Find where the facts of a column speak against what the schema declares of it: keys that are not unique or
may be null, required fields that may be null, enums whose labels are others. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flusso.builder.check.facts import Facts
from flusso.builder.check.levels import Level, leaves
from flusso.builder.check.spot import Spot
from flusso.catalog import Table, TableKind
from flusso.diagnostic import Code, Diagnostic
from flusso.postgres.identifiers import quote, quote_table
from flusso.schema.model import Columns, Constant, Custom, Geo, IndexSchema, Join, JoinKind, Scalar


def find_unfit_key(level: Level, facts: Facts) -> Iterator[Diagnostic]:
    """Compare the declared key with the real ones; without a declared key there is nothing to doubt."""
    key = level.item.primary_key
    if not key or not all(name in level.table.columns for name in key):
        return
    is_unique = _is_unique(level.table, key, facts)
    listed = ", ".join(key)
    how = "create unique index" + ("" if level.table.kind is TableKind.PARTITIONED else " concurrently")
    remedy = f"{how} on {quote_table(level.table.name)} ({_quoted(key)});"
    if isinstance(level.item, IndexSchema):
        if not is_unique:
            message = f"({listed}) of {level.table.name} is not unique: several rows would be one document"
            yield level.spot.says(Code.UNFIT_KEY, message, key="primary_key", hint=remedy)
        for name in key:
            if not level.table.columns[name].not_null:
                message = f'column "{name}" of {level.table.name} may be null: such a row would have no id'
                yield level.spot.says(
                    Code.UNFIT_KEY, message, key="primary_key", hint=_set_not_null(level.table, name)
                )
    elif not is_unique and _refers_by_key(level):
        message = f"({listed}) of {level.table.name} is not unique: a reference may lead to several rows"
        yield level.spot.says(Code.AMBIGUOUS_KEY, message, key="primary_key", hint=remedy)


def find_nullable(level: Level) -> Iterator[Diagnostic]:
    """Name the required fields whose column may be null."""
    for spot, leaf in leaves(level):
        if isinstance(leaf, Constant) or not leaf.is_required:
            continue
        if isinstance(leaf, Scalar | Custom) and leaf.default is not None:
            continue
        for name in (leaf.lat, leaf.lon) if isinstance(leaf, Geo) and leaf.lat else (leaf.column,):
            yield from _nullable(spot, level.table, name)
    if isinstance(level.item, Join) and level.item.is_required and level.parent is not None:
        for name in level.item.column:
            yield from _nullable(level.spot, level.parent.table, name)


def find_other_labels(level: Level, facts: Facts) -> Iterator[Diagnostic]:
    """Compare the variants of enum fields with the labels of the column's type."""
    labels = facts.tables[level.table.name].labels
    for spot, item in leaves(level):
        if isinstance(item, Scalar) and item.variants and not item.transforms and item.column in labels:
            yield from _other_labels(spot, item, level.table, labels[item.column])


def _is_unique(table: Table, key: Columns, facts: Facts) -> bool:
    if table.primary_key and set(table.primary_key) <= set(key):
        return True
    return any(
        index.is_unique and set(index.columns) <= set(key) for index in facts.tables[table.name].indexes
    )


def _refers_by_key(level: Level) -> bool:
    return isinstance(level.item, Join) and level.item.kind in (JoinKind.BELONGS_TO, JoinKind.MANY_TO_MANY)


def _nullable(spot: Spot, table: Table, name: str) -> Iterator[Diagnostic]:
    column = table.columns.get(name)
    if column is not None and not column.not_null:
        yield spot.says(
            Code.NULLABLE_REQUIRED,
            f'column "{name}" of {table.name} may be null, but the field is required',
            key="required",
            hint=f"{_set_not_null(table, name)} or leave required out",
        )


def _other_labels(spot: Spot, item: Scalar, table: Table, labels: tuple[str, ...]) -> Iterator[Diagnostic]:
    unlisted = [label for label in labels if label not in item.variants]
    unreal = [variant for variant in item.variants if variant not in labels]
    said = [
        f"{_words(unlisted)} of its type {_be(unlisted)} not among the variants" if unlisted else "",
        f"{_words(unreal)} {_be(unreal)} no label of its type" if unreal else "",
    ]
    if unlisted or unreal:
        yield spot.says(
            Code.OTHER_LABELS,
            f'column "{item.column}" of {table.name}: {", and ".join(part for part in said if part)}',
            key="variants",
            hint=f"variants: [{', '.join(labels)}]",
        )


def _words(words: list[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _be(words: list[str]) -> str:
    return "is" if len(words) == 1 else "are"


def _set_not_null(table: Table, name: str) -> str:
    return f"alter table {quote_table(table.name)} alter column {quote(name)} set not null;"


def _quoted(names: Columns) -> str:
    return ", ".join(quote(name) for name in names)
