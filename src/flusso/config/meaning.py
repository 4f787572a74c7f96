"""What each key of flusso.toml means, in a phrase: for editors and for the documentation.

The tables of the README and of the guide show the same phrases; a test compares them.
"""

from __future__ import annotations

MEANING: dict[str, str] = {
    "prefix": "put before every index, alias and state name in a search cluster",
    "on_error": "what a refused document does: `stop`, or `skip` into the quarantine",
    "keep_generations": "how many generations that readers saw before are kept, and written, for a rollback",
    "source.type": "`postgres`",
    "source.connection_url": 'libpq URL or keywords, `{ env = "VAR" }`, or a table of parts; '
    "`DATABASE_URL` if absent",
    "source.read_url": "where documents are read from: a replica, say; in the same forms; "
    "the same server if absent",
    "source.slot": "the replication slot, made if absent",
    "source.publication": "the publication",
    "source.manage_publication": "whether flusso may create and extend it",
    "source.replica_identity": (
        "`auto` keeps documents exact under any identity, by references where the WAL lacks old links; "
        "`manage` sets identities instead, `check` only reports what goes stale, `ignore` not even that"
    ),
    "source.max_references": "above so many references in a document `check` advises an identity instead",
    "source.on_slot_lost": "when changes are lost with the slot: `stop` with an error, or `reseed` by itself",
    "source.failover": "make it a slot that standbys keep a copy of; Postgres 17 or newer",
    "source.max_connections": "bounds all connections together: driver, source worker and tasks",
    "source.give_up_after_secs": "how long Postgres may be away before flusso exits with code 3; 0: for ever",
    "spark.master": "any Spark master",
    "spark.conf": "a table of Spark settings",
    "batch.max_changes": "changes in one batch",
    "batch.max_bytes": "bytes of changes in one batch",
    "batch.delay_ms": "gather changes for so long before each batch",
    "batch.chunk": "documents in one SELECT",
    "batch.max_fan_out": "documents that few rows may touch in a batch; more are written beside the batches",
    "batch.seed_range_mb": "size of a seed range of the root table: about a second of work",
    "batch.seed_parallelism": "tasks of a seed at a time; at most the Spark slots less one",
    "index.name": "name of the index",
    "index.schema": "its schema file, relative to this one",
    "index.enabled": "whether it is kept in step",
    "index.on_error": "the same for one index; the deployment's if absent",
    "index.keep_generations": "the same for one index; the deployment's if absent",
    "index.verify_before_switch": "compare a new generation with its tables before readers see it",
    "index.sinks": "names of its sinks; all if absent",
    "opensearch.url": "one address or a list",
    "opensearch.username": "with `password`",
    "opensearch.password": "with `username`",
    "opensearch.api_key": "instead of both",
    "opensearch.ca": "file with the authority to trust",
    "opensearch.tls_verify": "check the server's certificate",
    "opensearch.batch_size": "documents in one bulk request",
    "opensearch.max_bytes": "bytes in one bulk request",
    "opensearch.timeout_secs": "for one request",
    "opensearch.max_retries": "for one request, before the batch is tried again",
    "opensearch.pipeline": "ingest pipeline",
    "opensearch.number_of_shards": "of a new generation",
    "opensearch.number_of_replicas": "of every index, set at each start",
    "opensearch.refresh_interval": "of a published generation",
    "opensearch.refresh_pause_ms": "the shortest time between two refreshes that flusso asks for; "
    "-1: it asks for none",
    "opensearch.text_analysis": "`builtin`, `icu` (needs its plugin) or `plain` (needs no module)",
    "opensearch.auto_subfields": "`.keyword`, `.text` and `.keyword_lowercase` subfields",
    "opensearch.compress": "compress requests",
    "opensearch.give_up_after_secs": "how long it may be away before flusso exits with code 4; 0: for ever; "
    "of several sinks the longest counts",
    "opensearch.backfill": "whether it is filled from existing rows; `false` takes only changes",
    "sqlite.path": "the file, relative to this one; a local master only",
    "sqlite.give_up_after_secs": "the same",
    "sqlite.backfill": "the same",
    "stdout.pretty": "lay the JSON out",
    "stdout.backfill": "the same",
}

ALIKE = {"elasticsearch": "opensearch"}
"""A kind of sink whose keys are those of another, and mean the same."""
