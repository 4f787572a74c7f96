"""What flusso.toml means: where rows come from, where documents go, and how it runs.

`load` makes it, `cli` hands each stage its own part. Frozen, complete (every default filled in), secrets
wrapped; nothing below `cli` sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, TypeVar

from flusso.config.secret import Secret
from flusso.diagnostic import Diagnostic
from flusso.schema.analysis import TextAnalysis
from flusso.schema.model import IndexSchema

MIB = 1024 * 1024
_MANY = 2**31 - 1
_A_YEAR_S = 31_536_000

T = TypeVar("T")


def bounded(default: T, low: float, high: float) -> T:
    """Declare a number with its default and the bounds that a file must keep."""
    made: T = field(default=default, metadata={"low": low, "high": high})
    return made


class OnError(StrEnum):
    """What a refused document does."""

    STOP = "stop"
    SKIP = "skip"


class ReplicaIdentity(StrEnum):
    """What is done about relations whose deletes the WAL does not show."""

    AUTO = "auto"
    CHECK = "check"
    MANAGE = "manage"
    IGNORE = "ignore"


class OnSlotLost(StrEnum):
    """What is done when changes were lost with the slot."""

    STOP = "stop"
    RESEED = "reseed"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The Postgres that rows come from."""

    connection: Secret
    """A libpq connection string."""
    read_url: Secret | None = None
    """Another one, of the server that documents are read from."""
    slot: str = "flusso"
    publication: str = "flusso"
    manage_publication: bool = True
    replica_identity: ReplicaIdentity = ReplicaIdentity.AUTO
    max_references: int = bounded(10_000, 1, 1_000_000_000)
    """Above so many in a document `check` advises an identity instead."""
    on_slot_lost: OnSlotLost = OnSlotLost.STOP
    failover: bool = False
    max_connections: int = bounded(10, 7, 10_000)
    give_up_after_secs: int = bounded(600, 0, _A_YEAR_S)
    """How long the server may be away; 0: for ever."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The Spark that does the work."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Its repr shows nothing: a key of some store may be among them."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How much is done at a time."""

    max_changes: int = bounded(100_000, 1, 10_000_000)
    max_bytes: int = bounded(32 * MIB, 64 * 1024, 1024 * MIB)
    delay_ms: int = bounded(0, 0, 60_000)
    chunk: int = bounded(1000, 1, 100_000)
    """Documents per SELECT."""
    max_fan_out: int = bounded(50_000, 1000, 100_000_000)
    """More documents than this from few rows become a debt."""
    seed_range_mb: float = bounded(2.0, 0.0625, 4096)
    seed_parallelism: int | None = bounded(None, 1, 10_000)


@dataclass(frozen=True, slots=True)
class SearchServerSettings:
    """What both kinds of search server have. Credentials written into a URL are taken out of it."""

    name: str
    url: tuple[str, ...]
    username: str | None = None
    password: Secret | None = None
    api_key: Secret | None = None
    ca: str | None = None
    tls_verify: bool = True
    batch_size: int = bounded(2000, 1, 1_000_000)
    max_bytes: int = bounded(10 * MIB, 1024, _MANY)
    timeout_secs: int = bounded(30, 1, 86_400)
    max_retries: int = bounded(3, 0, 1000)
    pipeline: str | None = None
    number_of_shards: int = bounded(1, 1, 1024)
    number_of_replicas: int = bounded(1, 0, 1024)
    refresh_interval: str = "10s"
    refresh_pause_ms: int = bounded(100, -1, 3_600_000)
    text_analysis: TextAnalysis = TextAnalysis.BUILTIN
    auto_subfields: bool = True
    compress: bool = True
    give_up_after_secs: int = bounded(3600, 0, _A_YEAR_S)
    backfill: bool = True


@dataclass(frozen=True, slots=True)
class OpenSearchSettings(SearchServerSettings):
    """A sink of type `opensearch`."""


@dataclass(frozen=True, slots=True)
class ElasticsearchSettings(SearchServerSettings):
    """A sink of type `elasticsearch`."""


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """A sink of type `sqlite`; the path is absolute."""

    name: str
    path: str
    give_up_after_secs: int = bounded(3600, 0, _A_YEAR_S)
    backfill: bool = True


@dataclass(frozen=True, slots=True)
class StdoutSettings:
    """A sink of type `stdout`."""

    name: str
    pretty: bool = False
    backfill: bool = True


SinkSettings: TypeAlias = OpenSearchSettings | ElasticsearchSettings | SqliteSettings | StdoutSettings


MAX_KEPT = 10
"""Generations of an index that can be kept beside the one that readers see."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """One index to keep in step."""

    name: str
    schema: IndexSchema
    schema_path: str
    enabled: bool = True
    on_error: OnError = OnError.STOP
    sinks: tuple[str, ...] = ()
    """Names of the sinks it is written to."""
    keep_generations: int = 0
    """How many generations that readers saw before are kept for a rollback."""
    verify_before_switch: bool = False
    """Whether a new generation is compared with its tables before readers see it."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """All of it."""

    prefix: str
    source: SourceSettings
    spark: SparkSettings
    batch: BatchSettings
    sinks: tuple[SinkSettings, ...]
    indexes: tuple[IndexSettings, ...]
    warnings: tuple[Diagnostic, ...] = ()
    """What the file asks for and does not get, for whoever shows findings."""
