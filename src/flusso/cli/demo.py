"""`flusso demo`: the whole thing on one machine, with nothing to install."""

from __future__ import annotations

import io
import signal
import sys
import threading
import time
from typing import Annotated

import typer
from rich.console import Console

from flusso.demo.screen import Screen, duration
from flusso.demo.stage import Interrupted, Stage
from flusso.demo.story import tell_story

_INTERRUPTED = 130


def demo(
    keep: Annotated[
        bool,
        typer.Option("--keep", envvar="FLUSSO_KEEP", help="Stay up until Ctrl-C, to try things out."),
    ] = False,
) -> None:
    """Show flusso at work: a Postgres, a Spark, a search index, live changes."""
    stop = _catch_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    screen = Screen(Console())
    is_interrupted = False
    with Stage(stop) as stage:
        try:
            tell_story(stage, screen, keep=keep)
        except Interrupted:
            is_interrupted = True
        screen.say("\nClearing up…" if not is_interrupted else "\nStopping…", style="dim")
        ended_s = time.monotonic()
    screen.say(
        f"Done in {duration(time.monotonic() - ended_s)}: no process, slot or file is left.", style="dim"
    )
    if is_interrupted:
        raise typer.Exit(_INTERRUPTED)


def _catch_signals() -> threading.Event:
    """Turn signals into a request to stop. Further ones change nothing: the way out is short already."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop
