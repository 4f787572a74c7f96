"""What the engine is told to do: everything resolved, nothing of the configuration's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flusso.engine.policy import Patience
from flusso.engine.session import SparkSpec
from flusso.postgres.connect import Dsn
from flusso.schema.model import IndexSchema
from flusso.sinks.base import SinkSpec

_HANDED_BACK = 5_000
"""Documents of a batch for a sink that lives in the driver: 100 MB, where each has 20 kB."""
_HANDED_BACK_MB = 0.25


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index: what it is made of, where it goes, what a refused document does."""

    name: str
    schema: IndexSchema
    sinks: tuple[SinkSpec, ...]
    skips_refused: bool = False
    not_backfilled: frozenset[str] = frozenset()
    """Names of the sinks that take only changes, from an empty index on."""
    keeps: int = 0
    """How many generations that readers saw before are kept and written, so that they can be led back."""
    verifies: bool = False
    """Whether a generation is verified before readers see it, where its sink keeps documents."""


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """Sizes."""

    max_changes: int = 100_000
    max_bytes: int = 32 * 1024 * 1024
    delay_ms: int = 0
    """Gather changes for so long before each batch: fewer, larger batches."""
    small_changes: int = 2000
    """Up to so many changes a batch is one Spark stage, for latency; above, two, for throughput."""
    confirm_after_s: float = 2.0
    """How long after the last change an empty batch is made so that Spark confirms it."""
    tick_s: float = 10.0
    """How often an idle position may move on by an empty batch."""
    chunk: int = 1000
    max_fan_out: int = 50_000
    max_due: int = 1_000_000
    """Rows that are remembered while an index is written beside the batches, if it has no more documents."""
    seed_range_mb: float = 2.0
    seed_parallelism: int | None = None

    def handed_back(self) -> BatchSpec:
        """Give sizes for documents that come back to the driver, whole: there they take memory."""
        return replace(
            self,
            max_changes=min(self.max_changes, _HANDED_BACK),
            max_fan_out=min(self.max_fan_out, _HANDED_BACK),
            seed_range_mb=min(self.seed_range_mb, _HANDED_BACK_MB),
        )


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """One deployment."""

    dsn: Dsn
    slot: str
    publication: str
    indexes: tuple[IndexSpec, ...]
    spark: SparkSpec
    batch: BatchSpec = BatchSpec()
    manage_publication: bool = True
    look_s: float = 5.0
    """How often the catalog is compared with what it was."""
    is_once: bool = False
    """Seed, catch up with the position read at start, and end."""
    skips_seed: bool = False
    reseeds: bool = False
    """Whether a new generation is filled when changes were lost; else that is an error."""
    is_failover: bool = False
    """Whether the slot is one that standbys keep a copy of."""
    read_dsn: Dsn | None = None
    """The replica that documents are read from; the source itself if absent."""
    patience: Patience = field(default=Patience())
    """For how long what is away is tried again."""
    reports_blind: bool = True
    """Whether relations that cannot see every delete are worth a word."""
    keeps_references: bool = False
    """Whether documents keep references where the replica identity does not show old links."""
    max_references: int = 10_000
    """Above so many in a document the identity is advised instead."""
    manages_identity: bool = False
    """Whether replica identities are set where the role may."""

    @property
    def sizes(self) -> BatchSpec:
        """The sizes, as the sinks allow them."""
        is_driver_side = any(sink.capabilities.is_driver_side for each in self.indexes for sink in each.sinks)
        return self.batch.handed_back() if is_driver_side else self.batch

    @property
    def referring(self) -> frozenset[str]:
        """Name the indexes that keep references, in those of their sinks that can."""
        return frozenset(
            index.name
            for index in self.indexes
            if self.keeps_references and any(sink.capabilities.keeps_references for sink in index.sinks)
        )

    @property
    def skips(self) -> Mapping[str, bool]:
        """Which indexes quarantine refused documents instead of stopping."""
        return {index.name: index.skips_refused for index in self.indexes}
