"""Run the market's pipeline once in a process of its own, with the faulty sink. For tests that kill it."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path

from faulty import FaultySpec
from flusso.engine import filling
from flusso.engine.pipeline import run_pipeline
from pipelines import market_spec, named_database, sqlite_sink


def main(dsn: str, slot: str, folder: str, range_mb: str = "0.1", largest_share: str = "128") -> None:
    filling._LARGEST_SHARE = int(largest_share)
    sink = FaultySpec(sqlite_sink(Path(folder)), folder)
    spec = market_spec(named_database(dsn), sink)
    # Small, so that a test need not make many documents for one row to touch too many.
    batch = replace(spec.batch, max_fan_out=1000, seed_range_mb=float(range_mb))
    spec = replace(spec, slot=slot, batch=batch, is_once=True)
    run_pipeline(spec, lambda event: print(event, file=sys.stderr), threading.Event())


if __name__ == "__main__":
    main(*sys.argv[1:])
