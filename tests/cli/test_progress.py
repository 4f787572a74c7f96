"""Progress of a seed and of a verification: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from flusso.cli.progress import seed_bars
from flusso.cli.report import printable
from flusso.engine.events import (
    Repaired,
    Retrying,
    SeedAdvanced,
    SeedFinished,
    SeedStarted,
    VerifyAdvanced,
    VerifySettled,
)
from flusso.ops.logs import describe
from flusso.seeding import Seeding

ROWS = VerifyAdvanced("users", "rows", 50, 100, 3000, 7, 2.0)
SEEDING = Seeding(done=60, blocks=100, documents=120_000, bytes=90_000_000, seconds=30.0)
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


def test_a_seed_has_a_bar_with_its_share_its_rate_and_how_long_it_takes() -> None:
    output = io.StringIO()
    with seed_bars(Console(file=output, width=120, force_terminal=True, color_system=None)) as listen:
        listen(SeedAdvanced("users", ("local",), SEEDING))
        listen(SeedStarted("orders", ("local",), Seeding(blocks=10)))
        listen(SeedAdvanced("tags", ("local",), replace(SEEDING, done=100)))
        listen(SeedFinished("items", ("local",), 5000, 3725.0))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue())
    assert re.search(r"seed users .* 60%  120,000 docs  4,000/s  3\.0 MB/s  20s left", text)
    assert re.search(r"seed orders .* 0%  0 docs  0/s  0\.0 MB/s *$", text, re.MULTILINE)
    assert re.search(r"seed tags .* 100%  120,000 docs  4,000/s  3\.0 MB/s *$", text, re.MULTILINE)
    assert re.search(r"seed items .* 5,000 docs in 1h02m", text)


def test_without_a_terminal_a_seed_is_a_line_with_the_same_numbers() -> None:
    assert describe(SeedAdvanced("users", ("local", "other"), SEEDING)) == (
        "seed advanced index=users sinks=local,other percent=60 documents=120000 mb=90.0 docs_per_s=4000 "
        "mb_per_s=3.0 left_s=20"
    )
    assert describe(SeedStarted("users", ("local",), Seeding(blocks=10))) == (
        "seed started index=users sinks=local percent=0 documents=0 mb=0.0 docs_per_s=0 mb_per_s=0.0"
    )
    assert describe(SeedFinished("users", ("local",), 5000, 12.34)) == (
        "seed finished index=users sinks=local documents=5000 seconds=12.3"
    )


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
