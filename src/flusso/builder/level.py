"""A table that fields are read from, as the statement names it."""

from __future__ import annotations

from dataclasses import dataclass

from flusso.catalog import Column, Table
from flusso.postgres.identifiers import quote
from flusso.schema.model import Columns

PARTITION = "\x00table"
"""What no statement holds otherwise: in FROM it stands for the partition whose rows are meant."""


@dataclass(frozen=True, slots=True)
class Level:
    """A table with its alias, and the key that other tables refer to."""

    table: Table
    alias: str
    key: Columns
    depth: int = 2

    @property
    def line(self) -> str:
        """Begin a line of the statement, indented to this level."""
        return "\n" + "  " * self.depth

    def column(self, name: str) -> tuple[Column, str]:
        """Give a column, and the expression that names it."""
        return self.table.columns[name], f"{self.alias}.{quote(name)}"


def without_index(name: str) -> str:
    """Name a column to order by, where only the first rows are taken, so that no index gives that order.

    For a limit the planner likes an index in its order, and goes through the rows of everybody until it has
    met enough of those that are asked for: through the whole table, where they are fewer than it believes.
    Without fresh statistics it believes that they are many. By the link it reads no more than they are.
    """
    return f"(select {name})"
