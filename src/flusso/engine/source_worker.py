"""What both Spark sources share in the process that Spark keeps for them beside the driver.

Changes travel *inside* partitions, as Arrow. Typed errors do not cross Spark: a method raises one text that
has the error twice, in words and as the line that `errors.from_text` finds again on the driver's side.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql.datasource import InputPartition

from flusso.errors import FlussoError, to_line

PARTITION_BYTES = 8 * 1024 * 1024


class ChangePartition(InputPartition):
    """Some changes, as Arrow streams."""

    def __init__(self, payloads: tuple[bytes, ...]) -> None:
        super().__init__(None)
        self.payloads = payloads

    def __repr__(self) -> str:
        return f"ChangePartition({len(self.payloads)} payloads)"


def spread(payloads: list[bytes], parallelism: int) -> Iterator[tuple[bytes, ...]]:
    """Group payloads in order, small enough to ship and numerous enough to keep all slots busy."""
    limit = min(PARTITION_BYTES, sum(map(len, payloads)) // parallelism + 1)
    pack: list[bytes] = []
    size = 0
    for payload in payloads:
        if pack and size + len(payload) > limit:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(payload)
        size += len(payload)
    if pack:
        yield tuple(pack)


def ignore_signals() -> None:
    """A signal to the whole process group is the driver's to act on: it ends this process in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def told_in_text() -> Iterator[None]:
    """Let an error cross Spark."""
    try:
        yield
    except FlussoError as error:
        raise RuntimeError(f"{error}\n{to_line(error)}") from None
