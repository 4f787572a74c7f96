"""How large things are: small in `make test`, full in `make stress`."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Everything large or long."""

    seed_users: int
    """Rows seeded while a writer runs."""
    seed_rows: int
    """Rows seeded while the slot is watched: narrow ones, so that there can be many."""
    cluster_users: int
    """Rows seeded while executors are killed."""
    outage_s: float
    """How long a sink or the source is away."""
    transaction_changes: int
    """Changes in one transaction."""
    transaction_users: int
    """Documents that it touches over and over."""
    fan_out_users: int
    """Documents, of which one row changes a large part."""
    fuzzed_messages: int
    """Damaged messages given to the decoders."""
    unwatched_changes: int
    """Changes of a table that nobody watches."""
    storm_s: float
    """How long tiny transactions come as fast as they can, up to ten thousand a second."""
    patience_s: float
    """How long any of this may take: a limit for what hangs, not a measure."""


IS_FULL = os.environ.get("FLUSSO_TEST_SCALE") == "full"
SIZES = (
    Sizes(
        seed_users=200_000,
        seed_rows=2_000_000,
        cluster_users=200_000,
        outage_s=90.0,
        transaction_changes=5_000_000,
        transaction_users=20_000,
        fan_out_users=2_000_000,
        fuzzed_messages=2_000_000,
        unwatched_changes=100_000,
        storm_s=60.0,
        patience_s=3600.0,
    )
    if IS_FULL
    else Sizes(
        seed_users=8_000,
        seed_rows=30_000,
        cluster_users=20_000,
        outage_s=3.0,
        transaction_changes=200_000,
        transaction_users=2_000,
        fan_out_users=20_000,
        fuzzed_messages=5_000,
        unwatched_changes=50_000,
        storm_s=2.0,
        patience_s=180.0,
    )
)
