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


@dataclass(frozen=True, slots=True)
class Cell:
    """One change: a transaction, or several, all of them visible before the first is resolved."""

    row: str
    column: str
    sql: tuple[str, ...]
    touched: str
    """Ids with blanks between them, or `OWED`; in a world of several indexes each is `index:id`."""


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
    as_it_comes: str = "",
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
    )
