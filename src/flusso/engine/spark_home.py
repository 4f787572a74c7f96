"""A SPARK_HOME for our JVM, in which Python's side of Spark is read from where it is installed.

Spark puts two zips before everything else on the path of each Python process that it starts. A zip has no
bytecode in it, so each of the five that a start needs compiled all of pyspark, for 0.7 s, one after the
other. A folder may have the name of a zip, and lead to the packages with their bytecode.
"""

from __future__ import annotations

from pathlib import Path

import py4j
import pyspark

_KEPT = ("bin", "jars")
_ZIPS = {"pyspark": "pyspark.zip", "py4j": "py4j-*-src.zip"}


def make_spark_home(scratch: Path, real: Path) -> Path | None:
    """Make one under the scratch folder; None where it is not the Spark that comes with the pyspark package,
    or is laid out in another way."""
    packages = {"pyspark": Path(pyspark.__file__).parent, "py4j": Path(py4j.__file__).parent}
    zips = {name: list((real / "python" / "lib").glob(pattern)) for name, pattern in _ZIPS.items()}
    if real.resolve() != packages["pyspark"].resolve() or not all(len(found) == 1 for found in zips.values()):
        return None
    home = scratch / "spark"
    for name, (found,) in zips.items():
        folder = home / "python" / "lib" / found.name
        folder.mkdir(parents=True)
        (folder / name).symlink_to(packages[name])
    for name in _KEPT:
        (home / name).symlink_to(real / name)
    return home
