"""How far the seed of an index has come: what its sink remembers, for whoever goes on with it. Pure.

Tables of the root's tree are read by blocks, and a block means something only within one file: VACUUM FULL,
CLUSTER and an ALTER that rewrites give a table another one, with its rows elsewhere. So what is written of a
table counts for its file alone; once the whole table is written, it no longer matters what becomes of the
file. `engine/seed.py` fills; docs/internals/seeding.md says why nothing is missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

OPEN = 1 << 32
"""The end of what goes to wherever a table ends: above the number of any block."""

Span = tuple[int, int]
"""Blocks from one to another, the second excluded."""


@dataclass(frozen=True, slots=True)
class LeafSeed:
    """What is written of one table that holds rows of the root: itself, or a partition."""

    oid: int
    filenode: int
    """The file in which blocks are counted."""
    done: tuple[Span, ...] = ()
    """In order, and none touches the next."""

    def with_done(self, start: int, end: int) -> LeafSeed:
        """Add blocks that are written."""
        joined: list[Span] = []
        for each in sorted((*self.done, (start, end))):
            if joined and each[0] <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], each[1]))
            else:
                joined.append(each)
        return replace(self, done=tuple(joined))

    def missing(self) -> list[Span]:
        """List the blocks that are not written yet."""
        starts = [0, *(end for _, end in self.done)]
        ends = [*(start for start, _ in self.done), OPEN]
        return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]

    @property
    def is_whole(self) -> bool:
        """Whether every block is written, and those that came since are in the WAL."""
        return self.done == ((0, OPEN),)

    def count_done(self, blocks: int) -> int:
        """Count the blocks that are written, of so many that the table has."""
        return sum(max(0, min(end, blocks) - start) for start, end in self.done)


@dataclass(frozen=True, slots=True)
class Seeding:
    """The seed of one generation, as it was when something was written last.

    Small, whatever the number of partitions: they are filled in the order of their oids, so those that are
    whole are the first ones, and few are in work.
    """

    through: int = 0
    """Every table up to this oid is whole."""
    leaves: tuple[LeafSeed, ...] = ()
    """Those after it of which something is written."""
    done: int = 0
    """Blocks that are written."""
    blocks: int = 0
    """Blocks that there were to write."""
    documents: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """How long it took so far, over all runs."""

    @property
    def place(self) -> tuple[int, tuple[LeafSeed, ...]]:
        """What is written; sinks with the same go on together."""
        return self.through, self.leaves

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return self.done / self.blocks if self.blocks else 0.0

    @property
    def documents_per_s(self) -> float:
        """How fast it went so far."""
        return self.documents / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        """How fast it went so far."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def left_s(self) -> float | None:
        """How long the rest will take if it goes on as before; None when nothing is known of that, as of the
        last look-up after all blocks."""
        is_known = 0 < self.done < self.blocks
        return self.seconds * (self.blocks - self.done) / self.done if is_known else None


def summed_up(leaves: Iterable[LeafSeed], so_far: Seeding) -> Seeding:
    """Write down what is done of all tables, in the order of their oids, as compactly as that can be."""
    ordered = sorted(leaves, key=lambda leaf: leaf.oid)
    through = so_far.through
    for leaf in ordered:
        if not leaf.is_whole:
            break
        through = leaf.oid
    begun = tuple(leaf for leaf in ordered if leaf.oid > through and leaf.done)
    return replace(so_far, through=through, leaves=begun)
