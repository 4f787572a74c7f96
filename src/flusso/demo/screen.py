"""How the demo looks: ticks, a bar for the seed, before and after side by side.

Fits 80 columns. On a terminal with colours, a spinner and a moving bar; otherwise the same as plain lines.
Draws only, and only from the main thread; what there is to say is `story`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from flusso.cli.progress import describe_pace, seed_bars
from flusso.engine.events import Event, Listener, SeedAdvanced, SeedFinished, SeedStarted

_LEFT = 4
_NUMBERS = "①②③④⑤"


class Screen:
    """Draws on one console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str = "", *, style: str | None = None) -> None:
        """Print a line."""
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def done(self, what: str, seconds: float) -> None:
        """Tick a step off."""
        self._console.print(
            f"  [green]✓[/green] {what:<62}[dim]{duration(seconds):>10}[/dim]", highlight=False
        )

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Show that something takes its time."""
        if self._console.is_terminal:
            with self._console.status(f"[dim]{text}…[/dim]"):
                yield
        else:
            self.say(f"    {text}…")
            yield

    @contextmanager
    def seeding(self) -> Iterator[Listener]:
        """Give a listener that draws how far the seed is; other events are left out."""
        if self._console.is_terminal:
            with seed_bars(self._console, others=lambda event: None) as listener:
                yield listener
        else:
            yield self._tell_advance

    def _tell_advance(self, event: Event) -> None:
        match event:
            case SeedStarted(index):
                self.say(f"    seed {index}: started")
            case SeedAdvanced(index, _, seeding):
                self.say(f"    seed {index}: {describe_pace(seeding)}")
            case SeedFinished(index, _, documents, seconds):
                self.say(f"    seed {index}: whole  {documents:,} docs in {duration(seconds)}")
            case _:
                pass

    def act(self, number: int, title: str, statement: str) -> None:
        """Announce a change."""
        self._console.print(f"\n[bold cyan]{_NUMBERS[number - 1]}[/bold cyan] [bold]{title}[/bold]")
        self.say(" " * _LEFT + statement, style="dim")

    def compare(self, document: str, rows: Sequence[tuple[str, str, str]]) -> None:
        """Show what a change did to a document."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(document, style="dim", min_width=16)
        table.add_column("before", min_width=22)
        table.add_column("after", style="bold")
        for row in rows:
            table.add_row(*row)
        self._console.print(Padding.indent(table, _LEFT), highlight=False)

    def arrived(self, text: str) -> None:
        """State the figure that matters."""
        self._console.print(f"    [green]✓ {text}[/green]", highlight=False)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Print rows in columns."""
        grid = Table.grid(padding=(0, 3, 0, 0))
        for row in rows:
            grid.add_row(*row)
        self._console.print(Padding.indent(grid, _LEFT), highlight=False)


def duration(seconds: float) -> str:
    """Write a time as a reader wants it: milliseconds, then tenths, then whole seconds."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
