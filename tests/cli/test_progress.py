"""Progress of a verification: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

from flusso.cli.progress import seed_bars
from flusso.cli.report import printable
from flusso.engine.events import Repaired, Retrying, SeedStarted, VerifyAdvanced, VerifySettled
from flusso.ops.logs import describe
from flusso.seeding import Seeding

ROWS = VerifyAdvanced("users", "rows", 50, 100, 3000, 7, 2.0)
HELD = VerifyAdvanced("users", "held", 900, 1000, 900, 7, 3.0)


def test_each_part_of_a_verification_has_a_bar_with_its_rate() -> None:
    output = io.StringIO()
    with seed_bars(Console(file=output, width=120, force_terminal=True, color_system=None)) as listen:
        for event in (ROWS, HELD, VerifySettled("users", 7, 2, 1.0), Repaired("users", "local", 1, 1)):
            listen(event)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue())
    assert re.search(r"verify users .*50% +3,000 docs +1,500/s", text)
    assert re.search(r"verify users, documents held .*90% +900 docs +300/s", text)
    assert "verify looked again index=users suspects=7 differences=2" in text
    assert "repaired index=users sink=local written=1 removed=1" in text


def test_without_a_terminal_an_advance_is_a_line_with_its_fields() -> None:
    assert describe(ROWS) == (
        "verify advanced index=users part=rows done=50/100 documents=3000 suspects=7 docs_per_s=1500"
    )


PRINT_TWO = """
from flusso.cli.progress import print_line
from flusso.engine.events import Waiting
print_line(Waiting("one"))
print_line(Waiting("two"))
print("done")
"""


def test_lines_that_nobody_reads_any_more_stop_nothing() -> None:
    out, closed = os.pipe()
    os.close(out)
    with os.fdopen(closed, "wb") as stderr:
        ended = subprocess.run([sys.executable, "-c", PRINT_TWO], stdout=subprocess.PIPE, stderr=stderr)
    assert (ended.returncode, ended.stdout) == (0, b"done\n")


@pytest.mark.parametrize(
    "text", ["index [users_ab_1] blocked", "closed by [/x]", "at :warning: [bold", "a\x1b[2J"]
)
def test_what_an_error_says_is_shown_as_it_is_and_not_read_as_markup(text: str) -> None:
    output = io.StringIO()
    with seed_bars(Console(file=output, width=200, force_terminal=True, color_system=None)) as listen:
        listen(Retrying(text, 1, 0.0, 0.0))
        listen(SeedStarted("[users]", ("local",), Seeding()))
    assert f"because: {printable(text)}" in output.getvalue()
    assert "seed [users]" in output.getvalue()
