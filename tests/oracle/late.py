"""Writes that arrive late, as those of a task that everybody takes for dead."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flusso.document import Write, WriteResult
from flusso.schema.model import Json
from flusso.sinks.base import Capabilities, IndexTarget, Sink
from flusso.sinks.sqlite import SqliteSpec

_waiting: list[tuple[IndexTarget, Sequence[Write]]] = []


@dataclass(frozen=True, slots=True)
class LateSpec:
    """A sink in front of another one, which gets the writes only when they are let go."""

    inner: SqliteSpec

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def shape(self) -> Mapping[str, Json]:
        return self.inner.shape

    def open(self) -> Sink:
        return _LateSink(self.inner.open())  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _LateSink:
    inner: Sink

    def find_references(self, target: IndexTarget, tokens: Sequence[str]) -> Iterator[str]:
        return self.inner.find_references(target, tokens)

    def write(
        self, target: IndexTarget, writes: Sequence[Write], *, refresh: bool, until: float | None = None
    ) -> WriteResult:
        _waiting.append((target, writes))
        return WriteResult()

    def close(self) -> None:
        self.inner.close()


def let_go(sink: Sink, rng: random.Random) -> None:
    """Write all that waits, in any order."""
    rng.shuffle(_waiting)
    while _waiting:
        target, writes = _waiting.pop()
        sink.write(target, writes, refresh=False)


def drop() -> None:
    """Forget all that waits."""
    _waiting.clear()
