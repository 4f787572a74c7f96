"""flusso as users run it: the command in a process of its own, known by its log lines and processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

_POLL_S = 0.02
_PATIENCE_S = 300.0
_ROLES = (
    ("source worker", "python_streaming_source_runner"),
    ("Python workers", "pyspark.worker"),
    ("JVM", "org.apache.spark"),
)
_DRIVER = "driver Python"
AT = "at"
"""Among the fields of a log line: when it was written."""
ROLES = (_DRIVER, *(role for role, _ in _ROLES))


@dataclass(slots=True)
class Pipeline:
    """A running `flusso run`."""

    process: subprocess.Popen[bytes]
    log_file: Path

    def log(self) -> str:
        """Give all lines so far."""
        return self.log_file.read_text(errors="replace")

    def fields(self, phrase: str) -> list[dict[str, str]]:
        """Give the fields of each log line with this phrase, and its time."""
        return [
            dict(re.findall(r"(\w+)=(\S+)", line)) | {AT: line.partition(" ")[0]}
            for line in self.log().splitlines()
            if f"Z {phrase} " in line
        ]

    def seconds_between(self, first: str, last: str) -> float:
        """Give the time from the first line with one phrase to the last with another."""
        began, ended = self.fields(first)[0][AT], self.fields(last)[-1][AT]
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()

    def wait_for(self, phrase: str, timeout_s: float = _PATIENCE_S) -> dict[str, str]:
        """Wait for a line with this phrase and give the fields of the last one."""
        self.wait_until(lambda: self.fields(phrase), phrase, timeout_s)
        return self.fields(phrase)[-1]

    def wait_until(self, condition: Callable[[], object], what: str, timeout_s: float = _PATIENCE_S) -> None:
        """Wait for something that only a living flusso brings about."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.process.poll() not in (None, 0):
                raise RuntimeError(f"flusso ended with {self.process.returncode}: {self.log()[-2000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited in vain for {what}: {self.log()[-2000:]}")
            time.sleep(_POLL_S)

    def by_role(self) -> dict[str, list[psutil.Process]]:
        """Give all its processes by what they do."""
        found: dict[str, list[psutil.Process]] = {role: [] for role in ROLES}
        try:
            driver = psutil.Process(self.process.pid)
            found[_DRIVER].append(driver)
            for child in driver.children(recursive=True):
                found[_role(child)].append(child)
        except psutil.NoSuchProcess:
            pass
        return found

    def stop(self) -> None:
        """End it in order; by force when it does not listen."""
        family = [process for processes in self.by_role().values() for process in processes]
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            for process in family:
                if process.is_running():
                    process.kill()
            self.process.wait()


def start_flusso(folder: Path, env: dict[str, str], *arguments: str) -> Pipeline:
    """Start `flusso run` in a folder with a flusso.toml."""
    log_file = folder / f"run-{time.time_ns()}.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "flusso.cli.main", "run", *arguments],
            cwd=folder,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    return Pipeline(process, log_file)


def call_flusso(folder: Path, env: dict[str, str], *arguments: str) -> str:
    """Run another command to its end and give what it printed; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "flusso.cli.main", *arguments],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"flusso {arguments[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _role(process: psutil.Process) -> str:
    """Tell by the command line; whatever else a JVM starts is counted with it."""
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        line = ""
    return next((role for role, word in _ROLES if word in line), "JVM")
