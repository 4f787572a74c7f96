"""Show events while the engine runs: bars on a terminal, plain lines otherwise. Always on stderr."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from flusso.cli.report import printable
from flusso.engine.events import Event, Listener, SeedAdvanced, SeedFinished, SeedStarted, VerifyAdvanced
from flusso.ops.logs import describe
from flusso.seeding import Seeding


@contextmanager
def show_progress() -> Iterator[Listener]:
    """Give a listener that prints, fit for what stderr is."""
    if sys.stderr.isatty():
        with seed_bars(Console(stderr=True)) as listener:
            yield listener
    else:
        yield print_line


def print_line(event: Event) -> None:
    """Print an event as a log line with its time; to nobody when stderr is closed, as after `2>&1 | head`."""
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    try:
        print(f"{now}Z {describe(event)}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        # Whatever else is printed there, by the interpreter at its end too, must not trip over it.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stderr.fileno())
        os.close(nothing)


@contextmanager
def seed_bars(console: Console, *, others: Listener | None = None) -> Iterator[Listener]:
    """Give a listener that draws a bar for each index being seeded or verified; other events are lines."""
    bars = Bars(console, others)
    with bars.progress:
        yield bars.listen


class Bars:
    """Bars on a terminal. No text is read as markup: what an error says is not ours."""

    def __init__(self, console: Console, others: Listener | None = None) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[pace]}", markup=False),
            console=console,
            expand=True,
        )
        self._others = others or self._print
        self._bars: dict[tuple[str, tuple[str, ...]], TaskID] = {}
        self._lock = threading.Lock()

    def listen(self, event: Event) -> None:
        """Draw what an event says."""
        with self._lock:
            match event:
                case SeedStarted(index, sinks, seeding) | SeedAdvanced(index, sinks, seeding):
                    pace = describe_pace(seeding)
                    self._draw(f"seed {index}", (index, sinks), seeding.done, seeding.blocks, pace)
                case SeedFinished(index, sinks, documents, seconds):
                    pace = f"{documents:,} docs in {describe_time(seconds)}"
                    self._draw(f"seed {index}", (index, sinks), 1, 1, pace)
                case VerifyAdvanced(index, part, done, total, documents, _, seconds):
                    name = f"verify {index}" if part == "rows" else f"verify {index}, documents held"
                    rate = documents / seconds if seconds else 0.0
                    pace = f"{done / total if total else 1:4.0%}  {documents:,} docs  {rate:,.0f}/s"
                    self._draw(name, (index, (part,)), done, total, pace)
                case _:
                    self._others(event)

    def _draw(self, name: str, key: tuple[str, tuple[str, ...]], done: int, total: int, pace: str) -> None:
        bar = self._bars.get(key)
        if bar is None:
            bar = self._bars[key] = self.progress.add_task(name, pace="")
        self.progress.update(bar, completed=done, total=total, pace=pace)

    def _print(self, event: Event) -> None:
        line = printable(describe(event))
        self.progress.console.print(line, style="dim", markup=False, emoji=False, highlight=False)


def describe_pace(seeding: Seeding) -> str:
    """Say for a reader how far a seed has come, how fast it goes and how long it will take."""
    left = "" if seeding.left_s is None else f"  {describe_time(seeding.left_s)} left"
    return (
        f"{seeding.share:4.0%}  {seeding.documents:,} docs  {seeding.documents_per_s:,.0f}/s  "
        f"{seeding.bytes_per_s / 1e6:.1f} MB/s{left}"
    )


def describe_time(seconds: float) -> str:
    """Write how long something takes, as roughly as a reader wants it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
