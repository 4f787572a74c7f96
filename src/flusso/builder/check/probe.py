"""Let the server itself judge what only it can: conditions, raw SQL, whole statements.

Every condition is planned alone over its own table, so that a name of another table means nothing there and
the message belongs to that condition. Whether a raw condition is immutable is asked by making it the
predicate of an index on an empty temporary table, in a transaction that is rolled back: the server refuses
subqueries and whatever depends on the time or on settings, for the reason that we would.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import errors as pg

from flusso.builder.check.facts import Facts
from flusso.builder.check.levels import Level
from flusso.builder.check.spot import Spot
from flusso.builder.conditions import Operands, select_rows
from flusso.builder.plan import IndexPlan
from flusso.catalog import Table
from flusso.diagnostic import Code, Diagnostic
from flusso.postgres.connect import Connection, translated
from flusso.postgres.identifiers import quote, quote_table
from flusso.schema.model import ColumnFilter, Filter, RawFilter

_RAW_HINT = "use the table's own columns and functions that always give the same for the same row"
_TIME_WORDS = ("now", "today", "tomorrow", "yesterday")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_PREDICATE = """
select pg_get_expr(indpred, indrelid)
from pg_index
where indrelid = %s::regclass
order by indexrelid desc
limit 1
"""

Placed = tuple[str, RawFilter]


def probe_filters(conn: Connection, level: Level, facts: Facts) -> Iterator[Diagnostic]:
    """Find the conditions of a level that the server does not take, and the raw ones that could go stale."""
    yield from _probe_rows(conn, level.spot, level.table, level.filters, facts)
    if level.junction is not None:
        yield from _probe_rows(conn, level.spot, level.junction, level.junction_filters, facts)


def _probe_rows(
    conn: Connection, spot: Spot, table: Table, filters: Sequence[tuple[str, Filter]], facts: Facts
) -> Iterator[Diagnostic]:
    sound: list[Placed] = []
    for key, item in filters:
        if isinstance(item, ColumnFilter) and item.column not in table.columns:
            continue
        error = _try_condition(conn, table, item)
        if error is not None:
            at = "raw" if isinstance(item, RawFilter) else _blame(error)
            message = f"the filter does not work: {_primary(error)}"
            yield spot.says(Code.UNFIT_FILTER, message, key=f"{key}.{at}")
        elif isinstance(item, RawFilter):
            sound.append((f"{key}.raw", item))
    if sound:
        yield from _probe_immutable(conn, spot, table, sound, facts)


def probe_statement(conn: Connection, plan: IndexPlan) -> Iterator[Diagnostic]:
    """Plan the SELECT of an index; a failure here is one that nothing else has explained."""
    values = ["{}"] * len(plan.key) + list(plan.by_keys.operands)
    error = _explain(conn, plan.by_keys.sql, values)
    if error is not None:
        message = f"the SELECT of its documents cannot be planned: {_primary(error)}"
        yield Diagnostic(Code.UNFIT_STATEMENT, message, index=plan.index)


def _blame(error: psycopg.Error) -> str:
    return "op" if isinstance(error, pg.UndefinedFunction) else "value"


def _try_condition(conn: Connection, table: Table, item: Filter) -> psycopg.Error | None:
    operands = Operands(0)
    source, where = select_rows(table, "t", (item,), None, operands)
    condition = f"\nwhere {' and '.join(where)}" if where else ""
    return _explain(conn, f"select\nfrom {source}{condition}", operands.values)


def _explain(conn: Connection, sql: str, values: Sequence[str | None]) -> psycopg.Error | None:
    """Give what the server has against a statement; lost connections are not about the statement."""
    with translated("cannot plan a statement"):
        try:
            psycopg.RawCursor(conn).execute(f"explain {sql}".encode(), values)
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
            return error
    return None


def _probe_immutable(
    conn: Connection, spot: Spot, table: Table, filters: Sequence[Placed], facts: Facts
) -> Iterator[Diagnostic]:
    findings: list[Diagnostic] = []
    own = quote(table.name.name)
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(f"create temporary table {own} (like {quote_table(table.name)})".encode())
            for key, item in filters:
                findings += _judge(conn, spot, f"pg_temp.{own}", key, item)
    except (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction) as error:
        hint = f"grant temporary on database {quote(facts.database)} to {quote(facts.role)};"
        message = f"whether the filter is immutable could not be proved: {_primary(error)}"
        findings = [spot.says(Code.UNPROVEN_FILTER, message, key=key, hint=hint) for key, _ in filters]
    yield from findings


def _judge(conn: Connection, spot: Spot, table: str, key: str, item: RawFilter) -> Iterator[Diagnostic]:
    """Let one condition be an index predicate; the line break ends a comment that it may end with."""
    try:
        with conn.transaction():
            conn.execute(f"create index on {table} ((1)) where ({item.sql}\n)".encode())
            row = conn.execute(_PREDICATE, (table,)).fetchone()
    except (pg.InvalidObjectDefinition, pg.FeatureNotSupported) as error:
        what = "a subquery" if "subquery" in _primary(error) else "something that is not immutable"
        message = f"the filter uses {what}: rows would come and go without a change of their own"
        yield spot.says(Code.MUTABLE_FILTER, message, key=key, hint=_RAW_HINT)
        return
    except psycopg.Error as error:
        message = f"whether the filter is immutable could not be proved: {_primary(error)}"
        yield spot.says(Code.UNPROVEN_FILTER, message, key=key, hint=_RAW_HINT)
        return
    if row is not None and (word := _read_as_time(item.sql, str(row[0]))) is not None:
        message = f"'{word}' is a time that moves: rows would come and go without a change of their own"
        yield spot.says(Code.MUTABLE_FILTER, message, key=key, hint=_RAW_HINT)


def _read_as_time(sql: str, predicate: str) -> str | None:
    """Find a word like 'today' that was written as a literal and read as a date.

    A literal is read once, so the server takes it for a constant; a text that means itself is still there
    when the predicate is written out again.
    """
    written, kept = _COMMENT.sub("", sql).lower(), predicate.lower()
    return next((word for word in _TIME_WORDS if written.count(word) > kept.count(word)), None)


def _primary(error: psycopg.Error) -> str:
    return error.diag.message_primary or type(error).__name__
