"""Put concrete parts together: from a deployment to what the engine and the sinks take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

from flusso import __version__
from flusso.config.deployment import (
    BatchSettings,
    Deployment,
    ElasticsearchSettings,
    OnError,
    OnSlotLost,
    OpenSearchSettings,
    ReplicaIdentity,
    SearchServerSettings,
    SinkSettings,
    SqliteSettings,
    StdoutSettings,
)
from flusso.config.load import Overrides, load_deployment
from flusso.config.lock import SUFFIX, check_digests, load_locked, read_lock
from flusso.config.secret import Secret
from flusso.engine.limits import fewest_connections, most_tasks
from flusso.engine.policy import Patience
from flusso.engine.session import SparkSpec
from flusso.engine.spec import BatchSpec, IndexSpec, PipelineSpec
from flusso.errors import ConfigError
from flusso.postgres.connect import Dsn
from flusso.schema.digest import digest
from flusso.sinks.base import SinkSpec
from flusso.sinks.search.connection import SearchSpec
from flusso.sinks.search.elasticsearch import ElasticsearchSpec
from flusso.sinks.search.opensearch import OpenSearchSpec
from flusso.sinks.sqlite import SqliteSpec
from flusso.sinks.stdout import StdoutSpec


def load(
    config: Path, *, slot: str | None = None, publication: str | None = None, prefix: str | None = None
) -> Deployment:
    """Read flusso.toml and its schema files, or a lock of them, with the process's environment."""
    overrides = Overrides(slot, publication, prefix)
    if config.suffix != SUFFIX:
        return load_deployment(config, env=os.environ, overrides=overrides)
    lock = read_lock(config)
    deployment = load_locked(config, lock, env=os.environ, overrides=overrides)
    check_digests(config, lock, index_digests(deployment), flusso=__version__)
    return deployment


def index_digests(deployment: Deployment) -> dict[str, dict[str, str]]:
    """Give the digest of each index in each of its sinks."""
    sinks = sink_specs(deployment)
    return {
        index.name: {name: digest(index.schema, sinks[name].shape) for name in index.sinks}
        for index in deployment.indexes
    }


def dsn_of(deployment: Deployment) -> Dsn:
    """Give the source's connection string."""
    return Dsn(deployment.source.connection.reveal())


def _read_dsn(deployment: Deployment) -> Dsn | None:
    found = deployment.source.read_url
    return Dsn(found.reveal()) if found is not None else None


def pipeline_spec(
    deployment: Deployment, *, is_once: bool = False, skips_seed: bool = False, makes_files: bool = True
) -> PipelineSpec:
    """Translate a deployment for the engine; sinks that are files need not be made by being opened."""
    source = deployment.source
    _check_connections(deployment)
    indexes = _index_specs(deployment, makes_files=makes_files)
    return PipelineSpec(
        dsn_of(deployment),
        source.slot,
        source.publication,
        indexes,
        SparkSpec(
            deployment.spark.master,
            deployment.spark.conf,
            max_tasks=most_tasks(source.max_connections, has_replica=source.read_url is not None),
            preload=_modules(indexes),
        ),
        _batch_spec(deployment.batch),
        manage_publication=source.manage_publication,
        is_once=is_once,
        skips_seed=skips_seed,
        reseeds=source.on_slot_lost is OnSlotLost.RESEED,
        is_failover=source.failover,
        read_dsn=_read_dsn(deployment),
        patience=Patience(source_s=source.give_up_after_secs or None, sink_s=_sink_patience(deployment)),
        reports_blind=source.replica_identity is not ReplicaIdentity.IGNORE,
        manages_identity=source.replica_identity is ReplicaIdentity.MANAGE,
        keeps_references=source.replica_identity is ReplicaIdentity.AUTO,
        max_references=source.max_references,
    )


def _index_specs(deployment: Deployment, *, makes_files: bool) -> tuple[IndexSpec, ...]:
    sinks = sink_specs(deployment, makes_files=makes_files)
    indexes = tuple(
        IndexSpec(
            index.name,
            index.schema,
            tuple(sinks[name] for name in index.sinks),
            skips_refused=index.on_error is OnError.SKIP,
            not_backfilled=frozenset(sink.name for sink in deployment.sinks if not sink.backfill),
            keeps=index.keep_generations,
            verifies=index.verify_before_switch,
        )
        for index in deployment.indexes
        if index.enabled
    )
    if not indexes:
        raise ConfigError("no index is enabled", hint="add an [[index]] to flusso.toml")
    return indexes


def _modules(indexes: Sequence[IndexSpec]) -> tuple[str, ...]:
    """Name what a task imports to write to the sinks."""
    sinks = {sink for index in indexes for sink in index.sinks}
    own = {type(sink).__module__ for sink in sinks}
    return tuple(sorted(own | {sink.library for sink in sinks if isinstance(sink, SearchSpec)}))


def _check_connections(deployment: Deployment) -> None:
    source = deployment.source
    fewest = fewest_connections(has_replica=source.read_url is not None)
    if source.max_connections < fewest:
        raise ConfigError(
            f"source.max_connections is {source.max_connections}, with read_url at least {fewest} are needed",
            hint=f"set max_connections = {fewest} or more",
        )


def _batch_spec(batch: BatchSettings) -> BatchSpec:
    return BatchSpec(
        max_changes=batch.max_changes,
        max_bytes=batch.max_bytes,
        delay_ms=batch.delay_ms,
        chunk=batch.chunk,
        max_fan_out=batch.max_fan_out,
        seed_range_mb=batch.seed_range_mb,
        seed_parallelism=batch.seed_parallelism,
    )


def _sink_patience(deployment: Deployment) -> float | None:
    """Give how long a sink may be away, the longest of all; None for ever."""
    limits = [sink.give_up_after_secs for sink in deployment.sinks if not isinstance(sink, StdoutSettings)]
    if not limits:
        return Patience().sink_s
    return None if 0 in limits else float(max(limits))


def sink_specs(deployment: Deployment, *, makes_files: bool = True) -> dict[str, SinkSpec]:
    """Translate the sinks, by name."""
    return {each.name: _sink_spec(each, deployment.prefix, makes_files) for each in deployment.sinks}


def _sink_spec(settings: SinkSettings, prefix: str, makes_files: bool) -> SinkSpec:
    match settings:
        case StdoutSettings():
            return StdoutSpec(settings.name, settings.pretty)
        case SqliteSettings():
            return SqliteSpec(settings.name, settings.path, makes_file=makes_files)
        case OpenSearchSettings():
            return _search_spec(OpenSearchSpec, settings, prefix)
        case ElasticsearchSettings():
            return _search_spec(ElasticsearchSpec, settings, prefix)
    assert_never(settings)


def _search_spec(kind: type[SearchSpec], settings: SearchServerSettings, prefix: str) -> SearchSpec:
    return kind(
        name=settings.name,
        urls=settings.url,
        username=settings.username,
        password=_reveal(settings.password),
        api_key=_reveal(settings.api_key),
        ca=settings.ca,
        tls_verify=settings.tls_verify,
        prefix=prefix,
        batch_size=settings.batch_size,
        max_bytes=settings.max_bytes,
        timeout_s=settings.timeout_secs,
        max_retries=settings.max_retries,
        pipeline=settings.pipeline,
        number_of_shards=settings.number_of_shards,
        number_of_replicas=settings.number_of_replicas,
        refresh_interval=settings.refresh_interval,
        refresh_pause_ms=settings.refresh_pause_ms,
        text_analysis=settings.text_analysis.value,
        auto_subfields=settings.auto_subfields,
        compress=settings.compress,
    )


def _reveal(secret: Secret | None) -> str | None:
    return secret.reveal() if secret is not None else None
