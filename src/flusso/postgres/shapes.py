"""Read what tables look like, closely enough to tell when their rows may mean something else.

Some DDL changes values without a change in the WAL: a column's type or generated expression, a renamed label
of an enum, a partition attached or dropped, a table made again under the old name. All of it leaves traces in
the catalog; here they are read, in three statements whatever the number of tables, often: it must be cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from flusso.catalog import TableName
from flusso.postgres.connect import Connection, translated
from flusso.postgres.identifiers import quote_table

_TABLES = """
select n.nspname::text, c.relname::text, c.oid, held.oids, held.schemas, held.names, held.files,
  held.identities,
  (select i.indkey::text from pg_index as i where i.indrelid = c.oid and i.indisprimary)
from unnest(%s::text[], %s::text[]) as w(schema, name)
join pg_namespace as n on n.nspname = w.schema
join pg_class as c on c.relnamespace = n.oid and c.relname = w.name
cross join lateral (
  select array_agg(leaf.oid) as oids, array_agg(s.nspname::text) as schemas,
    array_agg(leaf.relname::text) as names, array_agg(coalesce(pg_relation_filenode(leaf.oid), 0)) as files,
    array_agg(distinct leaf.relreplident::text || coalesce((
      select i.indkey::text
      from pg_index as i
      where i.indrelid = leaf.oid and i.indimmediate and i.indisvalid
        and case leaf.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident else false end
    ), '')) as identities
  from (
    select c.oid where c.relkind <> 'p'
    union all
    select tree.relid::oid from pg_partition_tree(c.oid) as tree where c.relkind = 'p' and tree.isleaf
  ) as part(oid)
  join pg_class as leaf on leaf.oid = part.oid
  join pg_namespace as s on s.oid = leaf.relnamespace
) as held
where c.relkind in ('r', 'p')
"""

# ALTER TYPE … USING may keep the type and change every value: it writes the column's row of the catalog anew
# (xmin) and gives the table another file. Either alone happens for other reasons.
_COLUMNS = """
select a.attrelid, a.attname::text, a.attnum, a.atttypid, a.atttypmod, a.attcollation, a.xmin::text,
  case when a.attgenerated <> '' then a.attgenerated::text || pg_get_expr(d.adbin, d.adrelid) else '' end
from pg_attribute as a
left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = any(%s::oid[]) and a.attnum > 0 and not a.attisdropped
"""

_LABELS = """
select a.attrelid, a.attname::text, e.oid, e.enumlabel::text
from pg_attribute as a
join pg_type as t on t.oid = a.atttypid
join pg_enum as e on e.enumtypid in (t.oid, t.typelem, t.typbasetype)
where a.attrelid = any(%s::oid[]) and a.attnum > 0 and not a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """One column: what it is, which row of the catalog says so, and what its enum calls its values."""

    meaning: tuple[object, ...]
    """Its number, type, modifier, collation and expression: another one means other values."""
    mark: str
    labels: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table."""

    oid: int
    leaves: Mapping[int, TableName]
    """The tables that hold its rows, by oid: itself, or its partitions."""
    files: frozenset[int]
    identities: frozenset[str]
    """The replica identities that rows of it are written with: the kind, and the numbers of the columns."""
    key: str
    """The numbers of its primary key's columns; empty without one."""
    columns: Mapping[str, ColumnShape]


def read_shapes(conn: Connection, tables: Collection[TableName]) -> dict[TableName, TableShape]:
    """Read those of the tables that exist."""
    wanted = sorted(tables)
    with translated("cannot read the catalog"):
        found = conn.execute(_TABLES, ([t.schema for t in wanted], [t.name for t in wanted])).fetchall()
        oids = [row[2] for row in found]
        columns = conn.execute(_COLUMNS, (oids,)).fetchall()
        labels = conn.execute(_LABELS, (oids,)).fetchall()
    named: dict[tuple[int, str], dict[int, str]] = {}
    for oid, name, label_oid, label in labels:
        named.setdefault((oid, name), {})[label_oid] = label
    by_table: dict[int, dict[str, ColumnShape]] = {oid: {} for oid in oids}
    for oid, name, number, type_, modifier, collation, mark, expression in columns:
        meaning = (number, type_, modifier, collation, expression)
        by_table[oid][name] = ColumnShape(meaning, mark, named.get((oid, name), {}))
    return {
        TableName(schema, name): TableShape(
            oid,
            {
                leaf: TableName(*place)
                for leaf, *place in zip(leaves or (), schemas or (), names or (), strict=True)
            },
            frozenset(files or ()),
            frozenset(identities or ()),
            key or "",
            by_table[oid],
        )
        for schema, name, oid, leaves, schemas, names, files, identities, key in found
    }


def has_rows(conn: Connection, table: TableName) -> bool:
    """Whether a table has any row."""
    with translated(f"cannot read {table}"):
        row = conn.execute(f"select exists (select from {quote_table(table)})".encode()).fetchone()
    assert row is not None
    return bool(row[0])
