"""The embedded sink: documents, versions and full-text search in one SQLite file, nothing to install.

`sink` is the sink itself, `file` opens the database and knows its tables, `fulltext` decides what is
searched for and where.
"""

from flusso.sinks.sqlite.sink import SqliteSink, SqliteSpec

__all__ = ["SqliteSink", "SqliteSpec"]
