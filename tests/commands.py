"""Run the `flusso` command as users do: a process of its own, in a folder with its two files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from fix_postgres import Database
from market import SCHEMA
from sizes import SIZES
from waiting import wait_until

FLUSSO = [sys.executable, "-m", "flusso.cli.entry"]


class Deployment:
    """A folder with flusso.toml and its schemas, and the processes started from it."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        *,
        sink: str | None = None,
        schemas: Mapping[str, str] | None = None,
        command: Sequence[str] = FLUSSO,
        source: str = "",
        extra: str = "",
    ) -> None:
        self.folder = folder
        self.command = command
        self.database = database
        self.slot = f"slot_{database.name}"
        self.env = os.environ | {"DATABASE_URL": database.dsn.text, "FLUSSO_SLOT": self.slot}
        sink = sink or '[sinks.local]\ntype = "sqlite"\npath = "index.db"\n'
        indexes = ""
        for name, text in (schemas or {"users": SCHEMA}).items():
            (folder / f"{name}.schema.yml").write_text(text)
            indexes += f'[[index]]\nname = "{name}"\nschema = "{name}.schema.yml"\n'
        (folder / "flusso.toml").write_text(
            f'[source]\ntype = "postgres"\n{source}\n{sink}\n{indexes}{extra}'
        )

    def call(self, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def start(self, *arguments: str) -> Running:
        """Start a command in a process group of its own."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*self.command, *arguments],
                cwd=self.folder,
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return Running(self, process)

    def is_slot_free(self) -> bool:
        """Whether nobody reads the slot."""
        found = self.database.execute(
            "select active_pid is null from pg_replication_slots where slot_name = %s", self.slot
        )
        return bool(found and found[0][0])


class Running:
    """A `flusso run` under way."""

    def __init__(self, deployment: Deployment, process: subprocess.Popen[bytes]) -> None:
        self.deployment = deployment
        self.process = process

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.family():
            _kill(pid)
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        return (self.deployment.folder / "log").read_text()

    def wait_for(self, text: str, *, count: int = 1, timeout_s: float = SIZES.patience_s) -> None:
        """Wait for a line in the log; a process that ended cannot write it any more."""

        def look() -> bool:
            found = self.log().count(text) >= count
            assert found or self.process.poll() is None, f"ended with {self.process.returncode}: {self.log()}"
            return found

        wait_until(look, what=lambda: f"{text!r} in the log: {self.log()}", timeout_s=timeout_s)

    def wait_end(self, timeout_s: float = 60) -> int:
        return self.process.wait(timeout_s)

    def family(self) -> list[int]:
        """The pids of all that it started."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child.pid for child in children]

    def find(self, word: str) -> int:
        """The pid of the child whose command line has this word, the youngest of them."""

        def look() -> int:
            found = [
                child.pid
                for child in psutil.Process(self.process.pid).children(recursive=True)
                if word in " ".join(_command_line(child))
            ]
            return found[-1] if found else 0

        return wait_until(look, what=f"a process with {word}")

    def signal_group(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)


def assert_gone(pids: list[int], *, timeout_s: float = 15) -> None:
    """None of these processes is left."""
    wait_until(
        lambda: not [pid for pid in pids if _is_running(pid)], what=f"{pids} to be gone", timeout_s=timeout_s
    )


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
