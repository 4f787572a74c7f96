"""The frames that cross Spark: their columns, as Spark names them and as Arrow does.

Spark is given types, not text, which it would have the JVM parse for every batch. Changes are opaque to it:
one column of pieces as they were encoded, which only tasks look into. Spark's type of it is in `source.py`,
which is imported without Arrow.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

ID_TYPE = StructType([StructField("index_name", StringType()), StructField("key", ArrayType(StringType()))])
REPORT_TYPE = StructType([StructField("report", BinaryType())])

ID_SCHEMA = pa.schema([("index_name", pa.string()), ("key", pa.list_(pa.string()))])
REPORT_SCHEMA = pa.schema([("report", pa.binary())])
_CHANGES_SCHEMA = pa.schema([("changes", pa.binary())])


def changes_batch(payload: bytes) -> pa.RecordBatch:
    """Wrap one encoded piece; no bytes are no changes."""
    return pa.record_batch([pa.array([payload], pa.binary())], schema=_CHANGES_SCHEMA)
