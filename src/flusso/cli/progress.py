"""Show events while the engine runs: bars on a terminal, plain lines otherwise. Always on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from flusso.engine.events import Event, Listener, SeedAdvanced, SeedFinished, SeedStarted, VerifyAdvanced
from flusso.ops.logs import describe


@contextmanager
def show_progress() -> Iterator[Listener]:
    """Give a listener that prints, fit for what stderr is."""
    if sys.stderr.isatty():
        with seed_bars(Console(stderr=True)) as listener:
            yield listener
    else:
        yield print_line


def print_line(event: Event) -> None:
    """Print an event as a log line with its time."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(f"{now} {describe(event)}", file=sys.stderr, flush=True)


@contextmanager
def seed_bars(console: Console, *, others: Listener | None = None) -> Iterator[Listener]:
    """Give a listener that draws a bar for each index being seeded or verified; other events are lines."""
    progress = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[documents]:,} docs  {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        expand=True,
    )
    bars: dict[str, TaskID] = {}
    lock = threading.Lock()

    def listen(event: Event) -> None:
        with lock:
            match event:
                case SeedStarted(index, ranges):
                    bars[index] = progress.add_task(f"seed {index}", total=ranges, documents=0, rate=0.0)
                case SeedAdvanced(index, done, _, documents, _, seconds):
                    rate = documents / seconds if seconds else 0.0
                    progress.update(bars[index], completed=done, documents=documents, rate=rate)
                case VerifyAdvanced(index, part, done, total, documents, _, seconds):
                    name = f"verify {index}" if part == "rows" else f"verify {index}, documents held"
                    if name not in bars:
                        bars[name] = progress.add_task(name, documents=0, rate=0.0)
                    rate = documents / seconds if seconds else 0.0
                    progress.update(bars[name], completed=done, total=total, documents=documents, rate=rate)
                case SeedFinished(index):
                    progress.update(bars[index], completed=progress.tasks[bars[index]].total)
                case _ if others is not None:
                    others(event)
                case _:
                    progress.console.print(f"[dim]{describe(event)}", highlight=False)

    with progress:
        yield listen
