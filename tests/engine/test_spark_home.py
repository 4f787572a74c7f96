"""Where Python's side of Spark is read from. No JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import py4j
import pyspark

from flusso.engine.spark_home import make_spark_home

REAL = Path(pyspark.__file__).parent
SAYS_WHERE = "import pyspark, py4j; print(pyspark.__file__, py4j.__file__)"


def test_what_spark_puts_on_the_path_of_its_workers_leads_to_the_installed_packages(tmp_path: Path) -> None:
    home = make_spark_home(tmp_path, REAL)
    assert home is not None
    [zip_of_py4j] = (REAL / "python" / "lib").glob("py4j-*-src.zip")
    # As Spark puts it together: its home, and the names that it knows.
    path = [home / "python" / "lib" / name for name in ("pyspark.zip", zip_of_py4j.name)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    said = subprocess.run(
        [sys.executable, "-c", SAYS_WHERE], env=env, capture_output=True, text=True, check=True
    ).stdout.split()
    assert [Path(each).is_relative_to(folder) for each, folder in zip(said, path, strict=True)] == [
        True,
        True,
    ]
    assert [Path(each).resolve() for each in said] == [
        Path(package.__file__).resolve() for package in (pyspark, py4j)
    ]


def test_all_else_that_the_home_is_asked_for_is_the_real_one(tmp_path: Path) -> None:
    home = make_spark_home(tmp_path, REAL)
    assert home is not None
    assert {name: (home / name).resolve() for name in ("bin", "jars")} == {
        name: (REAL / name).resolve() for name in ("bin", "jars")
    }


def test_a_spark_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    lib = tmp_path / "theirs" / "python" / "lib"
    lib.mkdir(parents=True)
    for name in ("pyspark.zip", "py4j-1-src.zip"):
        (lib / name).touch()
    assert make_spark_home(tmp_path / "scratch", tmp_path / "theirs") is None
    assert not (tmp_path / "scratch").exists()
