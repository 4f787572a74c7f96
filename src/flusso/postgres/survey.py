"""Look over a whole database: its tables with their sizes, foreign keys, unique keys and enum labels.

For whoever drafts a schema. Tables of the system and of extensions are left out, as are single partitions,
which belong to their parent. Plain facts: what to make of them is decided by whoever asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flusso.catalog import Catalog, TableName
from flusso.postgres.connect import Connection, translated
from flusso.postgres.introspect import read_catalog

# A table that was never analyzed has -1 rows. Its size then tells at least whether it is empty.
_TABLES = """
select n.nspname::text, c.relname::text,
  case when c.reltuples >= 0 then c.reltuples::bigint when pg_relation_size(c.oid) = 0 then 0 end,
  has_table_privilege(c.oid, 'select')
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
  and not exists (
    select from pg_depend as d
    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
order by 1, 2
"""

_FOREIGN_KEYS = """
select n.nspname::text, c.relname::text,
  (select array_agg(a.attname::text order by k.n)
   from unnest(f.conkey) with ordinality as k(attnum, n)
   join pg_attribute as a on a.attrelid = f.conrelid and a.attnum = k.attnum),
  tn.nspname::text, t.relname::text,
  (select array_agg(a.attname::text order by k.n)
   from unnest(f.confkey) with ordinality as k(attnum, n)
   join pg_attribute as a on a.attrelid = f.confrelid and a.attnum = k.attnum)
from pg_constraint as f
join pg_class as c on c.oid = f.conrelid
join pg_namespace as n on n.oid = c.relnamespace
join pg_class as t on t.oid = f.confrelid
join pg_namespace as tn on tn.oid = t.relnamespace
where f.contype = 'f' and f.conparentid = 0
order by 1, 2, f.conkey, f.conname
"""

_UNIQUE_KEYS = """
select n.nspname::text, c.relname::text,
  (select array_agg(a.attname::text order by k.n)
   from unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
   join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.attnum
   where k.n <= i.indnkeyatts)
from pg_index as i
join pg_class as c on c.oid = i.indrelid
join pg_namespace as n on n.oid = c.relnamespace
where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
  and n.nspname !~ '^pg_'
order by 1, 2, i.indexrelid
"""

_LABELS = """
select format_type(enumtypid, -1), array_agg(enumlabel::text order by enumsortorder)
from pg_enum
group by enumtypid
"""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns of a table that refer to columns of another, pair by pair."""

    table: TableName
    columns: tuple[str, ...]
    target: TableName
    target_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What a database has."""

    catalog: Catalog
    rows: Mapping[TableName, int | None]
    """About how many; None when nobody has counted yet."""
    unreadable: frozenset[TableName]
    """Tables that this role may not read."""
    foreign_keys: tuple[ForeignKey, ...]
    unique_keys: Mapping[TableName, tuple[tuple[str, ...], ...]]
    labels: Mapping[str, tuple[str, ...]]
    """Of each enum type, named as `Column.type` names it, in their order."""


def read_survey(conn: Connection) -> Survey:
    """Read all of it."""
    with translated("cannot look over the database"):
        tables = [(TableName(row[0], row[1]), row[2], row[3]) for row in conn.execute(_TABLES)]
        # The same foreign key may be declared twice.
        foreign_keys = dict.fromkeys(
            ForeignKey(TableName(row[0], row[1]), tuple(row[2]), TableName(row[3], row[4]), tuple(row[5]))
            for row in conn.execute(_FOREIGN_KEYS)
        )
        unique_keys: dict[TableName, tuple[tuple[str, ...], ...]] = {}
        for schema, name, columns in conn.execute(_UNIQUE_KEYS):
            table = TableName(schema, name)
            unique_keys[table] = (*unique_keys.get(table, ()), tuple(columns))
        labels = {row[0]: tuple(row[1]) for row in conn.execute(_LABELS)}
    return Survey(
        catalog=read_catalog(conn, [name for name, _, _ in tables]),
        rows={name: rows for name, rows, _ in tables},
        unreadable=frozenset(name for name, _, is_readable in tables if not is_readable),
        foreign_keys=tuple(foreign_keys),
        unique_keys=unique_keys,
        labels=labels,
    )
