"""A schema compiled against the catalog: all the SQL that following and seeding an index needs.

Made once on the driver, picklable, without a connection; executors get it inside their tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from flusso.builder.check.fit import find_problems
from flusso.builder.complete import complete
from flusso.builder.keys import columns_of, count_keys, may_be_hashed, select_texts
from flusso.builder.level import PARTITION
from flusso.builder.paths import Hop, Path, find_paths
from flusso.builder.reads import columns_read, stored_columns
from flusso.builder.references import Reference, find_references, is_blind, keep_fitting
from flusso.builder.statement import (
    Statement,
    documents_by_keys,
    documents_by_range,
    keys_alone,
    match_range,
)
from flusso.catalog import Catalog, TableName
from flusso.change import WatchedTable
from flusso.diagnostic import Code, Diagnostic
from flusso.errors import SchemaError
from flusso.postgres.identifiers import quote_table
from flusso.schema.model import IndexSchema, tables_of

__all__ = [
    "Hop",
    "IndexPlan",
    "Path",
    "Reference",
    "Statement",
    "compile_index",
    "compile_referring",
    "find_problems",
    "find_shared_rows",
    "is_root_alone",
    "watched_tables",
    "without_partitions",
]


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One index, compiled."""

    index: str
    root: TableName
    key: tuple[str, ...]
    """Key columns of the root."""
    by_keys: Statement
    """Documents of given keys: `$1` … are text arrays, one for each key column, then the operands."""
    found_by_keys: Statement
    """The keys alone of those documents; nothing is built."""
    by_range: Statement
    """Documents of root rows between two ctids: see `in_range`."""
    paths: tuple[Path, ...]
    reads: frozenset[TableName]
    """Every table that the documents read."""
    long_keys: Statement
    """The keys of the root rows whose id may be a hash, without operands."""
    keys_by_range: Statement
    """The keys of root rows between two ctids, whatever the filters say: see `in_range`."""
    cast_keys: Statement
    """Fails when one of the given keys is text that no row's key can be; `$1` … as in `by_keys`."""
    columns: Mapping[TableName, frozenset[str]] = field(default_factory=dict)
    """Of each table the columns, as the WAL has them, without whose change no document changes."""
    references: tuple[Reference, ...] = ()
    """The places whose rows the statements give as tokens, in a last column."""
    exact: frozenset[str] = frozenset()
    """The paths, by `Path.place`, that nothing may leave unseen: the WAL shows their old links, or references
    stand for them. None where what is stale is taken for granted."""


def compile_index(
    index: str, schema: IndexSchema, catalog: Catalog, references: Collection[Reference] = ()
) -> IndexPlan:
    """Compile a schema, or raise SchemaError with everything that does not fit the database.

    Documents come with the tokens of those of the `references` that the schema has places for.
    """
    problems = find_problems(index, schema, catalog)
    if problems:
        raise SchemaError.of(problems)
    whole = complete(schema, catalog)
    root = catalog.tables[whole.table]
    key = columns_of(root, whole.primary_key)
    paths = find_paths(whole, catalog)
    kept = keep_fitting(references, paths, catalog)
    by_keys = documents_by_keys(whole, catalog, kept)
    all_keys = f"select {select_texts('t', key)}\nfrom"
    return IndexPlan(
        index=index,
        root=whole.table,
        key=whole.primary_key,
        by_keys=by_keys,
        found_by_keys=keys_alone(by_keys, len(key)),
        by_range=documents_by_range(whole, catalog, kept),
        paths=paths,
        reads=tables_of(whole),
        long_keys=Statement(f"{all_keys} {quote_table(root.name)} as t\nwhere {may_be_hashed('t', key)}", ()),
        keys_by_range=Statement(f"{all_keys} {PARTITION} as t\nwhere {match_range('t')}", ()),
        cast_keys=Statement(count_keys(key), ()),
        columns={
            table: stored_columns(
                catalog.tables[table],
                names
                | {name for path in paths if path.table == table for name in path.columns}
                | {name for each in kept if each.table == table for name in each.key},
            )
            for table, names in columns_read(whole, catalog).items()
        },
        references=kept,
    )


def compile_referring(index: str, schema: IndexSchema, catalog: Catalog) -> IndexPlan:
    """Compile a schema so that every place whose old links the WAL lacks keeps references."""
    plan = compile_index(index, schema, catalog)
    found = find_references(plan.paths, catalog)
    plan = compile_index(index, schema, catalog, found) if found else plan
    known = {(each.field, each.table) for each in found}
    exact = (path for path in plan.paths if (path.field, path.table) in known or not is_blind(path, catalog))
    return replace(plan, exact=frozenset(path.place for path in exact))


def is_root_alone(plan: IndexPlan) -> bool:
    """Whether rows of the root stand nowhere in its documents but at the top."""
    return sum(path.table == plan.root for path in plan.paths) == 1


def without_partitions(plan: IndexPlan) -> IndexPlan:
    """Give the plan as tasks need it: they know tables by their declared names, and partitions are many."""
    return replace(plan, paths=tuple(replace(path, partitions=None) for path in plan.paths))


def watched_tables(plans: Collection[IndexPlan]) -> tuple[WatchedTable, ...]:
    """Name what capture must follow: each table with its primary key, then its link columns by name."""
    paths = {path.table: path for plan in plans for path in plan.paths}
    links: dict[TableName, set[str]] = {}
    known: dict[TableName, set[str]] = {}
    for plan in plans:
        for path in plan.paths:
            links.setdefault(path.table, set()).update(path.columns)
        for reference in plan.references:
            known.setdefault(reference.table, set()).update(reference.key)
    return tuple(
        WatchedTable(
            table,
            (*path.key, *sorted((links[table] | known.get(table, set())) - set(path.key))),
            path.partitions,
            tuple(sorted(links[table])),
            path.oid,
            tuple(sorted({name for plan in plans for name in plan.columns.get(table, ())})),
        )
        for table, path in sorted(paths.items(), key=lambda item: item[0])
    )


def find_shared_rows(watched: Iterable[WatchedTable]) -> list[Diagnostic]:
    """List tables that hold rows of two: a change comes under one name, and can be one table's only."""
    found: list[Diagnostic] = []
    owners: dict[TableName, TableName] = {}
    for table in watched:
        for name in (table.name, *(table.partitions or ())):
            owner = owners.setdefault(name, table.name)
            if owner != table.name:
                message = f"{name} holds rows of {owner} and of {table.name}, and both are read"
                hint = "name the partitioned table in all places, with a filter where only a part is meant"
                found.append(Diagnostic(Code.UNFOLLOWABLE_TABLE, message, hint))
    return found
