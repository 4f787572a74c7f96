"""Progress of a verification: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re

from rich.console import Console

from flusso.cli.progress import seed_bars
from flusso.engine.events import Repaired, VerifyAdvanced, VerifySettled
from flusso.ops.logs import describe

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
