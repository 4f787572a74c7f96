"""Read what the database says of itself: tables for the schema check and the builder, and its identity.

Three queries whatever the number of tables, one more where some are partitioned. Plain facts: what they mean
for a schema is decided by whoever asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flusso.catalog import (
    Catalog,
    Column,
    IdentityKind,
    Partition,
    Persistence,
    Table,
    TableKind,
    TableName,
)
from flusso.postgres.connect import Connection, translated

_IDENTITY_KEY = """
  (select array_agg(a.attname::text order by k.n)
   from pg_index as i
   cross join lateral unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
   join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.attnum
   where i.indrelid = c.oid and i.indimmediate and i.indisvalid and k.n <= i.indnkeyatts
     and case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident else false end)
"""

_TABLES = f"""
select c.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relreplident::text,
  (select array_agg(a.attname::text order by k.n)
   from pg_index as i
   cross join lateral unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
   join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.attnum
   where i.indrelid = c.oid and i.indisprimary and k.n <= i.indnkeyatts),
  {_IDENTITY_KEY},
  c.relpersistence::text,
  c.relkind = 'r' and exists (select from pg_inherits as i where i.inhparent = c.oid)
from unnest(%s::text[], %s::text[]) as w(schema, name)
join pg_namespace as n on n.nspname = w.schema
join pg_class as c on c.relnamespace = n.oid and c.relname = w.name
where c.relkind in ('r', 'p', 'v', 'm', 'f')
"""

_PARTITIONS = f"""
select root.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,
  c.relreplident::text, {_IDENTITY_KEY}
from unnest(%s::oid[]) as root(oid)
cross join lateral pg_partition_tree(root.oid) as tree
join pg_class as c on c.oid = tree.relid
join pg_namespace as n on n.oid = c.relnamespace
where tree.isleaf
order by root.oid, n.nspname, c.relname
"""

_COLUMNS = """
select attrelid, attname::text, atttypid, attnotnull, attgenerated <> '',
  -- The type modifier of numeric(p, s) is p * 65536 + s + 4, and s is negative from 1024 on.
  atttypid = 'pg_catalog.numeric'::regtype and atttypmod >= 4
    and (atttypmod - 4) >> 16 <= 300 and (atttypmod - 4) & 65535 <= 300
from pg_attribute
where attrelid = any(%s::oid[]) and attnum > 0 and not attisdropped
order by attrelid, attnum
"""

# A domain leads to its base, an array to its element, so the chain of each column's type is complete.
_TYPES = """
with recursive reached as (
  select distinct atttypid as oid
  from pg_attribute
  where attrelid = any(%s::oid[]) and attnum > 0 and not attisdropped
  union
  select case when t.typtype = 'd' then t.typbasetype else t.typelem end
  from reached join pg_type as t on t.oid = reached.oid
  where t.typtype = 'd' or t.typcategory = 'A' and t.typelem <> 0
)
select t.oid, t.typname::text, format_type(t.oid, -1), t.typtype = 'e',
  case when t.typtype = 'd' then t.typbasetype else 0 end,
  case when t.typtype <> 'd' and t.typcategory = 'A' then t.typelem else 0 end,
  coalesce((
    select min(quote_ident(n.nspname))
    from pg_operator as o join pg_namespace as n on n.oid = o.oprnamespace
    where o.oprname = '=' and o.oprleft = t.oid and o.oprright = t.oid and n.nspname <> 'pg_catalog'), '')
from reached join pg_type as t on t.oid = reached.oid
"""

_IDENTITY = """
select s.system_identifier::text,
  case when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
    else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end,
  current_setting('server_version_num')::int,
  current_database()::text,
  (select coalesce(stats_reset::text, '') from pg_stat_archiver)
from pg_control_system() as s
"""


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Which cluster and database this is."""

    system_identifier: str
    timeline: int
    server_version: int
    database: str
    recovered_at: str
    """When it last recovered from a crash, else when it was made: statistics live through an orderly restart
    and begin anew after any other. These are reset by hand only when asked for by name."""


@dataclass(frozen=True, slots=True)
class _Type:
    name: str
    cast: str
    is_enum: bool
    base_oid: int
    element_oid: int
    operators: str


def read_catalog(conn: Connection, tables: Iterable[TableName]) -> Catalog:
    """Read those of the tables that exist."""
    wanted = sorted(set(tables))
    with translated("cannot read the catalog"):
        found = conn.execute(_TABLES, ([t.schema for t in wanted], [t.name for t in wanted])).fetchall()
        oids = [row[0] for row in found]
        columns = conn.execute(_COLUMNS, (oids,)).fetchall()
        types = {row[0]: _Type(*row[1:]) for row in conn.execute(_TYPES, (oids,))}
        partitioned = [row[0] for row in found if row[3] == TableKind.PARTITIONED]
        partitions = conn.execute(_PARTITIONS, (partitioned,)).fetchall() if partitioned else []
    by_table: dict[int, dict[str, Column]] = {oid: {} for oid in oids}
    for oid, name, type_oid, not_null, is_generated, is_short in columns:
        column = _column(name, type_oid, not_null, is_generated, types)
        by_table[oid][name] = replace(column, is_short=is_short)
    parts: dict[int, list[Partition]] = {}
    for oid, *part in partitions:
        parts.setdefault(oid, []).append(_partition(part, by_table[oid]))
    made = [_table(row, by_table[row[0]], tuple(parts.get(row[0], ()))) for row in found]
    return Catalog({table.name: table for table in sorted(made, key=lambda table: table.name)})


def read_source_identity(conn: Connection) -> SourceIdentity:
    """Read which cluster and database the connection is to."""
    with translated("cannot read the identity of the server"):
        row = conn.execute(_IDENTITY).fetchone()
    assert row is not None
    return SourceIdentity(*row)


def _table(row: tuple[Any, ...], columns: Mapping[str, Column], partitions: tuple[Partition, ...]) -> Table:
    oid, schema, name, kind, identity, primary_key, identity_key, persistence, has_children = row
    carried = _carried(identity, identity_key, columns)
    if partitions:
        every = [set(partition.identity_columns) for partition in partitions]
        carried = tuple(column for column in columns if all(column in each for each in every))
    return Table(
        TableName(schema, name),
        oid,
        TableKind(kind),
        columns,
        tuple(primary_key or ()),
        IdentityKind(identity),
        carried,
        Persistence(persistence),
        partitions,
        has_children,
    )


def _partition(row: Sequence[Any], columns: Mapping[str, Column]) -> Partition:
    schema, name, kind, persistence, identity, identity_key = row
    return Partition(
        TableName(schema, name),
        TableKind(kind),
        Persistence(persistence),
        _carried(identity, identity_key, columns),
    )


def _carried(identity: str, key: Sequence[str] | None, columns: Mapping[str, Column]) -> tuple[str, ...]:
    if identity == IdentityKind.FULL:
        return tuple(column.name for column in columns.values() if not column.is_generated)
    return tuple(key or ())


def _column(
    name: str, type_oid: int, not_null: bool, is_generated: bool, types: Mapping[int, _Type]
) -> Column:
    found = _undomained(types, type_oid)
    is_array = found.element_oid != 0
    if is_array:
        found = _undomained(types, found.element_oid)
    cast = f"{found.cast}[]" if is_array else found.cast
    operators = "" if is_array else found.operators
    return Column(name, cast, found.name, is_array, found.is_enum, not_null, is_generated, operators)


def _undomained(types: Mapping[int, _Type], oid: int) -> _Type:
    found = types[oid]
    while found.base_oid:
        found = types[found.base_oid]
    return found
