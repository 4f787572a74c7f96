"""The sink that prints: one JSON line for each write, so that `flusso run --once | jq` works.

It lives beside the driver (a print in a task ends in a log file), keeps nothing and compares no versions:
whoever reads the lines has the version of each. The document passes through as it came; only `pretty`
lays it out anew, and then too every digit and escape stays.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import BinaryIO

from flusso.document import Refusal, Write, WriteResult
from flusso.errors import OutputClosed, SinkRefused, SinkUnavailable
from flusso.schema.model import IndexSchema, Json
from flusso.sinks.base import (
    Capabilities,
    Held,
    Hit,
    IndexState,
    IndexTarget,
    Page,
    Request,
    Sink,
    States,
    Stored,
)
from flusso.sinks.tokens import tokens

_one_at_a_time = threading.Lock()
"""Seed and stream each have a sink of their own over the one standard output of the process."""


@dataclass(frozen=True, slots=True)
class StdoutSpec:
    """Print every write to standard output."""

    name: str
    pretty: bool = False

    @property
    def capabilities(self) -> Capabilities:
        """No memory, no search, driver only."""
        return Capabilities(keeps_state=False, is_driver_side=True, can_search=False, keeps_references=False)

    @property
    def shape(self) -> Mapping[str, Json]:
        """Nothing here changes a document."""
        return {}

    def open(self) -> Sink:
        """Take standard output as it is now."""
        return StdoutSink(self, sys.stdout.buffer)


class StdoutSink:
    """Writes lines and forgets them."""

    def __init__(self, spec: StdoutSpec, out: BinaryIO) -> None:
        self._spec = spec
        self._out = out

    def ensure(self, target: IndexTarget, schema: IndexSchema) -> None:
        """Nothing to make."""

    def write(
        self, target: IndexTarget, writes: Sequence[Write], *, refresh: bool, until: float | None = None
    ) -> WriteResult:
        """Print the writes and flush; a version is printed, never compared."""
        lines = (line_of(target.index, write) for write in writes)
        if self._spec.pretty:
            lines = (indented(line.decode()).encode() + b"\n" for line in lines)
        try:
            printed = b"".join(lines)
            with _one_at_a_time:
                _write_all(self._out, printed)
                self._out.flush()
        except (BrokenPipeError, ValueError) as error:
            _silence(self._out)
            raise OutputClosed("stdout is closed") from error
        except OSError as error:
            raise SinkUnavailable(f"stdout cannot be written: {error.strerror}") from error
        removed = sum(write.body is None for write in writes)
        return WriteResult(written=len(writes) - removed, removed=removed)

    def refresh(self, target: IndexTarget) -> None:
        """Every write was flushed already."""

    def uuids(self, target: IndexTarget) -> tuple[str, ...] | None:
        """What is printed is there."""
        return ()

    def is_read(self, target: IndexTarget) -> bool:
        """What is printed is read."""
        return True

    def purge(self, target: IndexTarget) -> None:
        """Nothing is kept."""

    def publish(self, target: IndexTarget) -> None:
        """There is one generation: what is printed."""

    def claim(self, target: IndexTarget) -> None:
        """Whoever prints, prints."""

    def held(self) -> Sequence[Held]:
        """Nothing is kept."""
        return ()

    def drop(self, target: IndexTarget) -> None:
        """Nothing is kept."""

    def read(self, target: IndexTarget, ids: Sequence[str]) -> Mapping[str, Stored]:
        """Nothing is kept."""
        return {}

    def mended(self, target: IndexTarget, body: bytes) -> bytes | None:
        """Nothing is kept."""
        return None

    def ids(self, target: IndexTarget) -> Iterator[str]:
        """Nothing is kept."""
        return iter(())

    def page(self, target: IndexTarget, after: str, limit: int) -> Page:
        """Nothing is kept."""
        return Page((), "")

    def find_references(self, target: IndexTarget, tokens: Sequence[str]) -> Iterator[str]:
        """Nothing is kept."""
        return iter(())

    def remember_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Nothing is kept."""

    def remembered_tokens(self, target: IndexTarget, limit: int) -> Sequence[str]:
        """Nothing is kept."""
        return ()

    def count_tokens(self, target: IndexTarget) -> int:
        """Nothing is kept."""
        return 0

    def forget_tokens(self, target: IndexTarget, tokens: Sequence[str]) -> None:
        """Nothing is kept."""

    def count(self, target: IndexTarget) -> int:
        """Nothing is kept."""
        return 0

    def load_states(self) -> States:
        """Nothing is kept: every start seeds anew."""
        return States()

    def save_state(self, state: IndexState) -> None:
        """Nothing is kept."""

    def ask(self, index: str, request: Request, generation: int = 0) -> None:
        """Nothing is kept: every start fills anew."""

    def answer(self, index: str) -> None:
        """Nothing is kept."""

    def quarantine(self, refusals: Sequence[Refusal]) -> None:
        """Nothing is kept, and this sink refuses no document."""

    def release(self, index: str, ids: Sequence[str], version: int) -> int:
        """Nothing is kept."""
        return 0

    def quarantined(self, index: str) -> Sequence[Refusal]:
        """Nothing is kept."""
        return ()

    def search(
        self, index: str, query: str, limit: int, where: Sequence[tuple[str, str]] = ()
    ) -> Sequence[Hit]:
        """Refuse: there is nothing to search."""
        raise SinkRefused(
            f'sink "{self._spec.name}" prints and keeps nothing', hint="search a sink that keeps documents"
        )

    def close(self) -> None:
        """Standard output belongs to the process: leave it open."""


def line_of(index: str, write: Write) -> bytes:
    """Lay out one write as a line; the document's text goes in untouched.

    A raw line break in JSON stands between tokens, never in a string: a space means the same.
    """
    op = "remove" if write.body is None else "index"
    head = (
        f'{{"index":{quoted(index)},"id":{quoted(write.id)},"version":{write.version},"op":"{op}","document":'
    )
    body = b"null" if write.body is None else write.body.replace(b"\n", b" ")
    return head.encode() + body + b"}\n"


def indented(text: str) -> str:
    """Lay JSON text out over lines without reading its values, so that no digit or escape changes."""
    out: list[str] = []
    depth = 0
    opened = False
    for token in (found[0] for found in tokens(text)):
        if token in "}]":
            depth -= 1
            out.append(token if opened else _line(depth) + token)
        else:
            out.append(_line(depth) + token if opened else token)
        opened = token in "{["
        if opened:
            depth += 1
        elif token == ",":
            out.append(_line(depth))
        elif token == ":":
            out.append(" ")
    return "".join(out)


def _line(depth: int) -> str:
    return "\n" + "  " * depth


def _write_all(out: BinaryIO, data: bytes) -> None:
    """Write to the last byte: where Python is told not to buffer, a write may take only some of them."""
    rest = memoryview(data)
    while rest:
        rest = rest[out.write(rest) :]


def _silence(out: BinaryIO) -> None:
    """Point a closed pipe at nothing, or whoever prints next trips over it, the interpreter at exit too."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, out.fileno())
        os.close(nothing)
