"""What writers do: random transactions over random tables.

Statements name rows by values out of a small pool, never by what a writer has read: a seed gives the same
statements however they interleave. Many do nothing, and some fail; that is part of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracle.tables import Column, Columns, Link, Table, quote
from oracle.values import KEYS, Value, key_value, literal, random_value

_LEVELS = ("read committed", "read committed", "repeatable read", "serializable", "serializable")


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements, savepoints among them, and how it ends."""

    level: str
    statements: tuple[str, ...]
    is_kept: bool


def random_rows(rng: random.Random, tables: Sequence[Table]) -> list[str]:
    """Give statements that fill the tables before anything follows them; some of them fail."""
    return [insert(rng, table) for _ in range(rng.randint(3, 6)) for table in tables]


def random_transaction(rng: random.Random, tables: Sequence[Table]) -> Transaction:
    """Make a transaction of one to six statements."""
    statements: list[str] = []
    saved = 0
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4, 6))):
        if rng.random() < 0.15:
            saved += 1
            statements.append(f"savepoint s{saved}")
        statements.append(_random_statement(rng, tables))
        if saved and rng.random() < 0.3:
            statements.append(rng.choice((f"rollback to s{saved}", f"release s{saved}")))
            saved -= statements[-1].startswith("release")
    return Transaction(rng.choice(_LEVELS), tuple(statements), rng.random() < 0.85)


def random_departure(rng: random.Random, tables: Sequence[Table]) -> Transaction:
    """Make a transaction by which rows of a table go, all or some, or refer to others than before."""
    table = rng.choice([table for table in tables if table.links] or tables)
    statement = rng.choice((_delete_by_link(rng, table), _move(rng, table), f"delete from {table.quoted}"))
    return Transaction("read committed", (statement,), is_kept=True)


def _random_statement(rng: random.Random, tables: Sequence[Table]) -> str:
    kinds: Sequence[tuple[float, Callable[[random.Random, Table], str]]] = (
        (45, insert),
        (20, _update),
        (16, _move),
        (8, _change_key),
        (8, _delete),
        (2, _delete_by_link),
        (4, _touch),
        (4, _there_and_back),
        (2, _upsert),
        (0.5, _truncate),
    )
    (kind,) = rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])
    return kind(rng, rng.choice(tables))


def insert(rng: random.Random, table: Table) -> str:
    """Insert one to four rows; most of the time those that are there already are passed over."""
    rows = [_random_row(rng, table) for _ in range(rng.choice((1, 1, 2, 4)))]
    return _insert(table, rows) + ("" if rng.random() < 0.15 else " on conflict do nothing")


def _insert(table: Table, rows: Sequence[Sequence[Value]]) -> str:
    names = ", ".join(quote(column.name) for column in table.columns)
    values = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows)
    return f"insert into {table.quoted} ({names}) values {values}"


def _random_row(rng: random.Random, table: Table) -> list[Value]:
    linking = table.linking
    return [_random_link(rng, c) if c.name in linking else _random_plain(rng, c) for c in table.columns]


def _random_link(rng: random.Random, column: Column) -> Value:
    if column.is_nullable and rng.random() < 0.12:
        return None
    return key_value(column.type, rng.randrange(KEYS))


def _random_plain(rng: random.Random, column: Column) -> Value:
    if column.is_nullable and rng.random() < 0.2:
        return None
    return random_value(rng, column.type)


def _update(rng: random.Random, table: Table) -> str:
    """Change columns that lead nowhere."""
    columns = rng.sample(table.plain, rng.randint(1, min(2, len(table.plain))))
    changes = ", ".join(f"{quote(c.name)} = {literal(_random_plain(rng, c))}" for c in columns)
    return f"update {table.quoted} set {changes}{_where(rng, table)}"


def _move(rng: random.Random, table: Table) -> str:
    """Let rows refer to others than before."""
    if not table.links:
        return _update(rng, table)
    link = rng.choice(table.links)
    return f"update {table.quoted} set {_assigned(rng, table, link.columns)}{_where(rng, table)}"


def _change_key(rng: random.Random, table: Table) -> str:
    """Give a row another key, or another value of what else is unique in it."""
    columns = table.unique if table.unique and rng.random() < 0.4 else table.key
    return f"update {table.quoted} set {_assigned(rng, table, columns)}{_by_key(rng, table)}"


def _assigned(rng: random.Random, table: Table, names: Columns) -> str:
    columns = [column for column in table.columns if column.name in names]
    return ", ".join(f"{quote(c.name)} = {literal(_random_link(rng, c))}" for c in columns)


def _delete(rng: random.Random, table: Table) -> str:
    return f"delete from {table.quoted}{_by_key(rng, table)}"


def _delete_by_link(rng: random.Random, table: Table) -> str:
    return f"delete from {table.quoted}{_where(rng, table)}"


def _touch(rng: random.Random, table: Table) -> str:
    """Write rows anew as they are."""
    name = quote(rng.choice(table.columns).name)
    return f"update {table.quoted} set {name} = {name}{_where(rng, table)}"


def _there_and_back(rng: random.Random, table: Table) -> str:
    """Change a row to something else and back, as two statements that the server takes as one."""
    where = _by_key(rng, table)
    flip = f"update {table.quoted} set flag = not flag{where}"
    return f"{flip}; {flip}"


def _upsert(rng: random.Random, table: Table) -> str:
    column = rng.choice(table.plain)
    row = _insert(table, [_random_row(rng, table)])
    key = ", ".join(map(quote, table.key))
    value = literal(_random_plain(rng, column))
    return f"{row} on conflict ({key}) do update set {quote(column.name)} = {value}"


def _truncate(rng: random.Random, table: Table) -> str:
    return f"truncate {table.quoted} cascade"


def _where(rng: random.Random, table: Table) -> str:
    """Choose rows: one by its key, those that refer to one, those between two, rarely all."""
    chance = rng.random()
    if chance < 0.55:
        return _by_key(rng, table)
    if chance < 0.95 and table.links:
        return _by_link(rng, table, rng.choice(table.links))
    return ""


def _by_key(rng: random.Random, table: Table) -> str:
    return _equal(rng, table, table.key)


def _by_link(rng: random.Random, table: Table, link: Link) -> str:
    return _equal(rng, table, link.columns)


def _equal(rng: random.Random, table: Table, names: Columns) -> str:
    wanted = [(name, key_value(table.type_of(name), rng.randrange(KEYS))) for name in names]
    if len(wanted) > 1 and rng.random() < 0.5:
        wanted = wanted[:1]  # a part of a key of several columns
    return " where " + " and ".join(f"{quote(name)} = {literal(value)}" for name, value in wanted)
