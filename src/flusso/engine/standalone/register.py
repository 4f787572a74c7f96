"""Make the source known to a Spark session, and flusso to its executors."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flusso.engine.session import is_local, package_zip
from flusso.engine.standalone.source import RowSource


def register(spark: SparkSession) -> None:
    """Make the format `flusso-postgres` known to a session; calling it again changes nothing.

    Executors that are not threads of the driver's JVM are sent flusso's code.
    """
    spark.dataSource.register(RowSource)
    try:
        context = spark.sparkContext
    except PySparkException:  # a client of Spark Connect has none: its server has flusso installed
        return
    if not is_local(context.master or ""):
        folder = Path(tempfile.mkdtemp(prefix="flusso-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        context.addPyFile(str(package_zip(folder)))
