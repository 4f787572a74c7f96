"""The face for Spark users: one call makes `flusso-postgres` a format of their session.

    import flusso.spark

    flusso.spark.register(spark)
    changes = spark.readStream.format("flusso-postgres").option("url", …).option("tables", …)…

The options and the columns are in docs/guides/spark-source.md.
"""

from flusso.engine.standalone.register import register

__all__ = ["register"]
