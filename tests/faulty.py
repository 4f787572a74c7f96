"""Sinks that fail on purpose, around a real one. Importable by executors: tests/ is on their path."""

from __future__ import annotations

import inspect
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flusso.document import Write, WriteResult
from flusso.errors import SinkUnavailable
from flusso.schema.model import Json
from flusso.sinks.base import Capabilities, IndexState, IndexTarget, Sink
from flusso.sinks.sqlite import SqliteSpec
from waiting import wait_until


@dataclass(frozen=True, slots=True)
class FaultySpec:
    """A sqlite sink that misbehaves while a file of the given name lies in `folder`.

    `away`: it cannot be opened. `closed`: writes are refused as if the server were down. `stalled`: they
    wait. `hold`: the same, and `held` has the process of one that does; with a number in it, those to that
    generation. `kill-on-record`: once, the process that records a position dies right before it does.
    `fail-on-record`: once, recording fails. These two wait until something was written, which the file
    `writes` lists. `kill-at`: once, the process that records a seed dies right after it has recorded at least
    the share that the file names. `fail-METHOD`: once, a call of that method fails.
    """

    inner: SqliteSpec
    folder: str

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
        if (Path(self.folder) / "away").exists():
            raise SinkUnavailable("the sink is away for the test")
        return FaultySink(self.inner.open(), Path(self.folder))  # type: ignore[return-value]


class FaultySink:
    """Hands everything on but the faults."""

    def __init__(self, inner: Sink, folder: Path) -> None:
        self._inner = inner
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if self._take_now(f"fail-{name}"):
                raise SinkUnavailable(f"{name} fails once for the test")
            return found(*arguments, **options)

        return call if inspect.ismethod(found) else found

    def write(
        self, target: IndexTarget, writes: Sequence[Write], *, refresh: bool, until: float | None = None
    ) -> WriteResult:
        if (self._folder / "closed").exists():
            raise SinkUnavailable("the sink is closed for the test")
        stalled = self._folder / "stalled"
        wait_until(lambda: not stalled.exists(), what="the end of the stall", timeout_s=600)
        while self._is_held(target):
            (self._folder / "held").write_text(str(os.getpid()))
            time.sleep(0.02)  # between two looks
        with (self._folder / "writes").open("a") as log:
            log.writelines(f"{write.id}\n" for write in writes)
        return self._inner.write(target, writes, refresh=refresh, until=until)

    def _is_held(self, target: IndexTarget) -> bool:
        try:
            return (self._folder / "hold").read_text() in ("", str(target.generation))
        except FileNotFoundError:
            return False

    def save_state(self, state: IndexState) -> None:
        if self._take("kill-on-record"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._take("fail-on-record"):
            raise SinkUnavailable("recording fails once for the test")
        self._inner.save_state(state)
        share = self._folder / "kill-at"
        if not state.is_seeded and share.exists() and state.seeding.share >= float(share.read_text()):
            share.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def _take(self, fault: str) -> bool:
        return (self._folder / "writes").exists() and self._take_now(fault)

    def _take_now(self, fault: str) -> bool:
        try:
            (self._folder / fault).unlink()
        except FileNotFoundError:
            return False
        return True
