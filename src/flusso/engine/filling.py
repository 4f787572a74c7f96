"""One index being filled: which ranges are left, which are done, and what is remembered of that. Pure.

Tables of the root's tree are filled in the order of their oids, and each from its first block on, so that
what is remembered stays small. A table whose file is another one begins again: its rows lie elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from flusso.builder.extents import Extent
from flusso.builder.plan import IndexPlan
from flusso.builder.ranges import BlockRange, cut_ranges
from flusso.engine.outcome import Totals
from flusso.seeding import OPEN, LeafSeed, Seeding, summed_up

_FIRST_SHARE, _LEAST_SHARE, _LARGEST_SHARE = 1, 16, 128
"""Ranges that a turn is given: one for the first, so that there is something to show soon, unless one turn
may do for all; then twice as many as the last one managed in its time, so that few wait behind a slow one."""


@dataclass(slots=True)
class Filling:
    """Ranges of one index. Not thread-safe."""

    plan: IndexPlan
    range_mb: float
    seeding: Seeding
    """What is done, as it is remembered."""
    turns: int = 0
    under_way: int = 0
    """Turns that were taken and not ended yet."""
    _extents: dict[int, Extent] = field(default_factory=dict)
    _leaves: dict[int, LeafSeed] = field(default_factory=dict)
    _waiting: deque[BlockRange] = field(default_factory=deque)
    _share: int = _LEAST_SHARE

    def begin(self, extents: Iterable[Extent]) -> None:
        """Go on where it was left, with the tables as they are now."""
        known = {leaf.oid: leaf for leaf in self.seeding.leaves}
        for extent in sorted(extents, key=lambda extent: extent.oid):
            leaf = known.get(extent.oid)
            if extent.oid <= self.seeding.through or (leaf is not None and leaf.is_whole):
                leaf = LeafSeed(extent.oid, extent.filenode, ((0, OPEN),))
            elif leaf is None or leaf.filenode != extent.filenode:
                leaf = LeafSeed(extent.oid, extent.filenode)
            self._extents[extent.oid], self._leaves[extent.oid] = extent, leaf
            self._waiting.extend(self._cut(leaf))
        self._sum_up()

    def take(self, threads: int) -> list[BlockRange]:
        """Take ranges for a turn: few enough that the last ones keep all threads busy."""
        rest = len(self._waiting)
        is_first = not (self.turns or self.under_way)
        most = _FIRST_SHARE if is_first and rest > _LEAST_SHARE else self._share
        share = most if threads == 1 else min(most, max(1, rest // (2 * threads)))
        self.under_way += 1
        return [self._waiting.popleft() for _ in range(min(rest, share))]

    def end(self, turn: Sequence[BlockRange], done: int, totals: Totals, seconds: float) -> None:
        """Take note of what a turn did, so long after the start; what it did not begin waits again."""
        for block_range in turn[:done]:
            leaf = self._leaves.get(block_range.oid)
            if leaf is not None and leaf.filenode == block_range.filenode:
                end = OPEN if block_range.end_block is None else block_range.end_block
                self._leaves[leaf.oid] = leaf.with_done(block_range.start_block, end)
        self._waiting.extendleft(each for each in reversed(turn[done:]) if self._is_current(each))
        self._share = min(_LARGEST_SHARE, max(_LEAST_SHARE, done * 2))
        self.turns += 1
        self.under_way -= 1
        self.seeding = replace(
            self.seeding,
            documents=self.seeding.documents + totals.documents,
            bytes=self.seeding.bytes + totals.bytes,
            seconds=seconds,
        )
        self._sum_up()

    def restart(self, oid: int, extents: Iterable[Extent]) -> None:
        """Begin a table again whose rows were moved, at the first block of its new file, if it is there."""
        found = {extent.oid: extent for extent in extents}.get(oid)
        leaf = self._leaves.get(oid)
        if leaf is None or (found is not None and leaf.filenode == found.filenode):
            return  # another turn has told so before
        del self._leaves[oid], self._extents[oid]
        if found is not None:
            self._extents[oid], self._leaves[oid] = found, LeafSeed(oid, found.filenode)
        self._waiting = deque(each for each in self._waiting if each.oid != oid)
        if found is not None:
            self._waiting.extendleft(reversed(self._cut(self._leaves[oid])))
        self._sum_up()

    @property
    def has_ranges(self) -> bool:
        """Whether another turn could begin."""
        return bool(self._waiting)

    @property
    def is_whole(self) -> bool:
        """Whether every row is written, or a change in the WAL."""
        return all(leaf.is_whole for leaf in self._leaves.values())

    @property
    def is_over(self) -> bool:
        """Whether it is whole and nothing is being written any more: a turn that reads a file which was
        replaced writes what it has read, though it does not count."""
        return self.is_whole and not self.under_way

    def _is_current(self, block_range: BlockRange) -> bool:
        leaf = self._leaves.get(block_range.oid)
        return leaf is not None and leaf.filenode == block_range.filenode

    def _cut(self, leaf: LeafSeed) -> list[BlockRange]:
        return [
            each
            for start, end in leaf.missing()
            for each in cut_ranges(
                self.plan, self._extents[leaf.oid], self.range_mb, start, None if end == OPEN else end
            )
        ]

    def _sum_up(self) -> None:
        sizes = {oid: max(1, extent.blocks) for oid, extent in self._extents.items()}
        done = sum(leaf.count_done(sizes[oid]) for oid, leaf in self._leaves.items())
        counted = replace(self.seeding, done=done, blocks=sum(sizes.values()))
        self.seeding = summed_up(self._leaves.values(), counted)
