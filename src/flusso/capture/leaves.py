"""How tables stand to publications: read from the catalog, judged elsewhere.

A partitioned table is published through the tables that hold its rows, its leaves; an ordinary one is its own
leaf. Each has an identity of its own and is held by publications in several ways. `harm`, `identity` and
`coverage` decide by these facts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flusso.catalog import IdentityKind, TableName
from flusso.postgres.connect import Connection, translated

GENERATED_PUBLISHABLE_SINCE = 180000
_SCHEMAS_SINCE = 150000

_LEAVES = """
select root_schema.nspname::text, root.relname::text, root.relkind = 'r' and exists (
           select from pg_inherits where inhparent = root.oid
       ),
       pg_has_role(root.relowner, 'usage'), root.oid, root.relkind = 'p',
       leaf.oid, leaf_schema.nspname::text, leaf.relname::text,
       leaf.relkind::text, leaf.relpersistence::text, leaf.relreplident::text,
       pg_has_role(leaf.relowner, 'usage'),
       (select json_object_agg(attname, attgenerated::text order by attnum)
        from pg_attribute
        where attrelid = leaf.oid and attnum > 0 and not attisdropped),
       (select json_agg(json_build_object(
            'name', i.relname, 'columns', keys.names, 'is_primary', x.indisprimary,
            'is_identity', x.indisreplident, 'is_full', x.indpred is null and not keys.has_null
        ) order by cardinality(keys.names), i.relname)
        from pg_index as x
        join pg_class as i on i.oid = x.indexrelid
        cross join lateral (
            select array_agg(a.attname::text order by k.n) as names, bool_or(not a.attnotnull) as has_null
            from unnest(x.indkey::int2[]) with ordinality as k(attnum, n)
            join pg_attribute as a on a.attrelid = leaf.oid and a.attnum = k.attnum
            where k.n <= x.indnkeyatts
        ) as keys
        where x.indrelid = leaf.oid and x.indisunique and x.indisvalid and x.indimmediate
          and x.indexprs is null)
from unnest(%s::text[], %s::text[]) as wanted(schema, name)
join pg_namespace as root_schema on root_schema.nspname = wanted.schema
join pg_class as root on root.relnamespace = root_schema.oid and root.relname = wanted.name
left join lateral (
    select root.oid as relid where root.relkind <> 'p'
    union all
    select tree.relid::oid from pg_partition_tree(root.oid) as tree where root.relkind = 'p' and tree.isleaf
) as leaves on true
left join pg_class as leaf on leaf.oid = leaves.relid
left join pg_namespace as leaf_schema on leaf_schema.oid = leaf.relnamespace
where root.relkind in ('r', 'p', 'v', 'm', 'f')
order by 1, 2, 8, 9
"""

# A row of a publication names a leaf, a table above it or a schema; `for all tables` needs none. Columns that
# only newer servers have are read by way of jsonb; where one has an EXCEPT list, what it names is not held.
_LINE = """
with line as (
    select leaf.oid as leaf, up.relid
    from unnest(%(leaves)s::oid[]) as leaf(oid)
    cross join lateral (
        select leaf.oid as relid union select relid::oid from pg_partition_ancestors(leaf.oid)
    ) as up
), named as (
    select line.leaf, line.relid, r.prpubid, r.oid, r.xmin,
           to_jsonb(r) as facts, to_jsonb(r) ->> 'prexcept' = 'true' as is_except
    from line join pg_publication_rel as r on r.prrelid = line.relid
)
"""
_NAMED = """
select p.pubname::text, n.leaf, 'r' || n.oid || '.' || n.xmin, n.relid = n.leaf,
       p.pubupdate or p.pubdelete, coalesce(to_jsonb(p) ->> 'pubgencols', 'n'),
       case when n.facts ->> 'prattrs' is not null then array(
           select attname::text
           from pg_attribute
           where attrelid = n.relid
             and attnum in (select jsonb_array_elements_text(n.facts -> 'prattrs')::int)
       ) end,
       case when n.facts ->> 'prqual' is not null then array(
           select a.attname::text
           from pg_depend as d join pg_attribute as a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
           where d.classid = 'pg_publication_rel'::regclass and d.objid = n.oid
             and d.refclassid = 'pg_class'::regclass and d.refobjid = n.relid and d.refobjsubid > 0
       ) end
from named as n join pg_publication as p on p.oid = n.prpubid
where n.is_except is not true
"""
_WHOLE = """
select p.pubname::text, held.leaf, held.row, false,
       p.pubupdate or p.pubdelete, coalesce(to_jsonb(p) ->> 'pubgencols', 'n'), null, null
from ({held}) as held(pubid, leaf, row)
join pg_publication as p on p.oid = held.pubid
where not exists (
    select from named where named.leaf = held.leaf and named.prpubid = p.oid and named.is_except
)
"""
_ALL_TABLES = """
select p.oid, leaf.oid, 'p' || p.oid || '.' || p.xmin
from pg_publication as p, unnest(%(leaves)s::oid[]) as leaf(oid)
where p.puballtables
"""
_SCHEMAS = """
select s.pnpubid, line.leaf, 's' || s.oid || '.' || s.xmin
from line
join pg_class as c on c.oid = line.relid
join pg_publication_namespace as s on s.pnnspid = c.relnamespace
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """What an UPDATE or DELETE writes of the old row."""

    kind: IdentityKind
    columns: tuple[str, ...] | None
    """None when there is none: published, its updates and deletes fail."""
    index: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """One way in which a publication holds a leaf."""

    publication: str
    row: str
    """The catalog row that says so, by kind, oid and xmin: another one is not the same hold."""
    is_own: bool
    """Whether it names the leaf itself."""
    sends_writes: bool
    generated: str
    """`s` when stored generated columns are published."""
    columns: tuple[str, ...] | None = None
    """The column list, if any."""
    filtered_by: tuple[str, ...] | None = None
    """Columns of the row filter, if any."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table that holds rows, as far as publishing it goes."""

    root: TableName
    oid: int
    name: TableName
    kind: str
    persistence: str
    is_owned: bool
    """Whether the role of the connection may alter it."""
    columns: Mapping[str, str]
    """By name how it is generated: empty, `s` for stored, `v` for virtual."""
    identity: Identity
    choices: tuple[Identity, ...] = ()
    """Identities by primary key or by a whole unique index without nulls, the shortest first."""
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaves:
    """What was read of some tables."""

    by_table: Mapping[TableName, tuple[Leaf, ...]]
    """Of those that exist; a partitioned table may have none."""
    parents: frozenset[TableName] = frozenset()
    """Those that others inherit from, otherwise than as partitions."""
    foreign: frozenset[TableName] = frozenset()
    """Those that the role of the connection may not alter."""
    root_holds: Mapping[TableName, tuple[Hold, ...]] = field(default_factory=dict)
    """Of the partitioned ones what holds the table itself, and so every partition to come."""

    def __iter__(self) -> Iterator[Leaf]:
        return (leaf for leaves in self.by_table.values() for leaf in leaves)


def read_leaves(conn: Connection, tables: Iterable[TableName]) -> Leaves:
    """Read the leaves of those of the tables that exist, with all that publishes them."""
    wanted = sorted(set(tables))
    with translated("cannot read how tables are published"):
        rows = conn.execute(_LEAVES, ([t.schema for t in wanted], [t.name for t in wanted])).fetchall()
    found: dict[TableName, list[Leaf]] = {}
    roots: dict[TableName, int] = {}
    parents: set[TableName] = set()
    foreign: set[TableName] = set()
    for schema, name, has_children, is_owned, oid, is_partitioned, *rest in rows:
        root = TableName(schema, name)
        leaves = found.setdefault(root, [])
        if has_children:
            parents.add(root)
        if not is_owned:
            foreign.add(root)
        if is_partitioned:
            roots[root] = oid
        if rest[0] is not None:
            leaves.append(_leaf(root, rest))
    holds = read_holds(conn, [*roots.values(), *(leaf.oid for leaves in found.values() for leaf in leaves)])
    held = {
        root: tuple(replace(leaf, holds=holds.get(leaf.oid, ())) for leaf in leaves)
        for root, leaves in found.items()
    }
    above = {root: holds.get(oid, ()) for root, oid in roots.items()}
    return Leaves(held, frozenset(parents), frozenset(foreign), above)


def read_holds(conn: Connection, leaves: Sequence[int]) -> Mapping[int, tuple[Hold, ...]]:
    """Read which publications hold these leaves, and how; by oid."""
    whole = [_WHOLE.format(held=_ALL_TABLES)]
    if conn.info.server_version >= _SCHEMAS_SINCE:
        whole.append(_WHOLE.format(held=_SCHEMAS))
    sql = _LINE + "union all".join((_NAMED, *whole)) + "order by 1, 2, 3"
    with translated("cannot read what is published"):
        rows = conn.execute(sql.encode(), {"leaves": list(leaves)}).fetchall()
    found: dict[int, list[Hold]] = {}
    for publication, leaf, row, is_own, sends, generated, columns, filtered_by in rows:
        hold = Hold(publication, row, is_own, sends, generated, _names(columns), _names(filtered_by))
        found.setdefault(leaf, []).append(hold)
    return {leaf: tuple(holds) for leaf, holds in found.items()}


def _leaf(root: TableName, row: Sequence[Any]) -> Leaf:
    oid, schema, name, kind, persistence, identity, is_owned, columns, indexes = row
    columns, indexes = columns or {}, indexes or []
    return Leaf(
        root,
        oid,
        TableName(schema, name),
        kind,
        persistence,
        is_owned,
        columns,
        _present(IdentityKind(identity), tuple(columns), indexes),
        tuple(_choice(index) for index in indexes if index["is_full"]),
    )


def _present(kind: IdentityKind, columns: tuple[str, ...], indexes: Sequence[Mapping[str, Any]]) -> Identity:
    if kind is IdentityKind.FULL:
        return Identity(kind, columns)
    chosen = {IdentityKind.DEFAULT: "is_primary", IdentityKind.INDEX: "is_identity"}.get(kind)
    for index in indexes:
        if chosen and index[chosen]:
            return Identity(kind, tuple(index["columns"]), index["name"])
    return Identity(kind, None)


def _choice(index: Mapping[str, Any]) -> Identity:
    kind = IdentityKind.DEFAULT if index["is_primary"] else IdentityKind.INDEX
    return Identity(kind, tuple(index["columns"]), index["name"])


def _names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(columns)
