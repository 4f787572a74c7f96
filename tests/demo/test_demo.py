"""The demo as a user runs it: a program of its own, from start to end, and interrupted on the way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from leftovers import own_temporary_folder, processes_of, scratch_folders
from waiting import wait_until

pytestmark = pytest.mark.spark

FLUSSO = [sys.executable, "-m", "flusso.cli.entry"]
PATIENCE_S = 180.0


@dataclass
class Demo:
    """A demo at work, with all its temporary files in a folder that is looked at afterwards."""

    process: subprocess.Popen[bytes]
    home: Path
    output: Path

    def text(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str) -> None:
        def has_words() -> bool:
            assert self.process.poll() is None, f"it ended early: {self.text()}"
            return words in self.text()

        wait_until(has_words, what=repr(words), timeout_s=PATIENCE_S)

    def interrupt(self) -> None:
        """Press Ctrl-C: the whole process group gets the signal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def assert_nothing_is_left(self) -> None:
        assert processes_of(self.home) == []
        assert list(self.home.iterdir()) == []
        wait_until(lambda: not scratch_folders(self.process.pid), what="no scratch folder", timeout_s=10)


@contextmanager
def started_demo(*arguments: str) -> Iterator[Demo]:
    with own_temporary_folder() as folder, own_temporary_folder() as home:
        output = folder / "output"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [*FLUSSO, "demo", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"TMPDIR": str(home), "PYTHONUNBUFFERED": "1"},
            )
        try:
            yield Demo(process, home, output)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)


@pytest.fixture(scope="module")
def finished() -> Iterator[Demo]:
    """A demo that ran to its end, looked at by several tests."""
    with started_demo() as demo:
        demo.wait()
        yield demo


def test_the_demo_ends_by_itself_with_a_summary(finished: Demo) -> None:
    assert finished.process.returncode == 0, finished.text()
    assert re.search(r"^Summary: the whole demo took \d+ s$", finished.text(), re.MULTILINE)


def test_the_demo_leaves_nothing_behind(finished: Demo) -> None:
    finished.assert_nothing_is_left()


def test_the_demo_shows_each_change_before_and_after(finished: Demo) -> None:
    text = finished.text()
    assert re.search(r"orderCount +4 +5\b", text)
    assert re.search(r"category +Books +Cookbooks & Stories", text)
    assert re.search(r"orderCount +5 +4\b", text)


def test_the_demo_shows_how_long_each_change_took(finished: Demo) -> None:
    took = re.findall(r"✓ ([\d,]+) documents? searchable [\d.]+ m?s after the commit", finished.text())
    assert took == ["1", "3,528", "1"]


def test_the_demo_shows_a_full_text_search(finished: Demo) -> None:
    assert "flusso search customers 'giulia cookbook stories'" in finished.text()
    assert "the best 3, found in" in finished.text()


MOMENTS = {
    "while Postgres and the JVM start": "starting Postgres",
    "while the shop is loaded": "Postgres 18",
    "while seeding": "seed customers: started",
}


@pytest.mark.parametrize("words", MOMENTS.values(), ids=MOMENTS.keys())
def test_an_interrupt_at_any_moment_ends_the_demo_in_order(words: str) -> None:
    with started_demo() as demo:
        demo.wait_for(words)
        demo.interrupt()
        assert demo.wait() == 130, demo.text()
        assert "Traceback" not in demo.text()
        assert "Summary" not in demo.text()
        demo.assert_nothing_is_left()


def test_a_kept_demo_can_be_searched_from_outside_and_ends_in_order_with_an_interrupt() -> None:
    with started_demo("--keep") as demo:
        demo.wait_for("Ctrl-C ends it")
        config = re.search(r"status -c (\S+)", demo.text())
        assert config is not None
        search = [*FLUSSO, "search", "customers", "giulia novak", "-c", config.group(1)]
        found = subprocess.run(search, capture_output=True, text=True, timeout=60, check=True)
        assert "10 hit(s)" in found.stdout
        demo.interrupt()
        assert demo.wait() == 0
        demo.assert_nothing_is_left()
