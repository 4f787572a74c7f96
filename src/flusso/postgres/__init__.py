"""Postgres as capture and builder share it: connections, names, the catalog, emitted positions."""
