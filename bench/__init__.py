"""Benchmarks: `make bench`. Each module measures one thing on what `stage` sets up; `report` shows it."""
