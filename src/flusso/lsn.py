"""Positions in the write-ahead log, and the document versions made from them."""

from __future__ import annotations

from flusso.errors import SourceRefused

_MAX_TIMELINE = 1023
_LSN_BITS = 53


class Lsn(int):
    """A byte position in the write-ahead log, written as Postgres does: `16/B374D848`."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read Postgres's own notation."""
        high, slash, low = text.partition("/")
        if not slash:
            raise ValueError(f"not a WAL position: {text!r}")
        return cls((int(high, 16) << 32) | int(low, 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        return f"Lsn({self})"


class Version(int):
    """A document version: `timeline << 53 | lsn`, so that a later writer always has the higher one."""

    __slots__ = ()

    @classmethod
    def of(cls, timeline: int, lsn: Lsn) -> Version:
        """Join a timeline and a position emitted on it."""
        if not 0 < timeline <= _MAX_TIMELINE:
            raise SourceRefused(
                f"timeline {timeline} is above {_MAX_TIMELINE}",
                hint="dump and restore the database into a new cluster, then reindex",
            )
        if lsn >> _LSN_BITS:
            raise SourceRefused(f"WAL position {lsn} does not fit a document version")
        return cls((timeline << _LSN_BITS) | lsn)

    @property
    def timeline(self) -> int:
        """The timeline that the position was emitted on."""
        return self >> _LSN_BITS

    @property
    def lsn(self) -> Lsn:
        """The emitted position."""
        return Lsn(self & ((1 << _LSN_BITS) - 1))

    def __str__(self) -> str:
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"Version({self.timeline}@{self.lsn})"
