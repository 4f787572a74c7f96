"""flusso keeps search indexes in step with a Postgres database.

The nouns that travel are the modules at the top of this package; the folders are the stages that
transform them. See ARCHITECTURE.md for the map.
"""

__version__ = "0.1.0"
