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


SIZES = (
    Sizes(seed_users=200_000, cluster_users=200_000)
    if os.environ.get("FLUSSO_TEST_SCALE") == "full"
    else Sizes(seed_users=8_000, cluster_users=10_000)
)
