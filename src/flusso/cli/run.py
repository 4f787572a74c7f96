"""`flusso run`: seed what is unseeded, then follow for ever."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Annotated

import typer

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.located import placed
from flusso.cli.options import DEFAULT_CONFIG, Config, Prefix, Publication, Slot
from flusso.cli.progress import show_progress
from flusso.config.lock import SUFFIX
from flusso.engine.events import Noticed
from flusso.engine.pipeline import run_pipeline
from flusso.errors import OutputClosed

_SECOND_SIGNAL = 130
_SHOW_CURSOR = b"\x1b[?25h"


def run(
    config: Config = DEFAULT_CONFIG,
    once: Annotated[
        bool,
        typer.Option("--once", envvar="FLUSSO_ONCE", help="Seed, catch up, and exit instead of following."),
    ] = False,
    locked: Annotated[
        bool,
        typer.Option(
            "--locked",
            envvar="FLUSSO_LOCKED",
            help="Run by the lock beside the deployment file, not by the files.",
        ),
    ] = False,
    slot: Slot = None,
    publication: Publication = None,
    index_prefix: Prefix = None,
    skip_backfill: Annotated[
        bool,
        typer.Option(envvar="FLUSSO_SKIP_BACKFILL", help="Follow from now on; take the indexes as seeded."),
    ] = False,
) -> None:
    """Keep the indexes in step with the database."""
    if locked:
        config = config.with_suffix(SUFFIX)
    deployment = load(config, slot=slot, publication=publication, prefix=index_prefix)
    spec = pipeline_spec(deployment, is_once=once, skips_seed=skip_backfill)
    stop = stop_on_signal()
    with placed(deployment), show_progress() as tell:
        for finding in deployment.warnings:
            tell(Noticed(finding))
        # Whoever reads the lines may have enough, as `| head` does: no error, and nothing more is confirmed.
        with contextlib.suppress(OutputClosed):
            run_pipeline(spec, tell, stop)


def stop_on_signal() -> threading.Event:
    """Turn the first SIGINT or SIGTERM into a request to stop; a second one exits at once."""
    stop = threading.Event()

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            if sys.stderr.isatty():  # a bar may have hidden it
                os.write(sys.stderr.fileno(), _SHOW_CURSOR)
            os._exit(_SECOND_SIGNAL)
        stop.set()

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
    return stop
