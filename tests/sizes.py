"""How large things are: small in `make test`, full in `make stress`."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Everything large or long."""

    seed_users: int
    """Rows seeded while a writer runs."""
    cluster_users: int
    """Rows seeded while executors are killed."""
    outage_s: float
    """How long a sink is away."""
    transaction_changes: int
    """Changes in one transaction."""
    patience_s: float
    """How long any of this may take: a limit for what hangs, not a measure."""


SIZES = (
    Sizes(
        seed_users=200_000,
        cluster_users=200_000,
        outage_s=90.0,
        transaction_changes=5_000_000,
        patience_s=3600.0,
    )
    if os.environ.get("FLUSSO_TEST_SCALE") == "full"
    else Sizes(
        seed_users=8_000,
        cluster_users=10_000,
        outage_s=3.0,
        transaction_changes=200_000,
        patience_s=180.0,
    )
)
