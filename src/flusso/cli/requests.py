"""What the commands share that ask something of whoever writes an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flusso.capture.slot import read_slot
from flusso.engine.spec import IndexSpec, PipelineSpec
from flusso.errors import ConfigError
from flusso.postgres.connect import connect
from flusso.sinks.base import Sink, SinkSpec


def chosen_indexes(spec: PipelineSpec, names: Sequence[str], *, every: bool) -> list[IndexSpec]:
    """Find the indexes that were named."""
    known = {index.name: index for index in spec.indexes}
    unknown = [name for name in names if name not in known]
    if unknown or not (names or every):
        raise ConfigError(
            f"there is no index {', '.join(unknown)}" if unknown else "no index was named",
            hint=f"name one of {', '.join(known)}",
        )
    return list(spec.indexes) if every else [known[name] for name in dict.fromkeys(names)]


def is_running(spec: PipelineSpec) -> bool:
    """Say whether a flusso reads the slot."""
    with connect(spec.dsn) as conn:
        info = read_slot(conn, spec.slot)
    return info is not None and info.active_pid is not None


def keeping_sinks(index: IndexSpec) -> list[SinkSpec]:
    """List the sinks of an index that remember anything; the others are filled at every start."""
    return [sink for sink in index.sinks if sink.capabilities.keeps_state]


@contextmanager
def opened(spec: SinkSpec) -> Iterator[Sink]:
    """Open a sink for a moment."""
    sink = spec.open()
    try:
        yield sink
    finally:
        sink.close()
