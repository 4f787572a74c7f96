"""Choose rows of a root table at random, for whoever looks at a few documents only.

Blocks are chosen first and then rows in them, so that a large table is not read for a small sample. Rows in
sparse blocks are a little more likely than others, and of a table that is nearly all empty blocks fewer may
be found than were asked for. The filters are not asked: a row that they leave out must have no document,
which is as good to look at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice

import psycopg

from flusso.builder.extents import Extent, read_extents
from flusso.builder.failure import building
from flusso.builder.plan import IndexPlan
from flusso.builder.statement import in_range
from flusso.document import Key
from flusso.postgres.connect import Connection

_MOST_BLOCKS, _BLOCKS_OF_A_ROW = 1000, 50
"""How many blocks are looked into at most: so many, and so many more for each row."""


def choose_keys(
    conn: Connection,
    plan: IndexPlan,
    count: int,
    chance: random.Random,
    hear: Callable[[int, int], None] = lambda looked, most: None,
) -> list[Key]:
    """Give the keys of so many rows, or of all if there are fewer. No more are in memory at any time.

    `hear` is told after each block how many were looked into, and how many may be.
    """
    extents = read_extents(conn, plan.root)
    most = min(_MOST_BLOCKS + count * _BLOCKS_OF_A_ROW, sum(extent.blocks for extent in extents))
    found: list[Key] = []
    met = 0
    for looked, (extent, block) in enumerate(islice(_shuffled(extents, chance), most), 1):
        for key in _keys_of(conn, plan, extent, block):
            met += 1
            if len(found) < count:
                found.append(key)
            elif (place := chance.randrange(met)) < count:  # all that were met are as likely to be left
                found[place] = key
        hear(looked, most)
        # From as many blocks as there are rows to choose, so that neighbours are not all there is.
        if len(found) >= count and looked >= count:
            break
    return found


def _shuffled(extents: list[Extent], chance: random.Random) -> Iterator[tuple[Extent, int]]:
    """Go through all blocks of all tables in random order, each once."""
    total = sum(extent.blocks for extent in extents)
    seen: set[int] = set()
    while len(seen) < total:
        number = chance.randrange(total)
        if number not in seen:
            seen.add(number)
            yield _place(extents, number)


def _place(extents: list[Extent], number: int) -> tuple[Extent, int]:
    for extent in extents:
        if number < extent.blocks:
            return extent, number
        number -= extent.blocks
    raise ValueError("there are not so many blocks")


def _keys_of(conn: Connection, plan: IndexPlan, extent: Extent, block: int) -> list[Key]:
    sql = in_range(plan.keys_by_range, extent.table, f"({block},0)", f"({block + 1},0)")
    with building(f"cannot read rows of {extent.table}"):
        return psycopg.RawCursor(conn).execute(sql.encode()).fetchall()
