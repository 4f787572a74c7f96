"""Show events while the engine runs: bars on a terminal, plain lines otherwise. Always on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

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
    """Print an event as a log line with its time."""
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    print(f"{now}Z {describe(event)}", file=sys.stderr, flush=True)


@contextmanager
def seed_bars(console: Console, *, others: Listener | None = None) -> Iterator[Listener]:
    """Give a listener that draws a bar for each index being seeded or verified; other events are lines."""
    progress = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[pace]}"),
        console=console,
        expand=True,
    )
    bars: dict[tuple[str, tuple[str, ...]], TaskID] = {}
    lock = threading.Lock()

    def advance(index: str, sinks: tuple[str, ...], seeding: Seeding) -> None:
        progress.update(
            bars[index, sinks], completed=seeding.done, total=seeding.blocks, pace=describe_pace(seeding)
        )

    def listen(event: Event) -> None:
        with lock:
            match event:
                case SeedStarted(index, sinks, seeding):
                    bars[index, sinks] = progress.add_task(f"seed {index}", pace="")
                    advance(index, sinks, seeding)
                case SeedAdvanced(index, sinks, seeding):
                    advance(index, sinks, seeding)
                case VerifyAdvanced(index, part, done, total, documents, _, seconds):
                    bar = bars.get((index, (part,)))
                    if bar is None:
                        name = f"verify {index}" if part == "rows" else f"verify {index}, documents held"
                        bar = bars[index, (part,)] = progress.add_task(name, pace="")
                    rate = documents / seconds if seconds else 0.0
                    pace = f"{done / total if total else 1:4.0%}  {documents:,} docs  {rate:,.0f}/s"
                    progress.update(bar, completed=done, total=total, pace=pace)
                case SeedFinished(index, sinks, documents, seconds):
                    pace = f"{documents:,} docs in {describe_time(seconds)}"
                    progress.update(bars[index, sinks], completed=1, total=1, pace=pace)
                case _ if others is not None:
                    others(event)
                case _:
                    progress.console.print(f"[dim]{describe(event)}", highlight=False)

    with progress:
        yield listen


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
