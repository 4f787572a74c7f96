"""What the database knows beyond the catalog that compiling needs: privileges, indexes, statistics, labels.

A few statements, whatever the number of tables. Read for checking only; what the facts mean is decided by
the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flusso.catalog import Catalog, TableName
from flusso.postgres.connect import Connection, translated

# A partial, invalid or expression index serves no lookup by its columns and proves no key.
_TABLES = """
select c.oid, c.reltuples::float8, row_security_active(c.oid),
  has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select'),
  has_schema_privilege(c.relnamespace, 'usage'),
  (select coalesce(jsonb_agg(jsonb_build_array(x.is_unique, x.columns)), '[]')
   from (select i.indisunique as is_unique, jsonb_agg(a.attname order by k.n) as columns
         from pg_index as i
         join pg_class as own on own.oid = i.indexrelid
         join pg_am as am on am.oid = own.relam
         cross join lateral unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
         left join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.attnum
         where i.indrelid = c.oid and i.indisvalid and i.indpred is null
           and am.amname in ('btree', 'hash') and k.n <= i.indnkeyatts
         group by i.indexrelid, i.indisunique
         order by i.indexrelid) as x)
from pg_class as c
where c.oid = any(%s::oid[])
"""

_STATISTICS = """
select c.oid, s.attname::text, s.n_distinct::float8, s.null_frac::float8
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
join pg_stats as s
  on s.schemaname = n.nspname and s.tablename = c.relname and s.inherited = (c.relkind = 'p')
where c.oid = any(%s::oid[])
"""

_LABELS = """
select a.attrelid, a.attname::text, array_agg(e.enumlabel::text order by e.enumsortorder)
from pg_attribute as a
join pg_type as t on t.oid = a.atttypid
join pg_enum as e on e.enumtypid in (t.oid, t.typelem, t.typbasetype)
where a.attrelid = any(%s::oid[]) and a.attnum > 0 and not a.attisdropped
group by a.attrelid, a.attname
"""


_NAMES = """
select n.nspname::text, c.relname::text
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
  and n.nspname !~ '^pg_(toast|temp)'
order by 1, 2
"""


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """A whole, valid index; an expression among its columns is None."""

    is_unique: bool
    columns: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table."""

    rows: float
    """An estimate; negative when the table was never analyzed."""
    is_row_secured: bool
    """Whether row-level security would hide rows from this role."""
    may_read: bool
    may_use_schema: bool
    indexes: tuple[KnownIndex, ...]
    distinct: Mapping[str, float]
    """Different values of a column, where statistics say so."""
    nulls: Mapping[str, float]
    """The share of nulls."""
    labels: Mapping[str, tuple[str, ...]]
    """Of the columns whose type is an enum."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All tables of a catalog, and who looks at them."""

    role: str
    database: str
    tables: Mapping[TableName, TableFacts]


def read_table_names(conn: Connection) -> list[TableName]:
    """Name all tables of the database, to tell which one was meant by one that is not there."""
    with translated("cannot read the names of the tables"):
        return [TableName(schema, name) for schema, name in conn.execute(_NAMES.encode())]


def read_facts(conn: Connection, catalog: Catalog) -> Facts:
    """Read the facts of all tables of a catalog."""
    names = {table.oid: name for name, table in catalog.tables.items()}
    oids = list(names)
    with translated("cannot read privileges, indexes and statistics"):
        who = conn.execute("select current_user::text, current_database()::text").fetchone()
        rows = conn.execute(_TABLES, (oids,)).fetchall()
        statistics = conn.execute(_STATISTICS, (oids,)).fetchall()
        labels = conn.execute(_LABELS, (oids,)).fetchall()
    assert who is not None
    tables = {names[row[0]]: _facts(row, statistics, labels) for row in rows}
    return Facts(who[0], who[1], tables)


def _facts(
    row: Sequence[object], statistics: Sequence[Sequence[object]], labels: Sequence[Sequence[object]]
) -> TableFacts:
    oid, rows, is_secured, may_read, may_use, indexes = row
    assert isinstance(rows, float)
    assert isinstance(indexes, list)
    own = [found[1:] for found in statistics if found[0] == oid]
    return TableFacts(
        rows,
        bool(is_secured),
        bool(may_read),
        bool(may_use),
        tuple(KnownIndex(is_unique, tuple(columns)) for is_unique, columns in indexes),
        # Postgres gives a share of the rows as a negative number.
        {str(name): _count(count, rows) for name, count, _ in own},
        {str(name): float(str(share)) for name, _, share in own},
        {str(found[1]): tuple(found[2]) for found in labels if found[0] == oid},  # type: ignore[arg-type]
    )


def _count(distinct: object, rows: float) -> float:
    assert isinstance(distinct, float)
    return distinct if distinct >= 0 else -distinct * max(rows, 0)
