"""Declare: what a document is made of. Pure: no database, no sink, no Spark."""
