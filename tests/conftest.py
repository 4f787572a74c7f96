"""Fixtures live in `fix_<thing>.py`, one file for each real part."""

pytest_plugins = ["fix_postgres", "fix_opensearch", "fix_spark"]
