"""Capture as a Spark streaming source, as the pipeline uses it: thin changes, on a scratch checkpoint.

Spark makes the source anew in processes that want to know its schema, nothing else, before anything flows. So
this module imports little; `source_reader.py` is what follows the slot. The source for Spark users, with full
rows and a checkpoint of theirs, is `standalone`.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import BinaryType, StructField, StructType

FORMAT = "flusso-changes"
SECRET_OPTION = "secret"
"""Holds the reader's whole spec, password included. Spark redacts options of this name in plans and logs."""
CHANGES_TYPE = StructType([StructField("changes", BinaryType())])


class ChangeSource(DataSource):
    """The registered data source."""

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the one column: pieces of changes as they were encoded."""
        return CHANGES_TYPE

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Make the inert reader."""
        from flusso.engine.source_reader import ChangeReader, SourceSpec

        return ChangeReader(SourceSpec.from_option(self.options[SECRET_OPTION]))
