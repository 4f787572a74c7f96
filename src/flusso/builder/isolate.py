"""Build documents although some of them cannot be: the SELECT of a chunk fails as a whole for one bad row.

A chunk that fails for a value is cut in half again and again until each document that cannot be built stands
alone: so many bad ones cost about so many statements, and a good chunk costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flusso.builder.plan import IndexPlan
from flusso.builder.read import Built, read_documents
from flusso.document import Key, id_text
from flusso.errors import RowUnfit
from flusso.postgres.connect import Connection


@dataclass(frozen=True, slots=True)
class Unfit:
    """A document that cannot be built, and why; without any value of its rows."""

    id: str
    reason: str


def read_isolated(conn: Connection, plan: IndexPlan, keys: Sequence[Key]) -> tuple[list[Built], list[Unfit]]:
    """Build the documents of the keys, and name those that cannot be built."""
    try:
        return read_documents(conn, plan, keys), []
    except RowUnfit as error:
        if len(keys) == 1:
            return [], [Unfit(id_text(keys[0]), error.message.rpartition(": ")[2])]
    half = len(keys) // 2
    parts = [read_isolated(conn, plan, keys[:half]), read_isolated(conn, plan, keys[half:])]
    return [each for built, _ in parts for each in built], [each for _, unfit in parts for each in unfit]
