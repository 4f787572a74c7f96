"""Worlds and cells of the resolution matrix: which change must reach which documents.

A world is a few tables, the indexes over them, and the rows that every cell begins with. A cell is one change
and the ids that it must lead to: exactly those, whatever happens to change in them. `@` stands before every
name of a world, so that all worlds live in one database and one stream follows them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

OWED = "owed"
"""In place of ids: the change names no document, its index is owed."""
FULL, INDEX, DEFAULT = "full", "using index", "default"
IDENTITIES = (FULL, INDEX, DEFAULT)


@dataclass(frozen=True, slots=True)
class Cell:
    """One change: a transaction, or several, all of them visible before the first is resolved."""

    row: str
    column: str
    sql: tuple[str, ...]
    touched: str
    """Ids with blanks between them, or `OWED`; in a world of several indexes each is `index:id`."""

    def __str__(self) -> str:
        return f"{self.row}, {self.column}"


@dataclass(frozen=True, slots=True)
class World:
    """Tables, indexes over them, first rows, and what is done to them."""

    name: str
    tables: str
    schemas: dict[str, str]
    rows: str
    cells: tuple[Cell, ...]
    names: tuple[str, ...]
    """Its tables."""
    as_it_comes: str = ""
    """What is altered after all identities were set to the default one, where they are."""
    identity: str = FULL
    """How its tables show their links."""

    def __str__(self) -> str:
        return f"{self.name}, identity {self.identity}"

    @property
    def reset(self) -> str:
        """Bring back the first rows."""
        return "; ".join([*(f"delete from {name}" for name in self.names), self.rows])


Columns = dict[str, tuple[str | tuple[str, ...], str]]
"""The cells of one row of the matrix: what is done, and which ids it touches."""


def world(
    name: str,
    tables: str,
    schemas: dict[str, str],
    rows: str,
    cells: Mapping[str, Columns],
    *,
    as_it_comes: str = "",
    identity: str = FULL,
) -> World:
    """Make a world; its tables are those that its DDL creates."""
    return World(
        name,
        tables,
        {f"@{index}": schema for index, schema in schemas.items()},
        rows,
        tuple(
            Cell(row, column, (sql,) if isinstance(sql, str) else sql, touched)
            for row, columns in cells.items()
            for column, (sql, touched) in columns.items()
        ),
        tuple(dict.fromkeys(re.findall(r"create table (@\w+)(?! partition of)\b", tables))),
        as_it_comes,
        identity,
    )


def table(name: str, columns: str, key: str, links: str = "", *, identity: str) -> str:
    """Make a table whose identity shows its key and its links: as a whole, by an index, or by its key.

    As Postgres comes, that is exact where the key contains the links; so there it does, and what others
    refer to is unique beside it.
    """
    link = [each for each in links.split(", ") if each and each not in key.split(", ")]
    shown = ", ".join([*link, key])
    if identity == DEFAULT and link:
        return f"create table {name} ({columns}, primary key ({shown}), unique ({key}));"
    made = f"create table {name} ({columns}, primary key ({key}));"
    return "\n".join([made, *identify(name, shown, identity)])


def identify(name: str, shown: str, identity: str) -> list[str]:
    """Let a table, or a partition, show columns by its replica identity."""
    match identity:
        case "full":
            return [f"alter table {name} replica identity full;"]
        case "using index":
            columns = ", ".join(f"alter {each} set not null" for each in shown.split(", "))
            return [
                f"alter table {name} {columns};",
                f"create unique index {name}_shown on {name} ({shown});",
                f"alter table {name} replica identity using index {name}_shown;",
            ]
        case _:
            return []


def rows(first: str) -> str:
    """Insert rows one by one, because some name more columns than others: `table: (…), (…)`, line by line."""
    found = []
    for line in filter(None, map(str.strip, first.splitlines())):
        name, _, values = line.partition(": ")
        found += [f"insert into {name} values ({row.strip('()')});" for row in values.split("), (")]
    return "\n".join(found)
