"""The publication: which tables' changes the server sends.

Created or extended if flusso may manage it, checked in any case. The rule is to do no harm: a table
whose UPDATEs and DELETEs Postgres would then refuse is never published, and publishing it is never
advised; the error says what is missing first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors as pg

from flusso.catalog import TableName
from flusso.diagnostic import Code, Diagnostic
from flusso.errors import PublicationError, SourceUnavailable
from flusso.postgres.connect import Connection, translated
from flusso.postgres.identifiers import quote, quote_table

_LOCK_TIMEOUT = "5s"
_OPERATIONS = ("insert", "update", "delete", "truncate")
_GENERATED_IN_IDENTITY_SINCE = 180000

_SETTINGS = """
select pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot,
       coalesce(to_jsonb(publication) ->> 'pubgencols', 'n')
from pg_publication as publication
where pubname = %s
"""

_RIGHTS = """
select current_user::text,
       has_database_privilege(current_database(), 'create'),
       (select pg_has_role(pubowner, 'usage') from pg_publication where pubname = %s),
       array(
           select n.nspname || '.' || c.relname
           from unnest(%s::text[], %s::text[]) as wanted(schema, name)
           join pg_namespace as n on n.nspname = wanted.schema
           join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.name
           where not pg_has_role(c.relowner, 'usage')
           order by 1
       )
"""

# A partitioned table is published through its leaves, so these are what is looked at.
_LEAVES = """
select leaf.oid, leaf_schema.nspname, leaf.relname, leaf.relkind::text, leaf.relpersistence::text,
       leaf.relreplident::text, identity.indrelid is not null,
       exists (
           select from pg_attribute as gen
           where gen.attrelid = leaf.oid
             and gen.attnum > 0
             and not gen.attisdropped
             and gen.attgenerated <> ''
             and (leaf.relreplident = 'f' or gen.attnum = any(identity.indkey::int2[]))
             and not (gen.attgenerated = 's' and %(generated)s = 's')
       ),
       published.attnames, published.rowfilter
from pg_class as root
join pg_namespace as root_schema on root_schema.oid = root.relnamespace
cross join lateral (
    select root.oid as relid where root.relkind <> 'p'
    union all
    select tree.relid::oid from pg_partition_tree(root.oid) as tree where root.relkind = 'p' and tree.isleaf
) as leaves
join pg_class as leaf on leaf.oid = leaves.relid
join pg_namespace as leaf_schema on leaf_schema.oid = leaf.relnamespace
left join pg_index as identity
    on identity.indrelid = leaf.oid
   and identity.indisvalid
   and identity.indimmediate
   and case leaf.relreplident when 'd' then identity.indisprimary when 'i' then identity.indisreplident end
left join lateral (
    select array(select jsonb_array_elements_text(to_jsonb(shown) -> 'attnames')) as attnames,
           to_jsonb(shown) ->> 'rowfilter' as rowfilter
    from pg_publication_tables as shown
    where shown.pubname = %(publication)s
      and shown.schemaname = leaf_schema.nspname
      and shown.tablename = leaf.relname
) as published on true
where root_schema.nspname = %(schema)s
  and root.relname = %(table)s
"""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A table that holds rows, as far as publishing it goes."""

    oid: int
    name: TableName
    kind: str
    persistence: str
    identity: str
    has_identity_index: bool
    has_unpublished_identity: bool
    columns: tuple[str, ...] | None
    """Published columns; None when it is not published, empty when the server cannot say (14)."""
    row_filter: str | None


def ensure_publication(
    conn: Connection,
    name: str,
    tables: Sequence[TableName],
    *,
    manage: bool,
    columns: Mapping[TableName, Sequence[str]] | None = None,
) -> bool:
    """Make the publication cover the tables; True if it was created or extended.

    `columns` names what must be published of a table. The connection is in autocommit.
    """
    survey = _survey(conn, name, tables, columns or {})
    if survey.errors:
        raise survey.errors[0]
    if survey.exists and not survey.missing:
        return False
    _change(conn, name, survey.missing, exists=survey.exists, manage=manage)
    return True


def inspect_publication(
    conn: Connection,
    name: str,
    tables: Sequence[TableName],
    *,
    manage: bool,
    columns: Mapping[TableName, Sequence[str]] | None = None,
) -> list[Diagnostic]:
    """Find all that `ensure_publication` would stumble over, and change nothing."""
    survey = _survey(conn, name, tables, columns or {})
    findings = [Diagnostic(Code.UNFIT_PUBLICATION, one.message, one.hint) for one in survey.errors]
    if survey.exists and not survey.missing:
        return findings
    sql = _change_sql(name, survey.missing, exists=survey.exists)
    if not manage:
        findings.append(Diagnostic(Code.UNFIT_PUBLICATION, _lack(name, survey), sql))
    elif (why := _barred(conn, name, survey)) is not None:
        findings.append(Diagnostic(Code.UNFIT_PUBLICATION, why, f"as the owner: {sql}"))
    return findings


@dataclass(frozen=True, slots=True)
class _Survey:
    """How a publication stands to the tables it should cover."""

    exists: bool
    missing: tuple[TableName, ...]
    errors: tuple[PublicationError, ...]


def _survey(
    conn: Connection, name: str, tables: Sequence[TableName], columns: Mapping[TableName, Sequence[str]]
) -> _Survey:
    try:
        generated = _check_settings(conn, name)
    except PublicationError as error:
        return _Survey(True, (), (error,))
    missing: list[TableName] = []
    errors: list[PublicationError] = []
    for table in sorted(set(tables)):
        try:
            leaves = _read_leaves(conn, name, table, generated or "n")
            for leaf in leaves:
                _check_identity(conn, leaf)
                if leaf.columns is not None:
                    _check_coverage(name, leaf, columns.get(table, ()))
        except PublicationError as error:
            errors.append(error)
            continue
        if any(leaf.columns is None for leaf in leaves) or (generated is None and not leaves):
            missing.append(table)
    return _Survey(generated is not None, tuple(missing), tuple(errors))


def check_exists(conn: Connection, name: str) -> None:
    """Refuse to follow a publication that is not there: Postgres 18 would only warn and send nothing."""
    if _check_settings(conn, name) is None:
        raise PublicationError(f'publication "{name}" does not exist', hint="create it before the slot")


def _check_settings(conn: Connection, name: str) -> str | None:
    """Give how generated columns are published, or None when there is no such publication."""
    with translated(f'cannot read publication "{name}"'):
        row = conn.execute(_SETTINGS, (name,)).fetchone()
    if row is None:
        return None
    *sent, via_root, generated = row
    lacking = [operation for operation, is_sent in zip(_OPERATIONS, sent, strict=True) if not is_sent]
    if lacking:
        raise PublicationError(
            f'publication "{name}" does not publish {", ".join(lacking)}',
            hint=f"alter publication {quote(name)} set (publish = '{', '.join(_OPERATIONS)}')",
        )
    if via_root:
        raise PublicationError(
            f'publication "{name}" publishes partitions as their root, which hides a truncated partition',
            hint=f"alter publication {quote(name)} set (publish_via_partition_root = false)",
        )
    return str(generated)


def _read_leaves(conn: Connection, name: str, table: TableName, generated: str) -> list[_Leaf]:
    values = {
        "publication": name,
        "schema": table.schema,
        "table": table.name,
        "generated": generated,
    }
    with translated(f"cannot read how {table} is published"):
        rows = conn.execute(_LEAVES, values).fetchall()
        if not rows and conn.execute("select to_regclass(%s)", (quote_table(table),)).fetchone() == (None,):
            raise PublicationError(f"table {table} does not exist", hint="name it as the database does")
    return [_leaf(row) for row in rows]


def _leaf(row: tuple[Any, ...]) -> _Leaf:
    oid, schema, relation, kind, persistence, identity, has_index, is_hidden, columns, row_filter = row
    return _Leaf(
        oid,
        TableName(schema, relation),
        kind,
        persistence,
        identity,
        has_index,
        is_hidden,
        None if columns is None else tuple(columns),
        row_filter,
    )


def _check_identity(conn: Connection, leaf: _Leaf) -> None:
    """Prove that UPDATE and DELETE stay legal once the table is published."""
    if leaf.kind != "r":
        raise PublicationError(f"{leaf.name} is not an ordinary table and cannot be published")
    if leaf.persistence != "p":
        raise PublicationError(
            f"table {leaf.name} is unlogged or temporary, so the WAL does not have its rows",
            hint=f"alter table {quote_table(leaf.name)} set logged",
        )
    if leaf.identity != "f" and not leaf.has_identity_index:
        raise PublicationError(
            f"table {leaf.name} has no usable replica identity: "
            "published, its updates and deletes would fail",
            hint=f"add a primary key, or alter table {quote_table(leaf.name)} replica identity full",
        )
    if leaf.has_unpublished_identity and conn.info.server_version >= _GENERATED_IN_IDENTITY_SINCE:
        raise PublicationError(
            f"the replica identity of table {leaf.name} holds a generated column that is not published: "
            "published, its updates and deletes would fail",
            hint="choose an index without generated columns as its replica identity",
        )


def _check_coverage(name: str, leaf: _Leaf, needed: Sequence[str]) -> None:
    if leaf.row_filter is not None:
        raise PublicationError(
            f'publication "{name}" filters the rows of {leaf.name}, so changes would be missed',
            hint=f"alter publication {quote(name)} drop table {quote_table(leaf.name)}, "
            "then add it without a filter",
        )
    lacking = [column for column in needed if leaf.columns and column not in leaf.columns]
    if lacking:
        raise PublicationError(
            f'publication "{name}" does not publish {", ".join(lacking)} of {leaf.name}',
            hint=f"alter publication {quote(name)} drop table {quote_table(leaf.name)}, "
            "then add it with these columns or without a list",
        )


def _change_sql(name: str, missing: Sequence[TableName], *, exists: bool) -> str:
    listed = ", ".join(quote_table(table) for table in missing)
    if exists:
        return f"alter publication {quote(name)} add table {listed}"
    target = f" for table {listed}" if missing else ""
    return f"create publication {quote(name)}{target} with (publish_via_partition_root = false)"


def _lack(name: str, survey: _Survey) -> str:
    what = f"does not cover {', '.join(map(str, survey.missing))}" if survey.exists else "does not exist"
    return f'publication "{name}" {what}'


def _barred(conn: Connection, name: str, survey: _Survey) -> str | None:
    """Say why the role may not create or extend the publication, or None when it may."""
    with translated("cannot read who owns what is to be published"):
        schemas, names = [one.schema for one in survey.missing], [one.name for one in survey.missing]
        row = conn.execute(_RIGHTS, (name, schemas, names)).fetchone()
    assert row is not None
    role, may_create, owns_publication, foreign = row
    needs = [f"own {', '.join(foreign)}"] if foreign else []
    if survey.exists and not owns_publication:
        needs.append("own the publication")
    if not survey.exists and not may_create:
        needs.append("have CREATE on the database")
    verb = "extend" if survey.exists else "create"
    return (
        f'role "{role}" may not {verb} publication "{name}": it must {" and ".join(needs)}' if needs else None
    )


def _change(conn: Connection, name: str, missing: Sequence[TableName], *, exists: bool, manage: bool) -> None:
    sql = _change_sql(name, missing, exists=exists)
    if not manage:
        raise PublicationError(_lack(name, _Survey(exists, tuple(missing), ())), hint=sql)
    try:
        with conn.transaction():
            conn.execute(f"set local lock_timeout = '{_LOCK_TIMEOUT}'")
            conn.execute(sql.encode())
    except pg.LockNotAvailable as error:
        raise SourceUnavailable(
            f'could not lock a table within {_LOCK_TIMEOUT} to change publication "{name}"',
            hint="end the transaction that holds it, or try again",
        ) from error
    except psycopg.Error as error:
        detail = error.diag.message_primary or "no detail"
        raise PublicationError(
            f'cannot change publication "{name}": {detail}', hint=f"as the owner: {sql}"
        ) from error
