"""The columns that a Spark user gets, and the Spark type that each Postgres type becomes.

The same columns whatever the tables; `before` and `after` are JSON text, or for one table structs with a
field for each of its columns. A type that Spark has no equal for stays the text that Postgres prints.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flusso.capture.columns import SentColumn
from flusso.errors import ConfigError

_LARGEST_PRECISION = 38
_TYPES: dict[str, DataType] = {
    "bool": BooleanType(),
    "int2": ShortType(),
    "int4": IntegerType(),
    "int8": LongType(),
    "oid": LongType(),
    "float4": FloatType(),
    "float8": DoubleType(),
    "bytea": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampNTZType(),
    "timestamptz": TimestampType(),
}


def row_schema(image: DataType) -> StructType:
    """Give the columns, with `before` and `after` of that type."""
    return StructType(
        [
            StructField("schema", StringType(), False),
            StructField("table", StringType(), False),
            StructField("operation", StringType(), False),
            StructField("commit_lsn", LongType(), False),
            StructField("ordinal", LongType(), False),
            StructField("commit_time", TimestampType()),
            StructField("xid", LongType()),
            StructField("key", StringType()),
            StructField("before", image),
            StructField("after", image),
            StructField("unchanged", ArrayType(StringType(), False), False),
        ]
    )


JSON_SCHEMA = row_schema(StringType())


def typed_schema(columns: Sequence[SentColumn]) -> StructType:
    """Give the columns for one table, as its catalog types it."""
    return row_schema(StructType([StructField(column.name, spark_type(column)) for column in columns]))


def spark_type(column: SentColumn) -> DataType:
    """Find the Spark type of a column; text where there is none that holds all its values."""
    element = _TYPES.get(column.base, StringType())
    if (digits := column.digits) is not None:
        precision, scale = digits
        if precision <= _LARGEST_PRECISION and 0 <= scale <= precision:
            element = DecimalType(precision, scale)
    return ArrayType(element) if column.is_array else element


def check_schema(schema: StructType, *, is_typed: bool) -> None:
    """Refuse columns that a user has asked for and that are not these; the fields of structs are free."""
    image = schema["after"].dataType if is_typed and "after" in schema.names else StringType()
    is_struct = isinstance(image, StructType) or not is_typed
    if not is_struct or [(f.name, f.dataType) for f in schema.fields] != [
        (f.name, f.dataType) for f in row_schema(image).fields
    ]:
        raise ConfigError(
            "the schema that was asked for is not that of this source",
            hint="leave it out, or take that of the stream and change only the fields of before and after",
        )
