"""Capture: what changed, read from the write-ahead log through logical replication."""
