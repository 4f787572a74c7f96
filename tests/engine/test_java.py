"""Which Java Spark gets, and what the wrapper around it does. No JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flusso.engine.java import Java, find_java, make_java_home

VECTOR = "--add-modules=jdk.incubator.vector"


def _fake(folder: Path, says: str) -> Path:
    """A command named java that says something on stderr, and its arguments on stdout."""
    command = folder / "java"
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\nfor argument do echo \"$argument\"; done\n")
    command.chmod(0o755)
    return command


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder where commands are looked for."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_without_a_java_the_one_of_the_wheel_is_taken(only_path: Path) -> None:
    found = find_java()
    assert found.is_of_wheel
    assert found.command.exists()


def test_a_java_that_is_too_old_is_passed_over(only_path: Path) -> None:
    _fake(only_path, 'openjdk version "11.0.2" 2019-01-15')
    assert find_java().is_of_wheel


def test_a_java_that_is_recent_enough_is_taken(only_path: Path) -> None:
    command = _fake(only_path, 'openjdk version "17.0.15" 2025-04-15')
    assert find_java() == Java(command)


@pytest.mark.parametrize("is_of_wheel", [True, False])
def test_the_wrapper_drops_the_module_that_the_runtime_of_the_wheel_lacks(
    tmp_path: Path, is_of_wheel: bool
) -> None:
    home = make_java_home(tmp_path / "scratch", Java(_fake(tmp_path, ""), is_of_wheel))
    asked = [home / "bin" / "java", "-Xmx1g", VECTOR, "a name", "org.apache.spark.deploy.SparkSubmit"]
    given = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    kept = ["-Xmx1g", VECTOR, "a name", "org.apache.spark.deploy.SparkSubmit"]
    assert given == [each for each in kept if each != VECTOR or not is_of_wheel]


def test_the_jvm_of_the_driver_alone_is_told_of_another_spark_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/real")
    command = _fake(tmp_path, "")
    command.write_text('#!/bin/sh\necho "$SPARK_HOME"\n')
    home = make_java_home(tmp_path / "scratch", Java(command), tmp_path / "another one")
    driver = "org.apache.spark.deploy.SparkSubmit"
    told = [
        subprocess.run(
            [home / "bin" / "java", *words], capture_output=True, text=True, check=True
        ).stdout.strip()
        for words in ([driver], ["org.apache.spark.launcher.Main", driver], ["-version"])
    ]
    assert told == [f"{tmp_path}/another one", "/real", "/real"]
