"""Show findings: with the line they are about on a terminal or in a log, or as JSON for scripts.

Every command that meets findings shows them through here. Colour is rich's decision: on a terminal, unless
NO_COLOR is set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from flusso.diagnostic import Diagnostic, Excerpt, Severity

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
_ARROW = "-->"


def open_console(*, stderr: bool) -> Console:
    """Give a console that neither wraps lines nor colours what it takes for numbers."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True, emoji=False, markup=False)


def print_findings(console: Console, findings: Iterable[Diagnostic]) -> None:
    """Print each finding with its place, its line and what to do, an empty line after each."""
    for finding in findings:
        console.print(_render(finding))


def summarize(findings: Sequence[Diagnostic]) -> str:
    """Count findings in words: `2 errors, 1 warning`."""
    counts = Counter(finding.severity for finding in findings)
    words = [
        f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in Severity
        if counts[severity]
    ]
    return ", ".join(words) or "no findings"


def to_json(finding: Diagnostic) -> dict[str, object]:
    """Give what scripts may rely on; a place that is not known is null."""
    return {
        "severity": finding.severity.value,
        "code": finding.code.value,
        "message": finding.message,
        "hint": finding.hint,
        "index": finding.index or None,
        "field": finding.field or None,
        "file": finding.file or None,
        "line": finding.line or None,
        "column": finding.column or None,
        "length": finding.length or None,
        "path": finding.path or None,
    }


def printable(text: str) -> str:
    """Make control characters visible, so that a file cannot command the terminal; line breaks stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def _render(finding: Diagnostic) -> Text:
    style = _STYLES[finding.severity]
    subject = f"{finding.path}: " if finding.path and not finding.index else ""
    text = Text.assemble(
        (f"{finding.severity}[{finding.code}]", style),
        (f": {printable(subject + finding.message)}\n", "bold"),
    )
    gutter = " " * len(str(finding.line)) if finding.excerpt is not None else " "
    if place := _place(finding):
        text.append(f"{gutter}{_ARROW} ", "blue").append(f"{printable(place)}\n")
    if finding.excerpt is not None:
        _append_excerpt(text, finding.excerpt, str(finding.line), style)
    if finding.hint:
        # SQL of several lines stays in one column.
        hint = printable(finding.hint).replace("\n", f"\n{gutter}         ")
        text.append(f"{gutter} = ", "blue").append("help: ", "bold").append(f"{hint}\n")
    return text


def _place(finding: Diagnostic) -> str:
    parts = [finding.where]
    if finding.index:
        parts.append(f'index "{finding.index}"' + (f', field "{finding.field}"' if finding.field else ""))
    return "  ".join(part for part in parts if part)


def _append_excerpt(text: Text, excerpt: Excerpt, line: str, style: str) -> None:
    gutter = " " * len(line)
    before, marked = excerpt.text[: excerpt.start], excerpt.text[excerpt.start :][: excerpt.length]
    text.append(f"{gutter} |\n", "blue")
    text.append(f"{line} | ", "blue").append(f"{excerpt.text}\n")
    # Wide characters take two cells: the mark is placed by cells, not by characters.
    text.append(f"{gutter} | ", "blue").append(" " * cell_len(before))
    text.append("^" * max(1, cell_len(marked)) + "\n", style)
