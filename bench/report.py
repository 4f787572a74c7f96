"""What was measured, as a table: printed at the end of a run, and kept in docs/benchmarks.md on request.

Pure: values in, text out. Only `write_result` touches a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BEGIN = "<!-- last result: written by `python -m bench --write` -->"
END = "<!-- end of last result -->"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `is_met` is None where there is no aim."""

    measure: str
    result: str
    aim: str = "–"
    is_met: bool | None = None
    detail: str = ""

    @property
    def verdict(self) -> str:
        """Whether the aim is met, in a word."""
        return "–" if self.is_met is None else "yes" if self.is_met else "**no**"


def percentile(values: Sequence[float], percent: float) -> float:
    """Give the smallest value that at least so many per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def thousands(value: float) -> str:
    """Write a rate the way people say it."""
    return f"{value / 1000:.1f} k" if value >= 1000 else f"{value:.0f}"


def render_table(rows: Sequence[Row]) -> str:
    """Draw the rows as a Markdown table whose columns line up."""
    cells = [("measured", "result", "aim", "met")]
    cells += [(row.measure, row.result, row.aim, row.verdict) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    lines = ["| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |"
             for line in cells]  # fmt: skip
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def render_result(rows: Sequence[Row], when: str, machine: str, command: str) -> str:
    """Put date, machine, table and details together."""
    details = [f"- {row.measure}: {row.detail}" for row in rows if row.detail]
    parts = [f"{when}, {machine}.", render_table(rows)]
    if details:
        parts.append("\n".join(details))
    parts.append(f"Made by `{command}`.")
    return "\n\n".join(parts)


def replace_result(page: str, result: str) -> str:
    """Put a result in place of the last one."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    changed, count = pattern.subn(lambda _: f"{BEGIN}\n\n{result}\n\n{END}", page)
    if count != 1:
        raise ValueError("the page has no place for a result")
    return changed


def write_result(page: Path, result: str) -> None:
    """Keep a result in the page."""
    page.write_text(replace_result(page.read_text(), result))
