"""Ctrl-C at moments that a test of a whole run does not meet."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

WHILE_IMPORTING = """
import os, signal, sys
from flusso.cli import entry

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "flusso.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
entry.main()
"""
TWICE = """
import os, signal
from flusso.cli.run import stop_on_signal

stop_on_signal()
os.kill(os.getpid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGINT)
"""


def test_ctrl_c_while_the_command_is_still_loading_ends_it_without_a_word() -> None:
    ended = subprocess.run([sys.executable, "-c", WHILE_IMPORTING], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_a_second_signal_on_a_terminal_shows_the_cursor_again() -> None:
    ours, theirs = pty.openpty()
    try:
        ended = subprocess.run([sys.executable, "-c", TWICE], stderr=theirs, timeout=60)
        assert ended.returncode == 130
        assert os.read(ours, 1024).endswith(b"\x1b[?25h")
    finally:
        os.close(ours)
        os.close(theirs)
